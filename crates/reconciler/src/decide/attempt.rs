//! When to read a spec and when to build it. Waits are instants that are checked before anything is sent, so an event
//! during a wait neither sends nor counts (C21, C23).

use std::time::Duration;

use muster_api::RetryClass;

use super::standing::at;
use super::{Next, Plan, Snapshot};
use crate::subject::{Attempt, Present, Purpose, Subject};

/// The attempt that is going on builds something nobody wants any more: another generation is wanted, a scope turned out
/// to be somebody else's, or the Secret it read holds something else now, which it would not notice before it ends.
pub(super) fn is_moot(seen: &Snapshot<'_>, present: &Present) -> bool {
    let attempt = seen.subject.attempt.as_ref();
    let is_moot = |attempt: &Attempt| attempt.generation != present.generation || attempt.superseded;
    attempt.is_some_and(|attempt| is_moot(attempt) || seen.claim.is_blocked())
}

/// What an attempt would be for.
pub(super) fn purpose(subject: &Subject, present: &Present) -> Purpose {
    if serves(subject, present) { Purpose::Refresh } else { Purpose::Load }
}

/// The wanted generation was built once, so whatever a later attempt says, its spec can be built.
fn serves(subject: &Subject, present: &Present) -> bool {
    subject.held.as_ref().is_some_and(|held| held.generation == present.generation)
}

/// The next read or build.
pub(super) fn next(seen: &Snapshot<'_>, present: &Present) -> Next {
    let subject = seen.subject;
    let wanted = present.generation;
    let now = seen.now.mono;
    if subject.attempt.is_some() || subject.fetching {
        return Next::Never;
    }
    let Some(loaded) = subject.loaded(wanted) else {
        return not_before(seen.waits.read, now, Plan::Fetch { generation: wanted });
    };
    // Only another spec, or another object's, can help here: no retry (C67).
    if loaded.compiled.is_err() || seen.claim.is_blocked() || seen.is_open {
        return Next::Never;
    }
    let build = Plan::Build { generation: wanted, purpose: purpose(subject, present) };
    let Some(verdict) = subject.verdict(wanted) else { return Next::Now(build) };
    if subject.forced {
        return Next::Now(build);
    }
    match &verdict.result {
        Err(failure) => match failure.reason.retry_class() {
            RetryClass::Permanent | RetryClass::Blocked | RetryClass::None if !serves(subject, present) => Next::Never,
            _ => not_before(seen.waits.build, now, build),
        },
        Ok(facts) if subject.held.is_some() => {
            let rebuild = facts.rebuild_at.map(|wall| at(seen.now, wall));
            match [subject.refresh_at, rebuild].into_iter().flatten().min() {
                Some(due) => not_before(Some(due), now, build),
                None => Next::Never,
            }
        }
        Ok(_) => Next::Now(build),
    }
}

fn not_before(instant: Option<Duration>, now: Duration, plan: Plan) -> Next {
    match instant {
        Some(at) if at > now => Next::At(at),
        _ => Next::Now(plan),
    }
}
