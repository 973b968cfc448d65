//! How long a resource waits after a failure: 5 s doubling to 5 min, each resource for itself.
//!
//! A wait is a `not before` that is *checked before* anything is sent. So an event that arrives during the wait neither
//! sends nor counts, and the ceiling is not reached in seconds by a resource whose own status writes wake it (C11, C23).

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use rand::{Rng, RngExt as _};

use crate::retry_after;

/// The growing delays: `base`, doubled with each failure up to `ceiling`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    base: Duration,
    ceiling: Duration,
}

/// Waits of many resources, each under its own key (its UID, so that a re-created object starts afresh).
///
/// Times are monotonic, since process start. Keys know nothing of each other. Whoever drops an object drops its key with
/// [`Backoff::forget`] or [`Backoff::retain`], so the map is as large as the set of failing objects.
#[derive(Debug, Clone)]
pub struct Backoff<K> {
    policy: Policy,
    waits: HashMap<K, Wait>,
}

/// Why a [`Policy`] is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A wait of nothing is a busy loop.
    #[error("the first delay of a backoff must be above zero")]
    ZeroBase,
    /// The ceiling lies under the base.
    #[error("the longest delay of a backoff ({ceiling:?}) is below its first ({base:?})")]
    CeilingBelowBase {
        /// The first delay.
        base: Duration,
        /// The longest delay.
        ceiling: Duration,
    },
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    failures: u32,
    not_before: Duration,
}

impl Policy {
    /// Delays from `base`, doubling up to `ceiling`.
    pub const fn new(base: Duration, ceiling: Duration) -> Result<Self, PolicyError> {
        if base.is_zero() {
            return Err(PolicyError::ZeroBase);
        }
        if ceiling.as_nanos() < base.as_nanos() {
            return Err(PolicyError::CeilingBelowBase { base, ceiling });
        }
        Ok(Self { base, ceiling })
    }

    /// The same delays up to another ceiling, which is raised to the base where it lies under it. A missing item is
    /// looked for again at most as often as it would be refreshed (C24).
    #[must_use]
    pub fn up_to(self, ceiling: Duration) -> Self {
        Self { base: self.base, ceiling: ceiling.max(self.base) }
    }

    /// The full delay after so many failures in a row, counted from 1, before jitter.
    pub fn delay(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.base.saturating_mul(1 << doublings).min(self.ceiling)
    }

    /// The wait after so many failures in a row: drawn evenly from `[d/2, d]`, so that
    /// at most half of the delay is given up for spreading.
    fn wait(&self, failures: u32, rng: &mut (impl Rng + ?Sized)) -> Duration {
        let delay = self.delay(failures);
        rng.random_range(delay / 2..=delay)
    }
}

impl Default for Policy {
    /// 5 s doubling to 5 min: what the operators that inspired this one settled on after fixed delays had failed them.
    fn default() -> Self {
        Self { base: Duration::from_secs(5), ceiling: Duration::from_mins(5) }
    }
}

impl PolicyError {
    /// Stable word for this kind of error.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::ZeroBase => "ZeroBase",
            Self::CeilingBelowBase { .. } => "CeilingBelowBase",
        }
    }
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self::new(Policy::default())
    }
}

impl<K> Backoff<K> {
    /// No key waits yet.
    pub fn new(policy: Policy) -> Self {
        Self { policy, waits: HashMap::new() }
    }
}

impl<K: Eq + Hash> Backoff<K> {
    /// Records a failure at `now` and returns the instant before which `key` must not be tried again.
    ///
    /// `retry_after` is the server's wish ([`retry_after::longest`]), a floor capped at [`retry_after::MAX`]. A failure
    /// reported while a wait is still pending was not preceded by a wait: it does not count, and can only move the
    /// instant later, by such a wish.
    pub fn failed(
        &mut self,
        key: K,
        now: Duration,
        retry_after: Option<Duration>,
        rng: &mut (impl Rng + ?Sized),
    ) -> Duration {
        self.failed_under(self.policy, key, now, retry_after, rng)
    }

    /// As [`Backoff::failed`], with the delays of another policy for this failure.
    pub fn failed_under(
        &mut self,
        policy: Policy,
        key: K,
        now: Duration,
        retry_after: Option<Duration>,
        rng: &mut (impl Rng + ?Sized),
    ) -> Duration {
        let wait = self.waits.entry(key).or_insert(Wait { failures: 0, not_before: Duration::ZERO });
        let wish = retry_after.map(|wish| wish.min(retry_after::MAX));
        if wait.failures > 0 && now < wait.not_before {
            wait.not_before = wait.not_before.max(now.saturating_add(wish.unwrap_or_default()));
            return wait.not_before;
        }
        wait.failures = wait.failures.saturating_add(1);
        let own = policy.wait(wait.failures, rng);
        // A wish that many resources were given in the same second keeps its jitter on top, or they all return at once.
        let spread = own.saturating_sub(policy.delay(wait.failures) / 2);
        let floor = wish.map_or(Duration::ZERO, |wish| wish.saturating_add(spread));
        wait.not_before = now.saturating_add(own.max(floor));
        wait.not_before
    }

    /// Forgets `key`: it succeeded, its spec or credential is new, or its object is gone.
    pub fn forget<Q>(&mut self, key: &Q)
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.waits.remove(key);
    }

    /// Drops every key for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.waits.retain(|key, _| keep(key));
    }

    /// The instant before which `key` must not be tried, past or future; `None` if it has not failed.
    pub fn not_before<Q>(&self, key: &Q) -> Option<Duration>
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.waits.get(key).map(|wait| wait.not_before)
    }

    /// What is left of the wait of `key` at `now`; `None` if it may be tried.
    pub fn remaining<Q>(&self, key: &Q, now: Duration) -> Option<Duration>
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let left = self.not_before(key)?.saturating_sub(now);
        (!left.is_zero()).then_some(left)
    }

    /// Failures of `key` in a row, one per wait.
    pub fn failures<Q>(&self, key: &Q) -> u32
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.waits.get(key).map_or(0, |wait| wait.failures)
    }

    /// Number of keys that have failed and not been forgotten.
    pub fn len(&self) -> usize {
        self.waits.len()
    }

    /// True if no key has failed.
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }
}

#[cfg(test)]
mod tests;
