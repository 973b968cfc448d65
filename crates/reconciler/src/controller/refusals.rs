//! What the API server refuses this replica: told once for a kind of trouble, not once for each executor and attempt, in
//! the log and in readiness.
//!
//! A right or a definition that is missing fails readiness only until the first verdicts are reached: a rollout that lacks
//! one gets no further, and a replica that serves is not taken away for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_core::retry::Retry;
use muster_runtime::clock::Clock;
use muster_runtime::health::Check;
use muster_runtime::kube_error::Verdict;

/// The same trouble is told again after this.
const REMIND: Duration = Duration::from_mins(10);
/// Different troubles that are remembered; sentences may name objects.
const REMEMBERED: usize = 32;

/// The requests of one kind. Clones are the same.
#[derive(Clone)]
pub struct Refusals(Arc<Inner>);

struct Inner {
    check: Check,
    /// Passes once the replica has been ready.
    first_verdicts: Check,
    /// What does not work, for the log.
    what: &'static str,
    clock: Clock,
    told: Mutex<HashMap<String, Duration>>,
}

impl Refusals {
    /// `check` passes at first; `first_verdicts` decides whether it may fail.
    pub fn new(what: &'static str, check: Check, first_verdicts: Check, clock: Clock) -> Self {
        check.pass();
        Self(Arc::new(Inner { check, first_verdicts, what, clock, told: Mutex::default() }))
    }

    /// A request was answered as it should be.
    pub(super) fn worked(&self) {
        let mut told = self.told();
        if !told.is_empty() {
            told.clear();
            self.0.check.pass();
        }
    }

    /// One was not, on behalf of `executor`.
    pub(super) fn refused(&self, executor: &str, verdict: &Verdict) {
        if verdict.needs_somebody() {
            let grantable = matches!(verdict.retry, Retry::Forbidden | Retry::KindMissing);
            if grantable && !self.0.first_verdicts.passes() {
                self.0.check.fail(verdict.sentence.clone());
            } else {
                self.0.check.pass_with(verdict.sentence.clone());
            }
        }
        let (category, what) = (verdict.category(), self.0.what);
        if !self.is_news(&verdict.sentence) {
            tracing::debug!(executor, category, error = %verdict, "{what}");
        } else if verdict.retry == Retry::Unauthorized {
            tracing::error!(
                category,
                "the API server no longer accepts this pod's token: the pod was probably deleted; what it would report is lost"
            );
        } else {
            tracing::warn!(executor, category, error = %verdict, "{what}, trying again");
        }
    }

    fn is_news(&self, sentence: &str) -> bool {
        let now = self.0.clock.now();
        let mut told = self.told();
        if told.get(sentence).is_some_and(|at| now.saturating_sub(*at) < REMIND) {
            return false;
        }
        if told.len() >= REMEMBERED {
            told.clear();
        }
        told.insert(sentence.to_owned(), now);
        true
    }

    fn told(&self) -> std::sync::MutexGuard<'_, HashMap<String, Duration>> {
        // No holder leaves the map half changed.
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use muster_runtime::health::Readiness;

    use super::*;

    fn refusals(readiness: &Readiness, ready: bool) -> Refusals {
        let first = readiness.register("first-verdicts", "not yet");
        if ready {
            first.pass();
        }
        Refusals::new("not read", readiness.register("executor-reads", ""), first, Clock::system())
    }

    fn verdict(retry: Retry, sentence: &str) -> Verdict {
        Verdict { retry, sentence: sentence.to_owned() }
    }

    fn line(readiness: &Readiness) -> (bool, String) {
        let lines = readiness.lines();
        let line = lines.iter().find(|line| line.name == "executor-reads").unwrap();
        (line.passed, line.text.to_string())
    }

    #[test]
    fn a_missing_right_fails_readiness_only_before_the_first_verdicts_and_until_it_is_granted() {
        let lacks = verdict(Retry::Forbidden, "RBAC does not allow to get executors");
        for ready in [false, true] {
            let readiness = Readiness::default();
            let refusals = refusals(&readiness, ready);
            refusals.refused("a", &lacks);
            assert_eq!(line(&readiness), (ready, lacks.sentence.clone()));
            refusals.worked();
            assert_eq!(line(&readiness), (true, String::new()));
        }
    }

    #[test]
    fn what_is_wrong_with_one_object_or_passes_by_itself_never_fails_readiness() {
        let readiness = Readiness::default();
        let refusals = refusals(&readiness, false);
        for retry in [Retry::TooLarge, Retry::Denied, Retry::Timeout] {
            refusals.refused("a", &verdict(retry, "why"));
            assert!(line(&readiness).0, "{retry:?}");
        }
    }

    #[test]
    fn the_same_trouble_is_news_once_and_another_one_of_its_kind_is_news_too() {
        let refusals = refusals(&Readiness::default(), true);
        assert!(refusals.is_news("patch") && !refusals.is_news("patch") && refusals.is_news("delete"));
        for number in 0..100 {
            assert!(refusals.is_news(&number.to_string()));
        }
        assert!(refusals.told().len() <= REMEMBERED);
    }
}
