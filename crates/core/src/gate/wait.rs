//! How long to hold after a refusal.
//!
//! A constant wait never ends a storm of several processes when refusals are charged and no `Retry-After` comes, so our
//! own wait grows; one that worked is remembered, for limiters that punish calls made too early.

use super::answer::Refusal;

/// First own wait when nothing is known, in seconds.
const FIRST: f64 = 1.0;

/// Longest own wait, in seconds: the ceiling of the seed's backoff.
const LONGEST: f64 = 300.0;

/// After a wait of this many seconds whatever was learned before no longer holds: an hourly quota has begun anew, or a
/// long outage has ended.
const FORGET: f64 = 300.0;

/// First own wait in our own gaps between calls: one for the token that is missing, one for the token that a charged
/// refusal costs.
const GAPS: f64 = 2.0;

/// Part of a wait that worked which the next storm starts from. Limiters that punish calls in their window cost 2.4
/// times the ideal time with it, 3.3 without.
const REMEMBERED: f64 = 0.75;

/// Longest wait that is remembered, in seconds.
const LONGEST_REMEMBERED: f64 = 60.0;

/// Wait per refused call where the upstream names no time and prolongs its window at each call, in seconds (C19).
pub(super) const PROLONGED: f64 = 10.0;

/// An announced time is followed by up to this many of our own gaps. Our gap is as many tokens as there are processes,
/// so that processes told the same instant spread over the tokens that come after it.
const SPREAD: f64 = 2.0;

/// Spread when our gap is unknown: this part of the announced time, within the bounds below (seconds).
const UNKNOWN_SPREAD: f64 = 0.25;
const SHORTEST_UNKNOWN_SPREAD: f64 = 0.25;
const LONGEST_UNKNOWN_SPREAD: f64 = 60.0;

/// The waits of one storm and what is remembered of the last.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Wait {
    /// Our own wait in seconds, before jitter; doubles with each refused probe.
    pub(super) own: f64,
    /// Our own wait in seconds that last ended in an admitted probe.
    worked: f64,
    /// The last wait in seconds, before jitter.
    last: Last,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Last {
    Own(f64),
    Announced(f64),
}

impl Default for Last {
    fn default() -> Self {
        Self::Own(0.0)
    }
}

impl Wait {
    /// Seconds to hold from this refusal on. `first` tells that the refused call was no probe, `gap` is our gap between
    /// calls in seconds, `draw` is uniform in [0, 1).
    pub(super) fn refused(&mut self, first: bool, gap: Option<f64>, refusal: Refusal, draw: f64) -> f64 {
        self.own =
            if first { gap.map_or(FIRST, |gap| GAPS * gap).max(REMEMBERED * self.worked) } else { 2.0 * self.own }
                .min(LONGEST);
        let announced = match refusal {
            Refusal::Prolonging => Some(PROLONGED),
            Refusal::Plain | Refusal::RetryAfter(_) => refusal.announced(),
        };
        let Some(announced) = announced else {
            self.last = Last::Own(self.own);
            return self.own * (0.75 + 0.5 * draw);
        };
        let base = if first { announced } else { announced.max(self.own / 2.0) };
        self.last = Last::Announced(base);
        let spread =
            gap.unwrap_or_else(|| (base * UNKNOWN_SPREAD).clamp(SHORTEST_UNKNOWN_SPREAD, LONGEST_UNKNOWN_SPREAD));
        base + SPREAD * draw * spread
    }

    /// The last wait was so long that what was learned before it is void.
    pub(super) fn voids_the_past(&self) -> bool {
        let (Last::Own(last) | Last::Announced(last)) = self.last;
        last >= FORGET
    }

    /// The probe after the last wait was admitted.
    pub(super) fn worked(&mut self) {
        if let Last::Own(own) = self.last {
            self.worked = own.min(LONGEST_REMEMBERED);
        }
    }
}
