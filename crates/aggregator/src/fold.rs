//! The roll-call itself: what the replicas say of one executor becomes the executor's status.
//!
//! Pure: everything it needs comes in, everything it concludes goes out, and the order of what comes in does not matter.
//! So two aggregators that see the same objects write the same status, and the fold of its own result changes nothing.
//! Linear in the number of replicas but for one sort.

mod by_pod;
mod cause;
mod conditions;
mod verdict;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{ExecutorStatus, PodEntry, ReplicaCounts, RetryClass, State};
use muster_core::text;

use crate::facts::{Owner, Pod, Report};
use verdict::Verdict;

/// Bytes of JSON that `byPod` may take unless told otherwise: about 330 healthy entries. Every new generation is one
/// GET of the whole object for each replica, so this is also what an edit costs.
pub const BY_POD_BYTES: usize = 64 * 1024;
/// Most that may be asked for: with the rest of the object this stays far below etcd's 1.5 MiB (C65).
pub const BY_POD_BYTES_MAX: usize = 500 * 1024;
/// Most warnings that a status lists.
pub const WARNINGS_MAX: usize = 8;

/// Everything that decides a status.
#[derive(Clone, Copy, Debug)]
pub struct FoldInput<'a> {
    /// UID of the executor. Reports on another one, also of the same name, are not about it (C05).
    pub executor_uid: &'a str,
    /// Generation of the executor's spec.
    pub generation: i64,
    /// The reconciler's pods, whatever their state.
    pub replicas: &'a [Replica<'a>],
    /// Reports; those of other executors and of pods that are not in `replicas` are ignored.
    pub reports: &'a [&'a Report],
    /// The status as it stands: what has not changed keeps its times.
    pub previous: Option<&'a ExecutorStatus>,
    /// Wall time. Only whole seconds are used.
    pub now: Timestamp,
    /// Most bytes of JSON that `byPod` may take.
    pub by_pod_max_bytes: usize,
}

/// A pod and what its health port says.
#[derive(Clone, Copy, Debug)]
pub struct Replica<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Its health.
    pub health: Health,
}

/// What the health watch knows of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers that it is ready, or its health is not watched.
    Serving,
    /// It answers that it is not ready.
    NotServing,
    /// It does not answer.
    Silent,
    /// Its pod declares no port named `health`, so it cannot be asked.
    NoPort,
    /// It was lost together with all others moments ago: more likely our own network than theirs.
    Doubtful,
    /// A new leader has neither reached it nor given up yet: its previous state stands.
    Unheard,
}

/// The conclusion.
#[derive(Clone, Debug, PartialEq)]
pub struct Folded {
    /// The status to be.
    pub status: Arc<ExecutorStatus>,
    /// Every expected replica has a verdict on the current generation.
    pub settled: bool,
    /// A replica says that the current generation can never be built.
    pub permanent_failure: bool,
    /// A report is about a later generation than the executor we know: our copy is old.
    pub ahead: bool,
    /// When time alone changes the status next.
    pub look_again: Option<Timestamp>,
}

impl Health {
    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::NotServing => "not_serving",
            Self::Silent => "unreachable",
            Self::NoPort => "no_port",
            Self::Doubtful => "in_doubt",
            Self::Unheard => "unheard",
        }
    }
}

/// Folds.
pub fn fold(input: &FoldInput<'_>) -> Folded {
    let now = whole_seconds(input.now);
    let previous = Previous::of(input.previous);
    let verdicts = verdicts(input, &previous);
    let causes = cause::grouped(&verdicts);
    let counts = counts(&verdicts);
    let succeeded = counts.expected > 0 && counts.succeeded == counts.expected;
    let error = cause::sentence(&causes, counts.expected);
    let trust = conditions::Trust::of(&verdicts, now);

    let conditions = conditions::all(&conditions::Input {
        verdicts: &verdicts,
        causes: &causes,
        counts: &counts,
        error: &error,
        trust: &trust,
        generation: input.generation,
        previous: input.previous.map_or(&[], |status| &status.conditions),
        now,
    });
    let (by_pod, by_pod_omitted) = by_pod::bounded(&verdicts, &previous, now, input.by_pod_max_bytes);
    let fresh = || verdicts.iter().filter_map(|verdict| verdict.about(input.generation));
    Folded {
        settled: verdicts.iter().all(|verdict| verdict.about(input.generation).is_some()),
        permanent_failure: fresh()
            .any(|outcome| !outcome.succeeded && outcome.reason.retry_class() == RetryClass::Permanent),
        ahead: verdicts
            .iter()
            .filter_map(|verdict| verdict.outcome)
            .any(|outcome| outcome.generation > input.generation),
        look_again: trust.next_expiry,
        status: Arc::new(ExecutorStatus {
            succeeded,
            brief_error: text::cut(&error, text::BRIEF_MAX).into_owned(),
            error,
            observed_generation: Some(input.generation),
            replicas: Some(counts),
            by_pod,
            by_pod_omitted,
            warnings: fresh()
                .flat_map(|outcome| outcome.warnings.iter())
                .map(|warning| &**warning)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .take(WARNINGS_MAX)
                .map(str::to_owned)
                .collect(),
            trust_expires_at: trust.earliest.map(Time),
            conditions,
        }),
    }
}

/// One verdict for each expected replica, failing ones first, then by pod name.
fn verdicts<'a>(input: &FoldInput<'a>, previous: &Previous<'_>) -> Vec<Verdict<'a>> {
    let mut reports: HashMap<&str, &Report> = HashMap::with_capacity(input.reports.len());
    for report in input.reports.iter().filter(|report| counts_for(report, input.executor_uid)) {
        reports
            .entry(&report.pod_uid)
            .and_modify(|held| {
                if precedence(report) > precedence(held) {
                    *held = report;
                }
            })
            .or_insert(report);
    }
    let mut verdicts: Vec<Verdict<'a>> = input
        .replicas
        .iter()
        .filter(|replica| replica.pod.life.is_expected())
        .map(|replica| {
            let outcome = reports.get(&*replica.pod.uid).and_then(|report| report.outcome.as_ref());
            Verdict::of(*replica, outcome, input.generation, previous.entry(&replica.pod.uid))
        })
        .collect();
    verdicts
        .sort_unstable_by(|a, b| (a.healthy(), &a.pod.name, &a.pod.uid).cmp(&(b.healthy(), &b.pod.name, &b.pod.uid)));
    verdicts
}

/// A report counts if it is about this executor object and is nobody else's than its pod's.
fn counts_for(report: &Report, executor_uid: &str) -> bool {
    &*report.executor_uid == executor_uid && report.owner != Owner::Foreign
}

/// A replica writes one object for an executor. Should there be two, the same one has to win whatever their order.
fn precedence(report: &Report) -> (Option<i64>, &str) {
    (report.outcome.as_ref().map(|outcome| outcome.generation), &report.name)
}

fn counts(verdicts: &[Verdict<'_>]) -> ReplicaCounts {
    let mut counts = ReplicaCounts::default();
    for verdict in verdicts {
        counts.expected += 1;
        counts.reporting += u32::from(verdict.outcome.is_some());
        counts.current += u32::from(verdict.state == State::Current);
        counts.succeeded += u32::from(verdict.healthy());
        counts.stale += u32::from(verdict.state == State::Stale);
    }
    counts.summary = format!("{}/{}", counts.succeeded, counts.expected);
    counts
}

/// Statuses hold whole seconds: finer times would make each pass a change (C12).
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The entries of the previous status, by pod UID.
struct Previous<'a>(HashMap<&'a str, &'a PodEntry>);

impl<'a> Previous<'a> {
    fn of(status: Option<&'a ExecutorStatus>) -> Self {
        let entries = status.map_or(&[][..], |status| &status.by_pod);
        Self(entries.iter().map(|entry| (entry.pod_uid.as_str(), entry)).collect())
    }

    fn entry(&self, pod_uid: &str) -> Option<&'a PodEntry> {
        self.0.get(pod_uid).copied()
    }
}

#[cfg(test)]
mod tests;
