//! When a replica is ready: it knows what exists, and every executor that existed when it started has had its first
//! verdict, good or bad. Once ready it stays so: neither refusals nor an outage make lookups worse than restarting would.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::time::Duration;

use muster_api::{ExecutorKind, Reason};

use super::{Replica, Synced};
use crate::decide::{Say, standing};
use crate::subject::{Now, Subject, Uid};

/// Is the replica ready, and if not, what does it wait for?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is, and stays so.
    Ready,
    /// These watches are not in sync.
    Syncing(Vec<&'static str>),
    /// So many executors that were there at start have had no verdict yet.
    Judging(usize),
}

#[derive(Debug, Default)]
pub(super) struct Startup {
    known: BTreeSet<Uid>,
    listed: [bool; 2],
    synced_at: Option<Duration>,
    ready: bool,
}

impl Startup {
    /// Only the first list of a kind counts: what comes later was not there at start.
    pub(super) fn listed(&mut self, kind: ExecutorKind, uids: &HashSet<Uid>) {
        let first = &mut self.listed[usize::from(kind == ExecutorKind::NamespacedExecutor)];
        if !std::mem::replace(first, true) {
            self.known.extend(uids.iter().cloned());
        }
    }

    pub(super) fn synced(&mut self, synced: Synced, now: Now) {
        if synced.executors && synced.namespaced && synced.own {
            self.synced_at.get_or_insert(now.mono);
        }
    }

    pub(super) fn forget(&mut self, uid: &Uid) {
        self.known.remove(uid);
    }
}

impl Replica {
    /// Notes whether an executor has had its first verdict. To be called when nothing more is to be begun about it.
    pub fn judge(&mut self, uid: &Uid, now: Now) {
        if self.startup.known.contains(uid) && self.is_judged(uid, now) {
            self.startup.forget(uid);
        }
    }

    /// Whether the replica is ready at `now`; latches.
    pub fn readiness(&mut self, now: Now) -> Readiness {
        if self.startup.ready {
            return Readiness::Ready;
        }
        let Some(synced_at) = self.startup.synced_at else { return Readiness::Syncing(self.synced.missing()) };
        let waiting = self.startup.known.len();
        if waiting > 0 && now.mono < synced_at.saturating_add(self.settings.start_grace) {
            return Readiness::Judging(waiting);
        }
        self.startup.ready = true;
        Readiness::Ready
    }

    /// When the replica becomes ready at the latest, if nothing but verdicts is missing.
    pub fn ready_by(&self) -> Option<Duration> {
        let synced_at = self.startup.synced_at.filter(|_| !self.startup.ready)?;
        Some(synced_at.saturating_add(self.settings.start_grace))
    }

    fn is_judged(&self, uid: &Uid, now: Now) -> bool {
        let judged = |subject: &Subject| {
            self.with_snapshot(uid, subject, now, |seen| match standing(&seen).say {
                Say::Silence => false,
                Say::TheSame => true,
                Say::Outcome(outcome) => outcome.reason != Reason::Starting,
            })
        };
        self.subjects.get(uid).is_none_or(judged)
    }
}

impl Synced {
    fn missing(self) -> Vec<&'static str> {
        [(self.executors, "executors"), (self.namespaced, "namespacedexecutors"), (self.own, "executorpodstatuses")]
            .into_iter()
            .filter_map(|(synced, name)| (!synced).then_some(name))
            .collect()
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Syncing(watches) => write!(f, "not in sync yet: {}", watches.join(", ")),
            Self::Judging(1) => f.write_str("1 executor that was there at start has had no verdict yet"),
            Self::Judging(count) => write!(f, "{count} executors that were there at start have had no verdict yet"),
        }
    }
}
