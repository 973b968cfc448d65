//! What to do about one executor now: nothing, wait, read, or write. Pure; the plan is closed, so a test can print it.
//!
//! Nothing to do is the first answer tried: the status as it should be is compared with the status as it stands, times
//! included, in whole seconds, so that our own write does not wake us into another one (C12).

use std::sync::Arc;
use std::time::Duration;

use muster_api::ExecutorStatus;

use crate::contest::Contest;
use crate::facts::{Executor, Version};
use crate::fold::Folded;
use crate::pace::{Occasion, Pace};

/// How long the watch may take to show what a report or a conflict has told us, before we read the object ourselves.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The status is right, or its object is going.
    Nothing,
    /// The status is wrong; decide again at that instant, when it may be written.
    WriteAt(Duration),
    /// Write the status now.
    Write(Occasion),
    /// Our copy of the executor is old: decide again at that instant or when the watch shows a newer one.
    AwaitNewer(Duration),
    /// Our copy is old and the watch does not show a newer one, or it does not tell who rewrites the status: read it.
    Read,
}

/// What is known of one executor from one decision to the next. Times are monotonic, since process start.
#[derive(Clone, Debug)]
pub struct Memory {
    pace: Pace,
    contest: Contest,
    /// The version on which a write conflicted: there is a newer one.
    conflicted: Option<Version>,
    /// The version that a read has shown to be the newest: no report can be ahead of it.
    confirmed: Option<Version>,
    /// The generation on which not every replica has a verdict yet, and since when it is wanted.
    rolling: Option<(i64, Duration)>,
    /// Since when our copy has been known to be old.
    old_since: Option<Duration>,
    /// No write before, because earlier ones failed.
    not_before: Duration,
    last_write: Option<Duration>,
    /// What we wrote last, until somebody changes it.
    wrote: Option<Arc<ExecutorStatus>>,
    /// The status is contested, and by whom is not known yet.
    unnamed: bool,
}

impl Memory {
    /// Starts from what the object says.
    pub fn new(executor: &Executor) -> Self {
        Self {
            pace: Pace::new(executor.generation, executor.status.as_deref()),
            contest: Contest::default(),
            conflicted: None,
            confirmed: None,
            rolling: None,
            old_since: None,
            not_before: Duration::ZERO,
            last_write: None,
            wrote: None,
            unnamed: false,
        }
    }

    /// Decides. Asked again without any change, it answers the same.
    pub fn decide(&mut self, executor: &Executor, folded: &Folded, now: Duration) -> Plan {
        if executor.deleting {
            return Plan::Nothing;
        }
        if self.pace.is_rolling(executor.generation) {
            let begun = self.rolling.filter(|(generation, _)| *generation == executor.generation);
            self.rolling = begun.or(Some((executor.generation, now)));
        }
        if self.unnamed {
            return if self.not_before <= now { Plan::Read } else { Plan::AwaitNewer(self.not_before) };
        }
        if self.is_old(executor, folded) {
            let until = *self.old_since.get_or_insert(now) + PATIENCE;
            // Reads that fail wait like writes that fail.
            let until = until.max(self.not_before);
            return if until <= now { Plan::Read } else { Plan::AwaitNewer(until) };
        }
        self.old_since = None;
        let observed = executor.status.as_deref();
        if observed == Some(&*folded.status) {
            self.pace.nothing_waits();
            return Plan::Nothing;
        }
        let occasion = self.pace.occasion(executor.generation, observed, folded);
        let truce = self.contest.not_before(self.last_write, now);
        let due = self.pace.due(occasion, now).max(self.not_before).max(truce);
        if due <= now { Plan::Write(occasion) } else { Plan::WriteAt(due) }
    }

    /// The watch or a read shows another version of the object. True if somebody has changed what we wrote.
    pub fn seen(&mut self, executor: &Executor, now: Duration) -> bool {
        let Some(wrote) = &self.wrote else { return false };
        if executor.status.as_ref() == Some(wrote) {
            return false;
        }
        self.wrote = None;
        self.unnamed |= self.contest.rewritten(now);
        true
    }

    /// True if somebody has rewritten the status once too often and it is not known who: a read tells, by the object's
    /// managed fields.
    pub const fn is_unnamed(&self) -> bool {
        self.unnamed
    }

    /// It was a manager of somebody else's.
    pub const fn foreign(&mut self) {
        self.unnamed = false;
    }

    /// It was another aggregator of this installation: two may lead for a moment.
    pub fn friendly(&mut self) {
        self.unnamed = false;
        self.contest = Contest::default();
    }

    /// A read has shown that this version is the newest there is.
    pub fn confirmed(&mut self, version: Version) {
        self.confirmed = Some(version);
        self.conflicted = None;
        self.old_since = None;
        self.not_before = Duration::ZERO;
    }

    /// The status was written; `after` is the executor as the answer shows it, the newest version there is. Returns how long
    /// its generation took, if that is settled now.
    pub fn written(
        &mut self,
        after: &Executor,
        occasion: Occasion,
        folded: &Folded,
        now: Duration,
    ) -> Option<Duration> {
        self.pace.written(after.generation, occasion, folded, now);
        self.confirmed(after.version.clone());
        self.last_write = Some(now);
        self.wrote.clone_from(&after.status);
        let ended = self.rolling.filter(|(generation, _)| folded.settled && *generation == after.generation);
        ended.map(|(_, since)| {
            self.rolling = None;
            now.saturating_sub(since)
        })
    }

    /// A write on this version conflicted. The first conflict costs no wait but that for a newer version.
    pub fn conflicted(&mut self, version: Version, not_before: Duration) {
        self.confirmed = None;
        self.conflicted = Some(version);
        self.not_before = not_before;
    }

    /// A write or a read failed, for whatever reason.
    pub fn failed(&mut self, not_before: Duration) {
        self.not_before = not_before;
    }

    fn is_old(&self, executor: &Executor, folded: &Folded) -> bool {
        let ours = Some(&executor.version);
        self.conflicted.as_ref() == ours || folded.ahead && self.confirmed.as_ref() != ours
    }
}

#[cfg(test)]
mod tests;
