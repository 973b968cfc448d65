//! What an upstream's answer means to the gate.
//!
//! The gate learns its pace from refusals, so a refusal mistaken for a failure (or the reverse) would teach it wrongly:
//! the classes stand here, apart from the arithmetic, as one pure function.

use std::time::Duration;

use crate::retry_after;

/// What one call through the gate came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The upstream let the call in, whatever it then said (401, 403 and 404 included): it counts towards the rate.
    Admitted,
    /// The upstream refused the call because of its rate: the gate holds, then sends one probe.
    Throttled(Refusal),
    /// 5xx, time-out, no connection, or a permit dropped without an answer: says nothing about the rate, so it neither
    /// slows nor counts, and the running measure is void.
    Failed,
}

/// How the upstream refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It named no time: the gate's own wait applies.
    Plain,
    /// It named a time: nothing is sent before it is over. Zero is taken as [`Refusal::Plain`], more than
    /// [`retry_after::MAX`] as that.
    RetryAfter(Duration),
    /// It named no time and is of the kind that prolongs its window at each call (external-secrets/external-secrets
    /// #4107): at least ten seconds for each refused call.
    Prolonging,
}

impl Answer {
    /// Classes an HTTP answer.
    ///
    /// `retry_after` is the time still to wait, dates already turned into durations; absent, junk and past ones are
    /// `None` or zero. `says_throttled` tells that the body or its error code speaks of a quota or a throttle, which is
    /// what sets a 403 that refuses the rate apart from a 403 that refuses the caller.
    pub fn classify(status: u16, retry_after: Option<Duration>, says_throttled: bool) -> Self {
        let wish = retry_after.filter(|wish| !wish.is_zero()).map(|wish| wish.min(retry_after::MAX));
        match (status, wish) {
            (429, None) => Self::Throttled(Refusal::Plain),
            (403, None) if says_throttled => Self::Throttled(Refusal::Prolonging),
            (429 | 503, Some(wish)) => Self::Throttled(Refusal::RetryAfter(wish)),
            (403, Some(wish)) if says_throttled => Self::Throttled(Refusal::RetryAfter(wish)),
            (200..=499, _) => Self::Admitted,
            _ => Self::Failed,
        }
    }
}

impl Refusal {
    /// The time the upstream itself asked for, in seconds, within what is believed.
    pub(super) fn announced(self) -> Option<f64> {
        match self {
            Self::RetryAfter(wish) if !wish.is_zero() => Some(wish.min(retry_after::MAX).as_secs_f64()),
            Self::RetryAfter(_) | Self::Plain | Self::Prolonging => None,
        }
    }
}
