//! The progress ledger of `muster-core`, shared between tasks and given a clock. The typed steps of a ticket stay: a
//! [`Work`] is due, running or parked, and each step consumes it.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_core::heartbeat::{Due, Ledger, LoopId, LoopSnapshot, Parked, Running, Ticket, Verdict};

use crate::clock::Clock;
use crate::fault::Faults;

/// The ledger of this process. Clones share it.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    ledger: Arc<Mutex<Ledger>>,
    clock: Clock,
    faults: Faults,
}

/// One loop of this process.
#[derive(Clone, Debug)]
pub struct Loop {
    heartbeat: Heartbeat,
    id: LoopId,
}

/// A piece of work of one loop.
///
/// Dropped half-way it is withdrawn, for nobody owes it any more: its task was cancelled because its object is gone or
/// changed, or the run panicked. A panic does not pass for idleness by this: [`crate::supervise`] sees it, either as a
/// failed run that is tried again or as a task that ended.
#[derive(Debug)]
#[must_use = "work that is dropped is withdrawn"]
pub struct Work<S> {
    ticket: Option<Ticket<S>>,
    owner: Loop,
}

/// A run took longer than its hard deadline and was dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({loop_id}) was given up after {}", crate::args::shown(*deadline))]
pub struct Overrun {
    /// The loop.
    pub loop_id: LoopId,
    /// The work.
    pub what: String,
    /// Its deadline.
    pub deadline: Duration,
}

impl Heartbeat {
    /// A ledger of these loops. A `threshold` of zero disables the verdict, not the facts.
    pub fn new(threshold: Duration, loops: impl IntoIterator<Item = LoopId>, clock: Clock) -> Self {
        Self { ledger: Arc::new(Mutex::new(Ledger::new(threshold, loops))), clock, faults: Faults::default() }
    }

    /// Hangs or delays loops on purpose; only a build with the feature `fault` can make any.
    #[must_use]
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// The handle of one loop.
    pub fn of(&self, id: LoopId) -> Loop {
        Loop { heartbeat: self.clone(), id }
    }

    /// Judges all loops now.
    pub fn verdict(&self) -> Verdict {
        let now = self.clock.now();
        self.with(|ledger| ledger.verdict(now))
    }

    /// The facts about every loop now.
    pub fn snapshot(&self) -> Vec<LoopSnapshot> {
        let now = self.clock.now();
        self.with(|ledger| ledger.snapshot(now))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Ledger) -> T) -> T {
        // No method of the ledger panics half-way through a change, so a poisoned lock still guards facts.
        act(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Loop {
    /// Which loop it is.
    pub const fn id(&self) -> LoopId {
        self.id
    }

    /// Declares `what` due now.
    pub fn due_now(&self, what: impl Into<Cow<'static, str>>) -> Work<Due> {
        self.due_at(what, self.now())
    }

    /// Declares `what` due at a monotonic instant of [`Clock::now`].
    pub fn due_at(&self, what: impl Into<Cow<'static, str>>, at: Duration) -> Work<Due> {
        self.work(self.heartbeat.with(|ledger| ledger.due(self.id, what, at)))
    }

    /// One whole run under a hard deadline: due now, started, and completed whatever becomes of it.
    pub async fn run<T>(
        &self,
        what: impl Into<Cow<'static, str>>,
        deadline: Duration,
        run: impl Future<Output = T>,
    ) -> Result<T, Overrun> {
        let what = what.into();
        let running = self.due_now(what.clone()).start().await;
        let result = tokio::time::timeout(deadline, run).await;
        running.complete();
        result.map_err(|_elapsed| Overrun { loop_id: self.id, what: what.into_owned(), deadline })
    }

    /// Where injected faults act; returns at once in every shipped build.
    pub async fn faults(&self) {
        self.heartbeat.faults.act(self.id).await;
    }

    pub(crate) fn now(&self) -> Duration {
        self.heartbeat.clock.now()
    }

    fn work<S>(&self, ticket: Ticket<S>) -> Work<S> {
        Work { ticket: Some(ticket), owner: self.clone() }
    }
}

impl Work<Due> {
    /// Moves the instant at which it is due, either way.
    pub fn reschedule(&self, at: Duration) {
        if let Some(ticket) = &self.ticket {
            self.owner.heartbeat.with(|ledger| ledger.reschedule(ticket, at));
        }
    }

    /// Starts the run. Asynchronous only for the sake of injected faults, which act here: outside the run's deadline, as
    /// a loop that is really stuck would be.
    pub async fn start(self) -> Work<Running> {
        let running = self.start_unhindered();
        running.owner.faults().await;
        running
    }

    /// Starts the run where nothing can be awaited; injected faults do not act.
    pub fn start_unhindered(self) -> Work<Running> {
        let now = self.owner.now();
        self.step(|ledger, ticket| ledger.start(ticket, now))
    }
}

impl Work<Running> {
    /// Ends the run, with success or failure alike.
    pub fn complete(mut self) {
        let now = self.owner.now();
        if let Some(ticket) = self.ticket.take() {
            self.owner.heartbeat.with(|ledger| ledger.complete(ticket, now));
        }
    }

    /// Ends the run and declares when the same work is due again.
    pub fn complete_then_due(self, at: Duration) -> Work<Due> {
        let now = self.owner.now();
        self.step(|ledger, ticket| ledger.complete_then_due(ticket, now, at))
    }

    /// Takes the run out of the judgement while a gate holds it back.
    pub fn park(self) -> Work<Parked> {
        self.step(Ledger::park)
    }
}

impl Work<Parked> {
    /// Goes on with the run; its clock starts anew.
    pub fn resume(self) -> Work<Running> {
        let now = self.owner.now();
        self.step(|ledger, ticket| ledger.resume(ticket, now))
    }
}

impl<S> Work<S> {
    /// Takes the work back: nobody owes it any more. The same as dropping it, said aloud.
    pub fn withdraw(self) {
        drop(self);
    }

    fn step<T>(mut self, step: impl FnOnce(&mut Ledger, Ticket<S>) -> Ticket<T>) -> Work<T> {
        let ticket = self.ticket.take().map(|ticket| self.owner.heartbeat.with(|ledger| step(ledger, ticket)));
        Work { ticket, owner: self.owner.clone() }
    }
}

impl<S> Drop for Work<S> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.owner.heartbeat.with(|ledger| ledger.withdraw(ticket));
        }
    }
}

#[cfg(test)]
mod tests;
