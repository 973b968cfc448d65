//! Liveness from progress: what each loop of a process owes, what it is doing, and when it last finished something.
//!
//! The ledger holds facts, [`Ledger::verdict`] judges them. A loop has stalled when something has been due, or a run
//! has been going on, for longer than the threshold **and** nothing was completed *in that loop* since. From this follow
//! the cases that have killed healthy processes elsewhere, without a rule of their own: a standby owes nothing; an idle
//! cluster owes nothing; an hourly refresh or a long `Retry-After` is due later; the clock starts when work falls due,
//! so neither a won election nor the first object after a quiet night is a stall; and one live loop cannot hide a dead one.
//!
//! A loop cannot run without saying what is due. Work is a [`Ticket`], whose type is its state, and only these steps exist:
//!
//! ```text
//! due() ──► Ticket<Due> ──start()──► Ticket<Running> ──complete()──────────► (nothing due)
//!               ▲                      │        ▲                complete_then_due()
//!               └──────────────────────┼────────┼──────────────────────┘
//!                                   park()   resume()
//!                                      ▼        │
//!                                  Ticket<Parked>
//! ```
//!
//! A ticket that vanishes with its object is given back by [`Ledger::withdraw`]. One that is lost stays due, and fails
//! liveness in the end: a forgotten duty is a defect, and this is where it shows.

mod loop_id;
mod threshold;
mod verdict;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

pub use loop_id::LoopId;
pub use threshold::{ThresholdError, validate_threshold};
pub use verdict::{LoopSnapshot, Owed, Stall, Verdict};

/// State of a [`Ticket`]: due at some time, past or future.
#[derive(Debug)]
pub enum Due {}

/// State of a [`Ticket`]: a run has started.
#[derive(Debug)]
pub enum Running {}

/// State of a [`Ticket`]: neither due nor started, because somebody else decides when it goes on: a gate.
#[derive(Debug)]
pub enum Parked {}

/// One piece of work of one loop. Neither `Clone` nor `Copy`: each step of its life consumes it, so that nothing
/// completes twice or starts without having been due.
#[derive(Debug)]
#[must_use = "a lost ticket stays due and fails liveness in the end; withdraw it"]
pub struct Ticket<S> {
    loop_id: LoopId,
    id: u64,
    state: PhantomData<S>,
}

/// The progress of all loops of one process. Times are monotonic, since process start. Every method is cheap and none
/// blocks; whoever shares a ledger between tasks wraps it in a mutex.
#[derive(Debug)]
pub struct Ledger {
    threshold: Duration,
    loops: BTreeMap<LoopId, Line>,
    next_id: u64,
}

#[derive(Debug, Default)]
struct Line {
    work: BTreeMap<u64, Work>,
    last_completed: Option<Duration>,
    completed: u64,
}

#[derive(Debug)]
struct Work {
    what: Cow<'static, str>,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Due { at: Duration },
    Running { since: Duration },
    Parked,
}

impl<S> Ticket<S> {
    /// The loop this work belongs to.
    pub const fn loop_id(&self) -> LoopId {
        self.loop_id
    }

    const fn into_state<T>(self) -> Ticket<T> {
        Ticket { loop_id: self.loop_id, id: self.id, state: PhantomData }
    }
}

impl Ledger {
    /// A ledger of the given loops, which owe nothing yet. A `threshold` of zero disables the verdict, not the facts.
    pub fn new(threshold: Duration, loops: impl IntoIterator<Item = LoopId>) -> Self {
        Self { threshold, loops: loops.into_iter().map(|id| (id, Line::default())).collect(), next_id: 0 }
    }

    /// Declares that the loop owes `what` from the instant `at` on, which may lie in the future. `what` is for people
    /// (`executor akv-prod`), in a stall's sentence. A loop the ledger did not know becomes known.
    pub fn due(&mut self, loop_id: LoopId, what: impl Into<Cow<'static, str>>, at: Duration) -> Ticket<Due> {
        let id = self.next_id;
        self.next_id += 1;
        self.loops.entry(loop_id).or_default().work.insert(id, Work { what: what.into(), state: State::Due { at } });
        Ticket { loop_id, id, state: PhantomData }
    }

    /// Moves the instant at which the work is due, either way: a backoff grew, an edit arrived.
    pub fn reschedule(&mut self, ticket: &Ticket<Due>, at: Duration) {
        self.set(ticket, State::Due { at });
    }

    /// Starts a run, early or late.
    pub fn start(&mut self, ticket: Ticket<Due>, now: Duration) -> Ticket<Running> {
        self.set(&ticket, State::Running { since: now });
        ticket.into_state()
    }

    /// Takes a run out of the judgement while a gate holds it back.
    pub fn park(&mut self, ticket: Ticket<Running>) -> Ticket<Parked> {
        self.set(&ticket, State::Parked);
        ticket.into_state()
    }

    /// Goes on with a parked run. Its clock starts anew: the wait was not its fault.
    pub fn resume(&mut self, ticket: Ticket<Parked>, now: Duration) -> Ticket<Running> {
        self.set(&ticket, State::Running { since: now });
        ticket.into_state()
    }

    /// Ends a run, with success or failure alike, after which this work owes nothing.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is used up by its last step")]
    pub fn complete(&mut self, ticket: Ticket<Running>, now: Duration) {
        let Ticket { loop_id, id, .. } = ticket;
        if let Some(line) = self.loops.get_mut(&loop_id) {
            line.work.remove(&id);
            line.completed += 1;
            line.last_completed = line.last_completed.max(Some(now));
        }
    }

    /// Ends a run, with success or failure alike, and declares when the same work is due again.
    pub fn complete_then_due(&mut self, ticket: Ticket<Running>, now: Duration, at: Duration) -> Ticket<Due> {
        if let Some(line) = self.loops.get_mut(&ticket.loop_id) {
            line.completed += 1;
            line.last_completed = line.last_completed.max(Some(now));
        }
        self.set(&ticket, State::Due { at });
        ticket.into_state()
    }

    /// Takes work back that nobody owes any more: its object is gone, leadership was lost. Completes nothing.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is used up by its last step")]
    pub fn withdraw<S>(&mut self, ticket: Ticket<S>) {
        let Ticket { loop_id, id, .. } = ticket;
        if let Some(line) = self.loops.get_mut(&loop_id) {
            line.work.remove(&id);
        }
    }

    fn set<S>(&mut self, ticket: &Ticket<S>, state: State) {
        if let Some(work) = self.loops.get_mut(&ticket.loop_id).and_then(|line| line.work.get_mut(&ticket.id)) {
            work.state = state;
        }
    }
}

#[cfg(test)]
mod tests;
