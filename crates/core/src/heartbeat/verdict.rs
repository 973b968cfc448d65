//! The judgement over a ledger, and its facts for `Describe` and metrics.

use std::fmt;
use std::time::Duration;

use super::{Ledger, Line, LoopId, State};

/// Is every loop alive?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every loop is, or the check is disabled.
    Healthy,
    /// These are not, in the order of their names; never empty.
    Stalled(Vec<Stall>),
}

/// A loop without progress. Instants are monotonic, since process start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// The loop.
    pub loop_id: LoopId,
    /// Its oldest piece of work: a name for people.
    pub what: String,
    /// Whether that waits to be started or to be completed.
    pub owed: Owed,
    /// The instant it fell due or was started.
    pub since: Duration,
    /// The instant of the loop's last completion, before the threshold; `None` if there was none.
    pub last_completed: Option<Duration>,
    /// How long there has been no progress although something was owed.
    pub stuck_for: Duration,
}

/// What the oldest piece of work is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// It is due and was not started.
    Start,
    /// It was started and is not completed.
    Completion,
}

/// Facts about one loop at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopSnapshot {
    /// The loop.
    pub loop_id: LoopId,
    /// Pieces of work that are due and not started.
    pub overdue: usize,
    /// Pieces of work that are due later.
    pub scheduled: usize,
    /// Runs that are going on.
    pub running: usize,
    /// Runs that a gate holds back.
    pub parked: usize,
    /// The instant at which the oldest overdue piece fell due.
    pub due_since: Option<Duration>,
    /// The instant at which the next scheduled piece falls due.
    pub next_due: Option<Duration>,
    /// The instant at which the oldest run was started or resumed.
    pub running_since: Option<Duration>,
    /// The instant of the last completion, successful or not.
    pub last_completed: Option<Duration>,
    /// Completions since process start.
    pub completed: u64,
    /// How long there has been no progress although something was owed; zero for a loop that owes nothing.
    pub stuck_for: Duration,
}

impl Verdict {
    /// True unless a loop has stalled.
    pub const fn is_healthy(&self) -> bool {
        matches!(self, Self::Healthy)
    }
}

impl Ledger {
    /// Judges all loops at `now`. A function of the ledger and `now` alone.
    pub fn verdict(&self, now: Duration) -> Verdict {
        if self.threshold.is_zero() {
            return Verdict::Healthy;
        }
        let stalls: Vec<Stall> = self
            .loops
            .iter()
            .filter_map(|(id, line)| line.stall(*id, now))
            .filter(|stall| stall.stuck_for > self.threshold)
            .collect();
        if stalls.is_empty() { Verdict::Healthy } else { Verdict::Stalled(stalls) }
    }

    /// The facts about every loop at `now`, in the order of their names.
    pub fn snapshot(&self, now: Duration) -> Vec<LoopSnapshot> {
        self.loops.iter().map(|(id, line)| line.snapshot(*id, now)).collect()
    }

    /// The threshold this ledger judges by; zero if the verdict is disabled.
    pub const fn threshold(&self) -> Duration {
        self.threshold
    }
}

impl Line {
    /// The oldest piece of work that is owed at `now`, with the time since when nothing moved.
    fn stall(&self, loop_id: LoopId, now: Duration) -> Option<Stall> {
        let owed = self.work.values().filter_map(|work| match work.state {
            State::Due { at } if at <= now => Some((at, Owed::Start, work)),
            State::Running { since } => Some((since, Owed::Completion, work)),
            State::Due { .. } | State::Parked => None,
        });
        let (since, owed, work) = owed.min_by_key(|(since, ..)| *since)?;
        let progress = self.last_completed.map_or(since, |completed| completed.max(since));
        Some(Stall {
            loop_id,
            what: work.what.clone().into_owned(),
            owed,
            since,
            last_completed: self.last_completed,
            stuck_for: now.saturating_sub(progress),
        })
    }

    fn snapshot(&self, loop_id: LoopId, now: Duration) -> LoopSnapshot {
        let mut snapshot = LoopSnapshot {
            loop_id,
            overdue: 0,
            scheduled: 0,
            running: 0,
            parked: 0,
            due_since: None,
            next_due: None,
            running_since: None,
            last_completed: self.last_completed,
            completed: self.completed,
            stuck_for: self.stall(loop_id, now).map_or(Duration::ZERO, |stall| stall.stuck_for),
        };
        for work in self.work.values() {
            match work.state {
                State::Due { at } if at <= now => {
                    snapshot.overdue += 1;
                    earliest(&mut snapshot.due_since, at);
                }
                State::Due { at } => {
                    snapshot.scheduled += 1;
                    earliest(&mut snapshot.next_due, at);
                }
                State::Running { since } => {
                    snapshot.running += 1;
                    earliest(&mut snapshot.running_since, since);
                }
                State::Parked => snapshot.parked += 1,
            }
        }
        snapshot
    }
}

fn earliest(slot: &mut Option<Duration>, at: Duration) {
    *slot = Some(slot.map_or(at, |earlier| earlier.min(at)));
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Stalled(stalls) = self else { return f.write_str("every loop makes progress") };
        for (index, stall) in stalls.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{stall}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, missing) = match self.owed {
            Owed::Start => ("due", "started"),
            Owed::Completion => ("running", "completed"),
        };
        write!(
            f,
            "loop {} has stalled: {} is {verb} since {}s after start and was not {missing}, nothing moved for {}s",
            self.loop_id,
            self.what,
            self.since.as_secs(),
            self.stuck_for.as_secs()
        )
    }
}
