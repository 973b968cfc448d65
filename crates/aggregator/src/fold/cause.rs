//! What is wrong with replicas, grouped and said in one sentence: `2/5 replicas unhealthy: <first error>`.
//!
//! Sentences hold facts only, never ages, countdowns or attempts: a number that moves by itself would make every pass a
//! write (C11).

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use foldhash::fast::RandomState;
use muster_api::Reason;
use muster_core::text;

use super::verdict::{Verdict, rank};
use crate::facts::Outcome;

/// How many causes a sentence spells out; the rest is counted.
const SHOWN: usize = 3;
/// Bytes of a sentence that belong to its head, its counts and the marks between causes.
const FRAME: usize = 120;

/// Why a replica is not healthy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cause<'a> {
    /// It has never reported on this executor.
    NotReported,
    /// No node takes its pod.
    Unscheduled,
    /// Its health port does not answer.
    Unreachable(LastWord<'a>),
    /// It does not answer, and neither does any other, since moments ago.
    Doubtful(LastWord<'a>),
    /// It answers that it is not ready.
    NotServing(LastWord<'a>),
    /// It cannot be asked.
    NoHealthPort(LastWord<'a>),
    /// Its verdict is about another generation.
    Behind { wanted: i64 },
    /// It says itself what is wrong.
    Reported(&'a Outcome),
}

/// What a replica said before it fell silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum LastWord<'a> {
    /// The wanted generation is built.
    Built,
    /// Something about another generation.
    OfAnotherGeneration,
    /// The wanted generation failed.
    Failed(&'a str),
}

/// Replicas that are unhealthy for the same cause.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub cause: Cause<'a>,
    pub replicas: u32,
}

impl<'a> LastWord<'a> {
    pub fn of(outcome: &'a Outcome, generation: i64) -> Self {
        if outcome.generation != generation {
            Self::OfAnotherGeneration
        } else if outcome.succeeded {
            Self::Built
        } else {
            Self::Failed(said(outcome))
        }
    }
}

impl std::fmt::Display for LastWord<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Built => f.write_str("built"),
            Self::OfAnotherGeneration => f.write_str("about another generation"),
            Self::Failed(error) => f.write_str(error),
        }
    }
}

impl<'a> Cause<'a> {
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotReported => Reason::NotReported,
            Self::Unscheduled => Reason::Unscheduled,
            Self::Unreachable(_) | Self::Doubtful(_) => Reason::ReplicaUnreachable,
            Self::NotServing(_) => Reason::NotServing,
            Self::NoHealthPort(_) => Reason::NoHealthPort,
            Self::Behind { .. } => Reason::GenerationBehind,
            Self::Reported(outcome) => outcome.reason.clone(),
        }
    }

    /// The sentence, unbounded only by what the replica's own text may hold.
    pub fn text(&self) -> Cow<'a, str> {
        match self {
            Self::NotReported => "no report yet".into(),
            Self::Unscheduled => "its pod cannot be scheduled".into(),
            Self::Unreachable(last) => format!("no health answer, last word: {last}").into(),
            Self::Doubtful(last) => {
                format!("lost together with all others, perhaps by the aggregator's own network, last word: {last}")
                    .into()
            }
            Self::NotServing(last) => format!("it answers that it is not ready, last word: {last}").into(),
            Self::NoHealthPort(last) => format!("its pod declares no port named health, last word: {last}").into(),
            Self::Behind { wanted } => format!("no verdict on generation {wanted} yet").into(),
            Self::Reported(outcome) => said(outcome).into(),
        }
    }

    /// What makes two causes the same: their kind and what the replica said. The text follows from it.
    fn key(&self) -> (u8, LastWord<'a>) {
        match *self {
            Self::NotReported => (0, LastWord::Built),
            Self::Unscheduled => (1, LastWord::Built),
            Self::Unreachable(last) => (2, last),
            Self::Doubtful(last) => (3, last),
            Self::NotServing(last) => (4, last),
            Self::NoHealthPort(last) => (5, last),
            Self::Behind { .. } => (6, LastWord::Built),
            Self::Reported(outcome) => (7, LastWord::Failed(said(outcome))),
        }
    }
}

/// A failure without a text still has a reason.
fn said(outcome: &Outcome) -> &str {
    if outcome.error.is_empty() { outcome.reason.as_str() } else { &outcome.error }
}

/// Groups the unhealthy replicas by cause: the most pressing cause first, then the most frequent, then by text.
pub(super) fn grouped<'a>(verdicts: &[Verdict<'a>]) -> Vec<Group<'a>> {
    // Up to a kilobyte is hashed for each replica.
    let mut groups: HashMap<_, Group<'a>, RandomState> = HashMap::default();
    for cause in verdicts.iter().filter_map(|verdict| verdict.cause) {
        // Equal texts under different reasons are one group; which reason names it must not depend on the order.
        let group = groups.entry(cause.key()).or_insert(Group { cause, replicas: 0 });
        group.replicas += 1;
        if (rank(&cause), cause.reason()) < (rank(&group.cause), group.cause.reason()) {
            group.cause = cause;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by(|(a_key, a), (b_key, b)| {
        (rank(&a.cause), b.replicas, a_key).cmp(&(rank(&b.cause), a.replicas, b_key))
    });
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The status's `error`: empty when every one of at least one replica is healthy.
pub(super) fn sentence(groups: &[Group<'_>], expected: u32) -> String {
    if expected == 0 {
        return "no replica is expected: nobody serves".to_owned();
    }
    let unhealthy: u32 = groups.iter().map(|group| group.replicas).sum();
    match groups {
        [] => String::new(),
        [only] => {
            let head = format!("{unhealthy}/{expected} replicas unhealthy: {}", only.cause.text());
            text::cut(&head, text::ERROR_MAX).into_owned()
        }
        several => {
            let mut sentence = format!("{unhealthy}/{expected} replicas unhealthy, {} reasons", several.len());
            let each = (text::ERROR_MAX - FRAME) / SHOWN.min(several.len());
            for (index, group) in several.iter().take(SHOWN).enumerate() {
                let mark = if index == 0 { ":" } else { ";" };
                // Writing to a String cannot fail.
                let _ = write!(sentence, "{mark} {} ({})", text::cut(&group.cause.text(), each), group.replicas);
            }
            if several.len() > SHOWN {
                let _ = write!(sentence, "; and {} more", several.len() - SHOWN);
            }
            sentence
        }
    }
}
