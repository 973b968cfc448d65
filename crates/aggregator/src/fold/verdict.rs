//! One replica's word and how much it is worth now.

use muster_api::{PodEntry, Reason, RetryClass, Serves, State};

use super::cause::{Cause, LastWord};
use super::{Health, Replica};
use crate::facts::{Life, Outcome, Pod};

/// What is concluded about one expected replica.
#[derive(Clone, Debug)]
pub(super) struct Verdict<'a> {
    pub pod: &'a Pod,
    /// Its report on this executor, about whatever generation.
    pub outcome: Option<&'a Outcome>,
    pub state: State,
    /// What is wrong; `None` if nothing is.
    pub cause: Option<Cause<'a>>,
}

impl<'a> Verdict<'a> {
    /// States in the order in which they are tried: the first that applies.
    pub fn of(
        replica: Replica<'a>,
        outcome: Option<&'a Outcome>,
        generation: i64,
        previous: Option<&PodEntry>,
    ) -> Self {
        let pod = replica.pod;
        let Some(known) = outcome else {
            let cause = if pod.life == Life::Unschedulable { Cause::Unscheduled } else { Cause::NotReported };
            return Self { pod, outcome, state: State::Pending, cause: Some(cause) };
        };
        let last = LastWord::of(known, generation);
        let (state, cause) = match effective(replica.health, previous) {
            Health::Doubtful => (State::Unknown, Some(Cause::Doubtful(last))),
            Health::Silent => (State::Stale, Some(Cause::Unreachable(last))),
            Health::NotServing => (State::Stale, Some(Cause::NotServing(last))),
            Health::NoPort => (State::Stale, Some(Cause::NoHealthPort(last))),
            Health::Serving | Health::Unheard if known.generation != generation => {
                (State::Outdated, Some(Cause::Behind { wanted: generation }))
            }
            Health::Serving | Health::Unheard if known.succeeded => (State::Current, None),
            Health::Serving | Health::Unheard => (State::Current, Some(Cause::Reported(known))),
        };
        Self { pod, outcome, state, cause }
    }

    /// Current and succeeded.
    pub fn healthy(&self) -> bool {
        self.cause.is_none()
    }

    /// Its report, if that is about this generation.
    pub fn about(&self, generation: i64) -> Option<&'a Outcome> {
        self.outcome.filter(|outcome| outcome.generation == generation)
    }

    /// Why the entry is as it is.
    pub fn reason(&self) -> Reason {
        match (&self.cause, self.outcome) {
            (Some(cause), _) => cause.reason(),
            (None, Some(outcome)) => outcome.reason.clone(),
            (None, None) => Reason::NotReported,
        }
    }

    /// What the replica serves, as far as its word can still be relied on: what a silent one serves, nobody knows, and
    /// one that has no verdict on a new generation serves at best an older one.
    pub fn serves(&self) -> Serves {
        match (&self.state, self.outcome.map(|outcome| &outcome.serves)) {
            (State::Outdated, Some(Serves::Wanted | Serves::LastGood)) => Serves::Older,
            (State::Outdated | State::Current, Some(serves)) => serves.clone(),
            _ => Serves::Unknown,
        }
    }

    /// It serves trust material of an earlier refresh, because the last one failed.
    pub fn kept(&self) -> bool {
        self.healthy() && self.outcome.is_some_and(|outcome| outcome.serves == Serves::LastGood)
    }

    /// What stands in the entry's `error`. A replica that succeeded may still have something to say: a failed refresh.
    pub fn error(&self) -> std::borrow::Cow<'a, str> {
        match (&self.cause, self.outcome) {
            (Some(cause), _) => cause.text(),
            (None, Some(outcome)) => (&*outcome.error).into(),
            (None, None) => "".into(),
        }
    }
}

/// A new leader that has not reached a replica yet goes on with what its predecessor wrote.
fn effective(health: Health, previous: Option<&PodEntry>) -> Health {
    if health != Health::Unheard {
        return health;
    }
    match previous.map(|entry| (&entry.state, &entry.reason)) {
        Some((State::Unknown, _)) => Health::Doubtful,
        Some((State::Stale, Reason::NotServing)) => Health::NotServing,
        Some((State::Stale, Reason::NoHealthPort)) => Health::NoPort,
        Some((State::Stale, _)) => Health::Silent,
        _ => Health::Serving,
    }
}

/// How soon somebody has to look, the most pressing first: what the command line calls FAIL, OLD, STALE, WAIT, PEND.
pub(super) fn rank(cause: &Cause<'_>) -> u8 {
    match cause {
        Cause::Reported(outcome) => match outcome.reason.retry_class() {
            RetryClass::Permanent | RetryClass::Blocked => 0,
            RetryClass::None | RetryClass::Throttled | RetryClass::Missing | RetryClass::Transient => 3,
        },
        Cause::Behind { .. } => 1,
        Cause::Unreachable(_) | Cause::Doubtful(_) | Cause::NotServing(_) | Cause::NoHealthPort(_) => 2,
        Cause::Unscheduled => 4,
        Cause::NotReported => 5,
    }
}
