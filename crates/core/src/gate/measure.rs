//! Our rate at the upstream, measured from one refusal to the next.
//!
//! A limiter that has just refused is empty. Calls admitted between two refusals, divided by the time between them, are
//! therefore our rate exactly, whatever the burst; and where others use the same token, they are our share of it.

use std::time::Duration;

use super::FULL_MEASURE;

/// Shortest time between two refusals that is divided by, in seconds. Guards against zero only.
const SHORTEST: f64 = 1e-6;

/// Shortest spacing of two sends that is inverted, in seconds. Guards against zero only: 10,000 calls a second.
const CLOSEST: f64 = 1e-4;

/// A measure counts while the line was idle for at most this share of it: quiet hours are no rate. Without it the first
/// burst after an hour took 70 to 110 s in simulation, with it 40 s.
const IDLE_SHARE: f64 = 1.0 / 8.0;

/// From this factor on between the rate that broke and the average, the pace was still searching and its average lags:
/// their geometric mean is taken. Without it a 100/s limiter cost 1.77 times the ideal time instead of 1.49.
const SEARCHING: f64 = 4.0;

/// The call that opens the very first measure counts half, so that a first guess far too fast teaches too. Without it a
/// limiter of 0.2/s and burst 1 refused 54 % of all calls, for ever.
const FIRST_CALL: f64 = 0.5;

/// A gap between calls above this is remembered as this, in seconds: a starved share must search again within a minute.
pub(super) const LONGEST_GAP: f64 = 60.0;

/// What the refusals so far have taught.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Measure {
    /// Admitted calls remembered (A). Zero until the first measure is complete.
    pub(super) calls: f64,
    /// Seconds in which they were admitted (T).
    pub(super) time: f64,
    /// The measure under way, from the last refusal on.
    running: Option<Running>,
}

#[derive(Debug, Clone, PartialEq)]
struct Running {
    since: Duration,
    /// Calls admitted since then, also those sent before.
    calls: f64,
    /// Seconds in which a call was allowed and nobody sent one. Infinite once a call has failed.
    idle: f64,
}

impl Measure {
    /// Our rate in calls per second, once known.
    pub(super) fn rate(&self) -> Option<f64> {
        (self.calls > 0.0).then(|| self.calls / self.time)
    }

    /// Our gap between calls in seconds, at most [`LONGEST_GAP`], once known.
    pub(super) fn gap(&self) -> Option<f64> {
        (self.calls > 0.0).then(|| (self.time / self.calls).min(LONGEST_GAP))
    }

    /// The first hold is over: it paid for our overshoot and is not measured, what follows its probe is.
    pub(super) fn start_at(&mut self, probe: Duration) {
        self.running = Some(Running { since: probe, calls: FIRST_CALL, idle: 0.0 });
    }

    pub(super) fn admitted(&mut self) {
        if let Some(running) = &mut self.running {
            running.calls += 1.0;
        }
    }

    /// A call was sent `lateness` seconds after it was allowed, with `gap` seconds between calls.
    pub(super) fn sent(&mut self, lateness: f64, gap: f64) {
        if let Some(running) = &mut self.running
            && lateness > gap
        {
            running.idle += lateness;
        }
    }

    /// A call failed: nobody knows whether it counted, so this measure cannot be trusted to be a busy one.
    pub(super) fn failed(&mut self) {
        if let Some(running) = &mut self.running {
            running.idle = f64::INFINITY;
        }
    }

    /// A refusal ends the running measure and, once anything is known, starts the next.
    ///
    /// `first` tells that the refused call was no probe; `spacing` is the time from the send before to the refused one.
    pub(super) fn refused(&mut self, now: Duration, first: bool, spacing: f64) {
        if let Some(ended) = self.running.take() {
            self.learn(&ended, now, first, spacing);
        }
        self.running = (self.calls > 0.0).then_some(Running { since: now, calls: 0.0, idle: 0.0 });
    }

    fn learn(&mut self, ended: &Running, now: Duration, first: bool, spacing: f64) {
        let time = now.saturating_sub(ended.since).as_secs_f64().max(SHORTEST);
        let busy = ended.idle <= time * IDLE_SHARE;
        if let Some(rate) = self.rate() {
            // Keeps about FULL_MEASURE expected calls; a measure that brought far fewer calls than expected has a long
            // time and so outweighs the past. An idle one counts only if it brought more: that much is certain.
            let expected = time * rate;
            if busy || ended.calls > expected {
                let keep = FULL_MEASURE / (FULL_MEASURE + expected);
                self.calls = self.calls * keep + ended.calls;
                self.time = self.time * keep + time;
            }
        } else if busy {
            self.calls = ended.calls;
            self.time = time;
        }
        if let Some(rate) = self.rate() {
            let broke = 1.0 / spacing.max(CLOSEST);
            if busy && first && broke > SEARCHING * rate {
                self.time = self.calls / (rate * broke).sqrt();
            }
        }
    }
}
