//! `Ready`, `Current` and `TrustValid`, in the form that `kubectl wait`, Helm and Argo understand.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use muster_api::{CONDITION_CURRENT, CONDITION_READY, CONDITION_TRUST_VALID, Reason, ReplicaCounts, State};
use muster_core::text;

use super::cause::Group;
use super::verdict::Verdict;

/// Reason of `Current` when it is True.
const ALL_CURRENT: &str = "AllCurrent";
/// Reason of `TrustValid` when it is True.
const NOTHING_EXPIRED: &str = "NothingExpired";
/// Stands for a reason of another version that would not be accepted as a condition's reason.
const UNHEALTHY: &str = "Unhealthy";

/// What the conditions are made of.
pub(super) struct Input<'a> {
    pub verdicts: &'a [Verdict<'a>],
    pub causes: &'a [Group<'a>],
    pub counts: &'a ReplicaCounts,
    pub error: &'a str,
    pub trust: &'a Trust<'a>,
    pub generation: i64,
    pub previous: &'a [Condition],
    pub now: Timestamp,
}

/// What the replicas say about the age of their trust material.
pub(super) struct Trust<'a> {
    /// The earliest expiry that any replica reports, past or future.
    pub earliest: Option<Timestamp>,
    /// The earliest that lies ahead.
    pub next_expiry: Option<Timestamp>,
    reporting: bool,
    /// The first replica whose material has expired, by name, and how many there are.
    expired: Option<(&'a str, usize)>,
}

#[derive(Clone, Copy)]
enum Truth {
    True,
    False,
    Unknown,
}

impl<'a> Trust<'a> {
    pub fn of(verdicts: &[Verdict<'a>], now: Timestamp) -> Self {
        let mut trust = Self { earliest: None, next_expiry: None, reporting: false, expired: None };
        for verdict in verdicts {
            let Some(outcome) = verdict.outcome else { continue };
            trust.reporting = true;
            let at = outcome.trust_expires_at.map(super::whole_seconds);
            trust.earliest = [trust.earliest, at].into_iter().flatten().min();
            let ahead = at.filter(|at| *at > now);
            trust.next_expiry = [trust.next_expiry, ahead].into_iter().flatten().min();
            if outcome.reason == Reason::TrustExpired || at.is_some_and(|at| at <= now) {
                let name = &*verdict.pod.name;
                let (first, count) = trust.expired.unwrap_or((name, 0));
                trust.expired = Some((first.min(name), count + 1));
            }
        }
        trust
    }
}

pub(super) fn all(input: &Input<'_>) -> Vec<Condition> {
    vec![ready(input), current(input), trust_valid(input)]
}

fn ready(input: &Input<'_>) -> Condition {
    let ReplicaCounts { expected, succeeded, .. } = *input.counts;
    let generation = input.generation;
    if expected == 0 {
        return condition(input, CONDITION_READY, Truth::False, Reason::NoReplicas.as_str(), input.error);
    }
    let Some(first) = input.causes.first() else {
        let kept = input.verdicts.iter().filter(|verdict| verdict.kept()).count();
        let served = format!("{succeeded}/{expected} replicas serve generation {generation}");
        if kept == 0 {
            return condition(input, CONDITION_READY, Truth::True, Reason::Built.as_str(), &served);
        }
        let message = format!("{served}, {kept} of them with trust material of an earlier refresh");
        return condition(input, CONDITION_READY, Truth::True, Reason::RefreshFailed.as_str(), &message);
    };
    let truth = if in_doubt(input) { Truth::Unknown } else { Truth::False };
    condition(input, CONDITION_READY, truth, first.cause.reason().as_str(), input.error)
}

fn current(input: &Input<'_>) -> Condition {
    let ReplicaCounts { expected, current, .. } = *input.counts;
    let generation = input.generation;
    if expected == 0 {
        return condition(input, CONDITION_CURRENT, Truth::False, Reason::NoReplicas.as_str(), input.error);
    }
    let message = format!("{current}/{expected} replicas answer and have a verdict on generation {generation}");
    // The most pressing cause among those that are not current: a failure that a replica reports is current.
    let first = input.causes.iter().find(|group| !matches!(group.cause, super::cause::Cause::Reported(_)));
    match first {
        None => condition(input, CONDITION_CURRENT, Truth::True, ALL_CURRENT, &message),
        Some(group) => {
            let truth = if in_doubt(input) { Truth::Unknown } else { Truth::False };
            condition(input, CONDITION_CURRENT, truth, group.cause.reason().as_str(), &message)
        }
    }
}

fn trust_valid(input: &Input<'_>) -> Condition {
    let (truth, reason, message) = if input.counts.expected == 0 {
        (Truth::Unknown, Reason::NoReplicas.as_str(), input.error.to_owned())
    } else if !input.trust.reporting {
        (Truth::Unknown, Reason::NotReported.as_str(), "no replica has reported yet".to_owned())
    } else if let Some((first, count)) = input.trust.expired {
        let expected = input.counts.expected;
        let message = format!("trust material has expired on {count}/{expected} replicas, first by name: {first}");
        (Truth::False, Reason::TrustExpired.as_str(), message)
    } else {
        let message = match input.trust.earliest {
            Some(at) => format!("the first certificate expires at {at}"),
            None => "no certificate with an end is relied on".to_owned(),
        };
        (Truth::True, NOTHING_EXPIRED, message)
    };
    condition(input, CONDITION_TRUST_VALID, truth, reason, &message)
}

/// All replicas were lost at once, moments ago: nothing is known, which is neither good nor bad.
fn in_doubt(input: &Input<'_>) -> bool {
    input.verdicts.iter().any(|verdict| verdict.state == State::Unknown)
}

fn condition(input: &Input<'_>, type_: &str, truth: Truth, reason: &str, message: &str) -> Condition {
    let status = match truth {
        Truth::True => "True",
        Truth::False => "False",
        Truth::Unknown => "Unknown",
    };
    let since = input
        .previous
        .iter()
        .find(|previous| previous.type_ == type_ && previous.status == status)
        .map_or(input.now, |previous| super::whole_seconds(previous.last_transition_time.0));
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: if is_condition_reason(reason) { reason.to_owned() } else { UNHEALTHY.to_owned() },
        message: text::cut(message, text::ERROR_MAX).into_owned(),
        observed_generation: Some(input.generation),
        last_transition_time: Time(since),
    }
}

/// The API convention: `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`.
fn is_condition_reason(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.ends_with(|last: char| last.is_ascii_alphanumeric() || last == '_')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':'))
}
