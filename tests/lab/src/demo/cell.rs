//! One word for how a replica does with an executor: the closed list that people learn once and meet everywhere.

use muster_api::{PodEntry, RetryClass, Serves, State};

/// The state of one cell, in the order in which it deserves attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cell {
    /// The wanted generation cannot be built and only somebody's edit can help.
    Fail,
    /// An older generation is reported.
    Old,
    /// The replica is silent or not ready; its last word may not hold.
    Stale,
    /// In backoff or queued at a gate.
    Wait,
    /// A refresh fails, the material of an earlier one is still good.
    Kept,
    /// Expected, has not reported.
    Pending,
    /// The wanted generation is built and served.
    Ok,
}

impl Cell {
    /// The cell of an entry of `byPod`.
    pub(super) fn of(entry: &PodEntry) -> Self {
        match (&entry.state, &entry.serves, entry.reason.retry_class()) {
            (State::Pending, ..) => Self::Pending,
            (State::Stale | State::Unknown, ..) => Self::Stale,
            (State::Outdated, ..) => Self::Old,
            (_, Serves::LastGood, _) => Self::Kept,
            _ if entry.succeeded => Self::Ok,
            (.., RetryClass::Permanent | RetryClass::Blocked) => Self::Fail,
            _ => Self::Wait,
        }
    }

    /// The word for tables.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Fail => "FAIL",
            Self::Old => "OLD",
            Self::Stale => "STALE",
            Self::Wait => "WAIT",
            Self::Kept => "KEPT",
            Self::Pending => "PEND",
            Self::Ok => "ok",
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_api::Reason;

    use super::*;

    fn entry(state: State, succeeded: bool, serves: Serves, reason: Reason) -> PodEntry {
        PodEntry {
            id: "p".into(),
            pod_uid: "u".into(),
            observed_generation: 1,
            succeeded,
            error: String::new(),
            brief_error: String::new(),
            last_transition_time: None,
            state,
            reason,
            serves,
        }
    }

    #[test]
    fn the_first_that_applies() {
        let cases = [
            (entry(State::Current, true, Serves::Wanted, Reason::Built), "ok"),
            (entry(State::Current, false, Serves::Nothing, Reason::InvalidSpec), "FAIL"),
            (entry(State::Current, false, Serves::Nothing, Reason::ScopeConflict), "FAIL"),
            (entry(State::Current, false, Serves::Nothing, Reason::FileMissing), "WAIT"),
            (entry(State::Current, true, Serves::LastGood, Reason::RefreshFailed), "KEPT"),
            (entry(State::Outdated, true, Serves::Older, Reason::GenerationBehind), "OLD"),
            (entry(State::Stale, true, Serves::Wanted, Reason::ReplicaUnreachable), "STALE"),
            (entry(State::Pending, false, Serves::Unknown, Reason::NotReported), "PEND"),
        ];
        for (entry, word) in cases {
            assert_eq!(Cell::of(&entry).word(), word, "{entry:?}");
        }
    }
}
