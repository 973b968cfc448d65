//! The pace between two refusals, as a function of time.
//!
//! A cubic, as in TCP CUBIC (RFC 9438): start a little below the measured rate, come back to it, creep past it, then
//! search ever faster. Its time scale comes from the measure itself, so that the same few numbers serve 0.1/s and 100/s.
//! Refusals hit processes that share a token in proportion to their pace while small shares grow equally per second:
//! hence the shares drift together.

use std::time::Duration;

use super::FULL_MEASURE;
use super::measure::{LONGEST_GAP, Measure};

/// Calls behind a measure of which nothing but a first guess is known.
const GUESSED_CALLS: f64 = 2.0;

/// Longest first hold that a first guess is read from, in seconds.
const LONGEST_GUESS: f64 = 2.0;

/// Shortest hold that a first guess is read from, in seconds. Guards against zero only.
const SHORTEST_HOLD: f64 = 1e-3;

/// The time to come back to the measured rate is at least this many holds, so that an epoch (2.5 times as long) is at
/// least ten: a fast limiter that announces whole seconds is then held for at most 1/11 of the time. Without it 5 %
/// instead of 1 % of the calls to a 100/s limiter were refused.
const HOLDS: f64 = 4.0;

/// Longest time to come back at full measure, in seconds. Without it the slowest of three processes took 2.5 times the
/// ideal time for 300 resources; with it a share under 25 calls a minute is measured a little more coarsely.
const LONGEST_RETURN: f64 = 60.0;

/// The lowest pace is this part of the measured rate: the quarter saved is what the search spends.
const FLOOR: f64 = 0.75;

/// The pace after an admitted probe.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Search {
    /// The measured rate in calls per second (g).
    pub(super) rate: f64,
    /// Calls behind the measure, 2 to 25 (m): it errs by one part in this many.
    pub(super) calls: f64,
    /// Seconds until the pace is back at the measured rate (K), at most 60.
    pub(super) period: f64,
    /// When the probe was admitted.
    start: Duration,
}

impl Search {
    /// Starts from what is known, or from a guess: one call per first hold. `hold` is in seconds, from the first refusal
    /// to the instant the admitted probe was allowed at.
    pub(super) fn start(measure: &Measure, hold: f64, now: Duration) -> Self {
        let (rate, calls) = match measure.rate() {
            Some(rate) => (rate, measure.calls.clamp(GUESSED_CALLS, FULL_MEASURE)),
            None => (1.0 / hold.clamp(SHORTEST_HOLD, LONGEST_GUESS), GUESSED_CALLS),
        };
        let per_call = (1.0 / rate).max(HOLDS * hold / FULL_MEASURE).min(LONGEST_RETURN / FULL_MEASURE);
        Self { rate, calls, period: calls * per_call, start: now }
    }

    /// Calls per second allowed at `now`.
    pub(super) fn pace(&self, now: Duration) -> f64 {
        let x = now.saturating_sub(self.start).as_secs_f64() / self.period - 1.0;
        (self.rate + x.powi(3) / self.period).max(FLOOR * self.rate).max(1.0 / LONGEST_GAP)
    }
}
