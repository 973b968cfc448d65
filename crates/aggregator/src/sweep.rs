//! Leftovers: reports that the garbage collector will not take, or has not taken. Normally a report goes with its pod in
//! milliseconds, and a replica deletes its own reports when their executor goes.
//!
//! Nothing is deleted because a cache says so. A candidate must have been one for `--sweep-grace`, and a read of the pod or the
//! executor must agree; the deletion names the object's UID. A report deleted in error is written again by its replica.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use muster_core::retry::Retry;
use muster_runtime::clock::Clock;
use muster_runtime::health::Check;
use muster_runtime::heartbeat::Loop;
use muster_runtime::kube_error::Verdict;
use muster_runtime::lease::Leadership;
use tokio::sync::mpsc;

use crate::act::Actor;
use crate::facts::{Owner, Report};
use crate::index::Index;
use crate::metrics::Metrics;

/// Longest time between two looks.
const INTERVAL: Duration = Duration::from_mins(1);
/// Shortest time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(500);
/// Time from a change of pods to the look that it causes.
pub const AFTER_EVENT: Duration = Duration::from_secs(5);
/// Pause between two candidates: at most five requests a second.
const PAUSE: Duration = Duration::from_millis(200);
/// Hard deadline of one candidate: a read and a deletion.
const DEADLINE: Duration = Duration::from_secs(25);

/// A report that may be a leftover.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The report.
    pub report: Report,
    /// Why.
    pub why: Why,
}

/// Why a report may be a leftover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Its executor is not known.
    ExecutorGone,
    /// Its pod is not known: it is gone, or its labels do not select it.
    PodGone,
    /// It has no owner, so nobody will ever collect it.
    NoOwner,
    /// Its owner is somebody else. It is told, never deleted: it is not ours.
    ForeignOwner,
}

impl Why {
    /// Why something is deleted.
    pub const DELETED: [Self; 3] = [Self::ExecutorGone, Self::PodGone, Self::NoOwner];

    /// The word in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ExecutorGone => "ExecutorGone",
            Self::PodGone => "PodGone",
            Self::NoOwner => "NoOwner",
            Self::ForeignOwner => "ForeignOwner",
        }
    }
}

/// Every report that may be a leftover by what is known, in the order of names.
pub fn candidates(index: &Index) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = index
        .all_reports()
        .filter_map(|report| why(index, report).map(|why| Candidate { report: report.clone(), why }))
        .collect();
    candidates.sort_unstable_by(|a, b| a.report.name.cmp(&b.report.name));
    candidates
}

fn why(index: &Index, report: &Report) -> Option<Why> {
    if report.owner == Owner::Foreign {
        return Some(Why::ForeignOwner);
    }
    if index.executor(&report.executor_uid).is_none() {
        return Some(Why::ExecutorGone);
    }
    if index.pod(&report.pod_uid).is_none() {
        return Some(Why::PodGone);
    }
    (report.owner == Owner::Nobody).then_some(Why::NoOwner)
}

/// Time between two looks: half the grace, within bounds.
pub fn interval(grace: Duration) -> Duration {
    (grace / 2).clamp(INTERVAL_MIN, INTERVAL)
}

/// Since when each candidate has been one. Times are monotonic, since process start.
#[derive(Debug)]
pub struct Patience {
    grace: Duration,
    since: HashMap<Arc<str>, (Why, Duration)>,
}

impl Patience {
    /// Nothing is a candidate yet.
    pub fn new(grace: Duration) -> Self {
        Self { grace, since: HashMap::new() }
    }

    /// Those whose grace is over. Whoever is no candidate any more, or is one for another reason, starts anew; `fresh` is
    /// told each new one.
    pub fn ripe(
        &mut self,
        candidates: Vec<Candidate>,
        now: Duration,
        mut fresh: impl FnMut(&Candidate),
    ) -> Vec<Candidate> {
        let before = std::mem::take(&mut self.since);
        candidates
            .into_iter()
            .filter(|candidate| {
                let uid = &candidate.report.uid;
                let since = before.get(uid).filter(|(why, _)| *why == candidate.why).map(|(_, since)| *since);
                if since.is_none() {
                    fresh(candidate);
                }
                let since = since.unwrap_or(now);
                self.since.insert(uid.clone(), (candidate.why, since));
                candidate.why != Why::ForeignOwner && now.saturating_sub(since) >= self.grace
            })
            .collect()
    }
}

/// Deletes leftovers while we lead.
pub struct Sweeper {
    /// Reads and deletes.
    pub actor: Actor,
    /// Time.
    pub clock: Clock,
    /// The loop `sweep`.
    pub beat: Loop,
    /// Readiness: leftovers can be deleted.
    pub check: Check,
    /// How long something must have been a leftover before it is deleted.
    pub grace: Duration,
    /// Instruments.
    pub metrics: Metrics,
    /// Asked before each deletion; `None` if every aggregator works.
    pub leadership: Option<Leadership>,
}

impl Sweeper {
    /// Runs until nobody finds candidates any more, which is when the process ends.
    pub async fn run(self, mut found: mpsc::Receiver<Vec<Candidate>>) {
        self.check.pass();
        let mut patience = Patience::new(self.grace);
        while let Some(candidates) = found.recv().await {
            let ripe = patience.ripe(candidates, self.clock.now(), |candidate| {
                let Candidate { report, why } = candidate;
                if *why == Why::ForeignOwner {
                    tracing::warn!(report = %report.name, pod = %report.pod_name, "a report that has another owner than its pod is ignored");
                }
            });
            for candidate in ripe {
                if self.leadership.as_ref().is_some_and(|leadership| !leadership.is_leader()) {
                    break;
                }
                let swept =
                    self.beat.run(format!("report {}", candidate.report.name), DEADLINE, self.sweep(&candidate)).await;
                self.tell(
                    &candidate,
                    swept.unwrap_or_else(|overrun| {
                        Err(Verdict { retry: Retry::Timeout, sentence: overrun.to_string() })
                    }),
                );
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// True if it was deleted.
    async fn sweep(&self, candidate: &Candidate) -> Result<bool, Verdict> {
        let Candidate { report, why } = candidate;
        let leftover = match why {
            Why::NoOwner => true,
            Why::ForeignOwner => false,
            Why::ExecutorGone => !self.actor.executor_exists(&report.executor, &report.executor_uid).await?,
            Why::PodGone => self.actor.pod_uid(&report.pod_name).await?.as_deref() != Some(&*report.pod_uid),
        };
        if leftover {
            self.actor.delete_report(&report.name, &report.uid).await?;
        }
        Ok(leftover)
    }

    fn tell(&self, candidate: &Candidate, swept: Result<bool, Verdict>) {
        let Candidate { report, why } = candidate;
        match swept {
            Ok(true) => {
                tracing::info!(report = %report.name, pod = %report.pod_name, why = why.as_str(), "leftover deleted");
                self.metrics.swept(why.as_str());
                self.check.pass();
            }
            Ok(false) => {}
            Err(verdict) => {
                tracing::warn!(report = %report.name, category = verdict.category(), error = %verdict, "leftover not deleted");
                if verdict.needs_somebody() {
                    // Statuses are right without it, so this does not take readiness away.
                    self.check.pass_with(verdict.sentence);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Version, named};

    fn candidate(uid: &str, why: Why) -> Candidate {
        let report = Report {
            name: uid.into(),
            uid: uid.into(),
            version: Version::new("1"),
            executor: named("base"),
            executor_uid: "exec".into(),
            pod_name: "a".into(),
            pod_uid: "a-uid".into(),
            owner: Owner::ItsPod,
            outcome: None,
        };
        Candidate { report, why }
    }

    #[test]
    fn a_leftover_has_to_be_one_for_two_minutes_without_a_break_and_for_one_reason() {
        let mut patience = Patience::new(Duration::from_mins(2));
        let mut ripe = |at: u64, candidates: &[(&str, Why)]| {
            let candidates = candidates.iter().map(|(uid, why)| candidate(uid, *why)).collect();
            let ripe = patience.ripe(candidates, Duration::from_secs(at), |_| {});
            ripe.into_iter().map(|candidate| candidate.report.uid.to_string()).collect::<Vec<_>>()
        };
        let (a, b) = (("a", Why::PodGone), ("b", Why::ExecutorGone));
        assert!(ripe(0, &[a, b]).is_empty());
        assert!(ripe(60, &[a]).is_empty());
        assert_eq!(ripe(120, &[a, b]), ["a"]);
        assert_eq!(ripe(180, &[("a", Why::NoOwner), b]), [""; 0]);
        assert_eq!(ripe(240, &[a, b]), ["b"]);
    }

    #[test]
    fn what_is_somebody_elses_is_told_once_and_never_deleted() {
        let mut patience = Patience::new(Duration::from_mins(2));
        let mut told = 0;
        for minute in 0..10 {
            let found = vec![candidate("a", Why::ForeignOwner)];
            assert!(patience.ripe(found, Duration::from_mins(minute), |_| told += 1).is_empty());
        }
        assert_eq!(told, 1);
    }
}
