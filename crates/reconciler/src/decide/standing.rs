//! Where an executor stands on this replica: what serves, and what is to be said about it. Everything about the edit
//! grace, last good material, expiry and conflicts is decided here and nowhere else.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::{Reason, RetryClass, Serves};

use super::Snapshot;
use crate::subject::{Failure, Held, Now, Outcome, Present, Served, Subject, Verdict};

/// What serves and what is to be said.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// What lookups must get; `None` is nothing.
    pub served: Option<Served>,
    /// What is to be said.
    pub say: Say,
    /// When the passing of time alone changes this (monotonic).
    pub changes_at: Option<Duration>,
}

/// What is to be said.
#[derive(Clone, Debug, PartialEq)]
pub enum Say {
    /// Nothing yet: the first verdict is still awaited.
    Silence,
    /// What was said before still holds.
    TheSame,
    /// This.
    Outcome(Outcome),
}

/// Where the executor of this snapshot stands. One that is gone, or not known to exist, serves nothing and says nothing.
pub fn standing(seen: &Snapshot<'_>) -> Standing {
    let subject = seen.subject;
    let Some(present) = subject.present() else { return Standing::nothing(Say::Silence) };
    let wanted = present.generation;
    if let Some(loaded) = subject.loaded(wanted)
        && let Err(failure) = &loaded.compiled
    {
        return Standing::failed(wanted, failure);
    }
    if let Some(reason) = seen.claim.reason() {
        return Standing::failed(wanted, &Failure::new(reason, seen.claim.to_string()));
    }
    let verdict = subject.verdict(wanted);
    match &subject.held {
        Some(held) if held.generation == wanted => current(held, verdict, seen.now),
        Some(held) => match older(seen, present, held, verdict) {
            Some(standing) => standing,
            None => nothing_held(seen, wanted, verdict),
        },
        None => nothing_held(seen, wanted, verdict),
    }
}

/// The wanted generation is built. A later failure to fetch its material again does not take it away (C06).
fn current(held: &Held, verdict: Option<&Verdict>, now: Now) -> Standing {
    let wanted = held.generation;
    let failure = verdict.and_then(|verdict| verdict.result.as_ref().err());
    if held.is_expired(now.wall) {
        let text = match failure {
            Some(failure) => format!("trust material has expired and was not renewed: {}", failure.text),
            None => "trust material has expired and is being fetched again".to_owned(),
        };
        return Standing::failed(wanted, &Failure::new(Reason::TrustExpired, text));
    }
    let (serves, reason, error) = match failure {
        None => (Serves::Wanted, Reason::Built, String::new()),
        Some(failure) => (Serves::LastGood, Reason::RefreshFailed, failure.text.clone()),
    };
    let outcome = Outcome {
        generation: wanted,
        succeeded: true,
        serves: serves.clone(),
        reason,
        error,
        trust_expires_at: held.facts.trust_expires_at,
        warnings: held.facts.warnings.clone(),
    };
    Standing {
        served: Some(Served { generation: wanted, serves }),
        say: Say::Outcome(outcome),
        changes_at: held.facts.usable_until.map(|until| at(now, until)),
    }
}

/// An edit is being loaded, or fails in a way that may heal: what served before goes on serving for the grace. It must
/// have been serving until now: what a conflict or a wrong edit took away does not come back. And it gives way as soon as
/// somebody else lists one of its scopes, which the edit may just have dropped.
fn older(seen: &Snapshot<'_>, present: &Present, held: &Held, verdict: Option<&Verdict>) -> Option<Standing> {
    let subject = seen.subject;
    let serving = subject.served.as_ref().is_some_and(|served| served.generation == held.generation);
    let failure = verdict.and_then(|verdict| verdict.result.as_ref().err());
    let hopeless = failure.is_some_and(|failure| !may_heal(failure));
    let ends = subject.left_since.unwrap_or(seen.now.mono).saturating_add(seen.settings.edit_grace);
    if !serving || hopeless || seen.is_contested || seen.now.mono >= ends || held.is_expired(seen.now.wall) {
        return None;
    }
    let say = match failure {
        None => same_or_silence(subject),
        Some(failure) => Say::Outcome(Outcome::failed(present.generation, Serves::Older, failure)),
    };
    let expires = held.facts.usable_until.map(|until| at(seen.now, until));
    Some(Standing {
        served: Some(Served { generation: held.generation, serves: Serves::Older }),
        say,
        changes_at: Some(expires.map_or(ends, |expires| expires.min(ends))),
    })
}

/// Nothing can serve: say why, as far as that is known.
fn nothing_held(seen: &Snapshot<'_>, wanted: i64, verdict: Option<&Verdict>) -> Standing {
    let subject = seen.subject;
    if let Some(failure) = verdict.and_then(|verdict| verdict.result.as_ref().err()) {
        return Standing::failed(wanted, failure);
    }
    match &subject.said {
        Some(said) if said.outcome.serves == Serves::Nothing => Standing::nothing(Say::TheSame),
        Some(_) => {
            let text =
                format!("no verdict on generation {wanted} within the edit grace; nothing serves until there is one");
            Standing::failed(wanted, &Failure::new(Reason::Unreachable, text))
        }
        None => {
            let ends = subject.first_seen.saturating_add(seen.settings.start_grace);
            if seen.now.mono < ends {
                return Standing { served: None, say: Say::Silence, changes_at: Some(ends) };
            }
            let text = "the replica started and has no verdict on this executor yet";
            Standing::failed(0, &Failure::new(Reason::Starting, text))
        }
    }
}

fn same_or_silence(subject: &Subject) -> Say {
    if subject.said.is_some() { Say::TheSame } else { Say::Silence }
}

/// A failure during which the generation before an edit may go on serving.
fn may_heal(failure: &Failure) -> bool {
    matches!(failure.reason.retry_class(), RetryClass::Transient | RetryClass::Throttled | RetryClass::Missing)
}

/// The monotonic instant of a wall time. If the wall clock is stepped, it is looked at again when something happens.
pub(super) fn at(now: Now, wall: Timestamp) -> Duration {
    let left = Duration::try_from(wall.duration_since(now.wall)).unwrap_or_default();
    now.mono.saturating_add(left)
}

impl Standing {
    const fn nothing(say: Say) -> Self {
        Self { served: None, say, changes_at: None }
    }

    fn failed(generation: i64, failure: &Failure) -> Self {
        Self::nothing(Say::Outcome(Outcome::failed(generation, Serves::Nothing, failure)))
    }
}

impl Outcome {
    fn failed(generation: i64, serves: Serves, failure: &Failure) -> Self {
        Self {
            generation,
            succeeded: false,
            serves,
            reason: failure.reason.clone(),
            error: failure.text.clone(),
            trust_expires_at: None,
            warnings: Vec::new(),
        }
    }
}
