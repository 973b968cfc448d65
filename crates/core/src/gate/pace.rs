//! When the next call may be sent: the gate's state machine, which knows neither who waits nor why.
//!
//! Open (never refused): no pace, only a window of calls in flight. Hold (refused): nothing is sent before the hold is
//! over, then exactly one probe. Paced (probe admitted): one call per gap.

use std::time::Duration;

use rand::{Rng, RngExt};

use super::answer::{Answer, Refusal};
use super::measure::Measure;
use super::search::Search;
use super::wait::{PROLONGED, Wait};

/// Most calls in flight: 640 calls a second at 50 ms.
pub(super) const WIDEST_WINDOW: f64 = 32.0;

/// What an admitted call adds to the window while the gate was never refused. The overshoot at the first refusal is then
/// at most a quarter of the burst, for 13 round trips once. With a half, 19 instead of 13 % of 29 resources' calls are
/// refused.
const OPENING: f64 = 0.25;

/// Part of the last gap that the next is at least: the pace at most doubles per call. Without it hourly bursts of three
/// processes see twice the refusals.
const STEEPEST: f64 = 0.5;

/// Wait after a failed probe, in seconds.
const AFTER_FAILED_PROBE: f64 = 1.0;

/// Leave to send one call. It must come back through [`answered`](super::Gate::answered), however the call ended: a lost
/// permit is a slot lost for ever.
#[derive(Debug, PartialEq)]
#[must_use = "a permit that does not come back is a slot lost for ever"]
pub struct Permit {
    /// Refusals known when the call was sent: an answer of an older epoch belongs to an event already acted on.
    epoch: u64,
    /// Calls in flight, this one included.
    in_flight: usize,
    /// Seconds since the send before; infinite for the first.
    spacing: f64,
}

/// Whether a call may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Now,
    At(Duration),
    AfterAnswer,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    Open,
    Hold(Hold),
    Paced(Search),
}

/// From a refusal to an admitted probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hold {
    first_refusal: Duration,
    /// When the probe was sent, while it is out.
    probe: Option<Duration>,
}

/// The state machine of one credential.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pace {
    pub(super) phase: Phase,
    pub(super) in_flight: usize,
    /// Calls in flight allowed, as a fraction that grows with each admitted call.
    pub(super) window: f64,
    pub(super) measure: Measure,
    pub(super) wait: Wait,
    /// Nothing is sent before this instant, in any phase.
    pub(super) hold: Duration,
    /// When the next call is due by the pace.
    pub(super) next: Duration,
    /// Seconds between the last paced calls.
    pub(super) gap: f64,
    last_sent: Option<Duration>,
    epoch: u64,
    /// Refused calls so far.
    pub(super) refused: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            phase: Phase::Open,
            in_flight: 0,
            window: 1.0,
            measure: Measure::default(),
            wait: Wait::default(),
            hold: Duration::ZERO,
            next: Duration::ZERO,
            gap: 0.0,
            last_sent: None,
            epoch: 0,
            refused: 0,
        }
    }
}

impl Pace {
    /// Whether a call may be sent at `now`.
    pub(super) fn may_send(&self, now: Duration) -> Leave {
        let at = match &self.phase {
            Phase::Hold(Hold { probe: Some(_), .. }) => return Leave::AfterAnswer,
            Phase::Hold(Hold { probe: None, .. }) => self.hold,
            Phase::Open | Phase::Paced(_) if self.in_flight as f64 >= self.window.floor() => return Leave::AfterAnswer,
            Phase::Open | Phase::Paced(_) => self.next,
        };
        if at <= now { Leave::Now } else { Leave::At(at) }
    }

    /// A call is being sent at `now`, which [`may_send`](Self::may_send) allowed.
    pub(super) fn sent(&mut self, now: Duration) -> Permit {
        self.in_flight += 1;
        let spacing = self.last_sent.map_or(f64::INFINITY, |last| seconds_between(last, now));
        self.last_sent = Some(now);
        let allowed_at = self.next;
        match &mut self.phase {
            Phase::Open => {}
            Phase::Hold(hold) => hold.probe = Some(now),
            Phase::Paced(search) => {
                self.gap = (1.0 / search.pace(now)).max(STEEPEST * self.gap);
                self.next = after(now, self.gap);
            }
        }
        self.measure.sent(seconds_between(allowed_at, now), self.gap);
        Permit { epoch: self.epoch, in_flight: self.in_flight, spacing }
    }

    /// The call of `permit` came to `answer` at `now`.
    pub(super) fn answered<R: Rng + ?Sized>(&mut self, permit: &Permit, now: Duration, answer: Answer, rng: &mut R) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match answer {
            Answer::Admitted => self.admitted(permit, now),
            Answer::Throttled(refusal) => self.throttled(permit, now, refusal, rng),
            Answer::Failed => self.failed(permit, now),
        }
    }

    fn admitted(&mut self, permit: &Permit, now: Duration) {
        self.measure.admitted();
        if permit.epoch != self.epoch {
            return;
        }
        match &self.phase {
            Phase::Open => self.window = (self.window + OPENING).min(WIDEST_WINDOW),
            Phase::Paced(search) => self.window = (self.window + 1.0 / search.calls).min(WIDEST_WINDOW),
            Phase::Hold(hold) => {
                let hold = *hold;
                self.probe_admitted(hold, now);
            }
        }
    }

    fn probe_admitted(&mut self, hold: Hold, now: Duration) {
        if self.wait.voids_the_past() {
            // What the upstream announced to a straggler in the meantime is no past, it still holds.
            *self = Self {
                in_flight: self.in_flight,
                hold: self.hold,
                next: now.max(self.hold),
                last_sent: self.last_sent,
                epoch: self.epoch,
                refused: self.refused,
                ..Self::default()
            };
            return;
        }
        self.wait.worked();
        let probe = hold.probe.unwrap_or(now);
        let search = Search::start(&self.measure, seconds_between(hold.first_refusal, self.hold), now);
        if self.measure.rate().is_none() {
            self.measure.start_at(probe);
        }
        self.gap = 1.0 / search.pace(now);
        self.next = after(probe, self.gap).max(now).max(self.hold);
        self.phase = Phase::Paced(search);
    }

    fn throttled<R: Rng + ?Sized>(&mut self, permit: &Permit, now: Duration, refusal: Refusal, rng: &mut R) {
        self.refused += 1;
        if permit.epoch != self.epoch {
            self.straggler_refused(now, refusal);
            return;
        }
        self.epoch += 1;
        let first_refusal = match &self.phase {
            Phase::Hold(hold) => Some(hold.first_refusal),
            Phase::Open | Phase::Paced(_) => None,
        };
        let first = first_refusal.is_none();
        self.measure.refused(now, first, permit.spacing);
        if first {
            // Small after idle time, so a burst of 29 calls costs 3 refusals, not 26.
            self.window = (permit.in_flight as f64 - 1.0).min(self.window).max(1.0);
        }
        let wait = self.wait.refused(first, self.measure.gap(), refusal, rng.random());
        // The hold stands later than `now` only if a straggler was told so: that is kept.
        self.hold = after(now, wait).max(self.hold);
        self.next = self.hold;
        self.phase = Phase::Hold(Hold { first_refusal: first_refusal.unwrap_or(now), probe: None });
    }

    /// Refused, but sent before the last refusal was known: the same event, so only the hold can move.
    fn straggler_refused(&mut self, now: Duration, refusal: Refusal) {
        if let Some(announced) = refusal.announced() {
            self.hold = self.hold.max(after(now, announced));
        } else if refusal != Refusal::Plain && matches!(self.phase, Phase::Hold(Hold { probe: None, .. })) {
            self.hold = after(self.hold, PROLONGED);
        }
        self.next = self.next.max(self.hold);
    }

    fn failed(&mut self, permit: &Permit, now: Duration) {
        self.measure.failed();
        if permit.epoch != self.epoch {
            return;
        }
        if let Phase::Hold(hold) = &mut self.phase {
            hold.probe = None;
            self.hold = self.hold.max(after(now, AFTER_FAILED_PROBE));
            self.next = self.hold;
        }
    }
}

fn seconds_between(earlier: Duration, later: Duration) -> f64 {
    later.saturating_sub(earlier).as_secs_f64()
}

fn after(instant: Duration, seconds: f64) -> Duration {
    instant.saturating_add(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
