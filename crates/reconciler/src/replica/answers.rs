//! What the answers to reads and attempts change: what is known, what is held, and how long not to try again.

use std::time::Duration;

use muster_api::{Reason, RetryClass};
use muster_core::backoff::Policy;
use muster_core::retry::Retry;
use rand::{Rng, RngExt as _};

use super::{Replica, floor};
use crate::subject::{Facts, Failure, Held, Loaded, Now, Purpose, Uid, Verdict};

impl Replica {
    pub(super) fn fetched(&mut self, uid: &Uid, loaded: Option<Loaded>, now: Now, rng: &mut dyn Rng) {
        let Some(subject) = self.subjects.get_mut(uid) else { return };
        subject.fetching = false;
        let Some(loaded) = loaded else { return self.gone(uid) };
        let Some(present) = subject.present() else { return };
        let wanted = present.generation;
        if loaded.generation < wanted {
            // A server that lags behind its own watch: asking again at once could go on for ever.
            self.reads.failed(uid.clone(), now.mono, None, rng);
        } else {
            self.reads.forget(uid);
        }
        let (generation, claims) = (loaded.generation, loaded.claims.clone());
        subject.loaded = Some(loaded);
        if generation > wanted {
            self.wants(uid, generation, now);
        }
        self.claim(uid, claims);
        self.dirty.insert(uid.clone());
    }

    pub(super) fn fetch_failed(&mut self, uid: &Uid, retry: Retry, now: Now, rng: &mut dyn Rng) {
        let Some(subject) = self.subjects.get_mut(uid) else { return };
        subject.fetching = false;
        let known_for = now.mono.saturating_sub(subject.first_seen);
        let unknown = subject.loaded.is_none();
        self.reads.failed(uid.clone(), now.mono, floor(retry), rng);
        // An object that cannot be read must not hold up the younger ones of its bucket for ever.
        if unknown && known_for >= self.settings.start_grace {
            self.claim(uid, []);
        }
        self.dirty.insert(uid.clone());
    }

    /// While the wanted generation serves, waiting at a gate changes nothing: its material is still good.
    pub(super) fn parked(&mut self, uid: &Uid, attempt: u64, failure: Failure) {
        if let Some(subject) = self.subjects.get_mut(uid)
            && let Some(running) = subject.attempt.as_ref().filter(|running| running.id == attempt)
            && running.purpose == Purpose::Load
        {
            subject.verdict = Some(Verdict { generation: running.generation, result: Err(failure) });
            self.dirty.insert(uid.clone());
        }
    }

    pub(super) fn attempted(
        &mut self,
        uid: &Uid,
        attempt: u64,
        result: Result<Facts, Failure>,
        now: Now,
        rng: &mut dyn Rng,
    ) {
        let Some(subject) = self.subjects.get_mut(uid) else { return };
        let Some(running) = subject.attempt.take_if(|running| running.id == attempt) else { return };
        let loaded = subject.loaded(running.generation);
        let interval = loaded.and_then(|loaded| loaded.compiled.clone().ok()).flatten();
        let claims = loaded.map(|loaded| loaded.claims.clone()).unwrap_or_default();
        match &result {
            Ok(facts) => {
                let first = subject.held.is_none();
                subject.refresh_at = interval.map(|interval| now.mono.saturating_add(jittered(interval, first, rng)));
                subject.held = Some(Held { generation: running.generation, claims, facts: facts.clone() });
                let is_wanted = subject.present().is_some_and(|present| present.generation == running.generation);
                subject.left_since = (!is_wanted).then_some(now.mono);
                self.builds.forget(uid);
            }
            Err(failure) => {
                let wish = failure.retry_after;
                match failure.reason.retry_class() {
                    RetryClass::Missing => {
                        self.builds.failed_under(missing_policy(interval), uid.clone(), now.mono, wish, rng);
                    }
                    // Whether one of the last three is tried again at all is decided elsewhere.
                    RetryClass::Transient
                    | RetryClass::Throttled
                    | RetryClass::None
                    | RetryClass::Permanent
                    | RetryClass::Blocked => {
                        self.builds.failed(uid.clone(), now.mono, wish, rng);
                    }
                }
            }
        }
        subject.verdict = Some(Verdict { generation: running.generation, result });
        self.dirty.insert(uid.clone());
    }
}

/// The first refresh falls anywhere within the interval, so that replicas and executors that started together do not
/// fetch together for ever (C30); later ones keep their phase, loosely.
fn jittered(interval: Duration, first: bool, rng: &mut dyn Rng) -> Duration {
    let shortest = if first { interval / 20 } else { interval / 10 * 9 };
    rng.random_range(shortest..=interval)
}

/// The delays after a failure for want of a named item: doubling up to the time after which it would be fetched anyway,
/// an hour if it never would (C24).
fn missing_policy(refresh: Option<Duration>) -> Policy {
    Policy::default().up_to(refresh.unwrap_or(Duration::from_hours(1)))
}

impl Failure {
    /// What is said of an attempt that waits at a gate.
    pub fn throttled(text: impl Into<String>) -> Self {
        Self::new(Reason::RateLimited, text)
    }
}
