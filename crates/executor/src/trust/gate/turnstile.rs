//! One gate with the tasks that wait at it.
//!
//! There is no task that drives it. Whoever changes something (asks, answers, gives up) hands out the calls that became
//! possible by that, and arms one timer if the next one is only a matter of time. Nobody waiting, no timer.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use muster_core::gate::{self, Answer, Gate, Line, Next, Stats, Ticket};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::{Key, Shared};

/// One gate.
pub(super) struct Turnstile {
    shared: Arc<Shared>,
    state: Mutex<State>,
}

struct State {
    gate: Gate<Key>,
    tickets: HashMap<Key, Ticket>,
    waiting: HashMap<Ticket, VecDeque<Waiter>>,
    asked: u64,
    timer: Option<Timer>,
    failing: bool,
}

struct Waiter {
    number: u64,
    turn: oneshot::Sender<Permit>,
}

struct Timer {
    at: Duration,
    task: AbortHandle,
}

/// A call that may be sent now. Dropped without an answer it counts as failed, so no path can keep its place in flight.
#[must_use = "a permit that is dropped counts as a failed call"]
pub(crate) struct Permit {
    turnstile: Arc<Turnstile>,
    permit: Option<gate::Permit>,
}

/// Waiting for one call. Dropped before its turn, it gives its wish back, and its resource keeps its place.
pub(super) struct Turn {
    turnstile: Arc<Turnstile>,
    ticket: Ticket,
    number: u64,
    permit: oneshot::Receiver<Permit>,
}

/// Why somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Others are before.
    Busy,
    /// The upstream refused calls: the gate holds or paces.
    Refused,
    /// The last call came to nothing.
    Failing,
}

impl Turnstile {
    pub(super) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let state = State {
            gate: Gate::new(),
            tickets: HashMap::new(),
            waiting: HashMap::new(),
            asked: 0,
            timer: None,
            failing: false,
        };
        Arc::new(Self { shared, state: Mutex::new(state) })
    }

    /// Asks for one call of the resource `key`, which joins the line if it does not stand there yet.
    pub(super) fn ask(self: &Arc<Self>, key: &Key, line: Line) -> Turn {
        let (turn, permit) = oneshot::channel();
        let (ticket, number) = {
            let mut state = self.state();
            let ticket = state.gate.join(key, line, self.shared.time.now());
            state.tickets.insert(Arc::clone(key), ticket);
            state.gate.ask(ticket);
            state.asked += 1;
            let number = state.asked;
            state.waiting.entry(ticket).or_default().push_back(Waiter { number, turn });
            (ticket, number)
        };
        self.hand_out();
        Turn { turnstile: Arc::clone(self), ticket, number, permit }
    }

    /// The resource leaves the line. Whoever still waits for it has to join again, at the end.
    pub(super) fn leave(self: &Arc<Self>, key: &str) {
        let mut state = self.state();
        let Some(ticket) = state.tickets.remove(key) else { return };
        state.gate.leave(ticket);
        state.waiting.remove(&ticket);
        drop(state);
        self.hand_out();
    }

    pub(super) fn stats(&self, now: Duration) -> Stats {
        self.state().gate.stats(now)
    }

    pub(super) fn mood(&self) -> Mood {
        let state = self.state();
        let seen = state.gate.stats(self.shared.time.now());
        if seen.probing || seen.pace.is_some() {
            Mood::Refused
        } else if state.failing {
            Mood::Failing
        } else {
            Mood::Busy
        }
    }

    /// Gives every call that may be sent now to whoever waits for it.
    fn hand_out(self: &Arc<Self>) {
        let mut turns = Vec::new();
        let mut state = self.state();
        let next = loop {
            match state.gate.poll(self.shared.time.now()) {
                Next::Send { ticket, permit } => {
                    let waiter = state.waiting.get_mut(&ticket).and_then(VecDeque::pop_front);
                    let permit = Permit { turnstile: Arc::clone(self), permit: Some(permit) };
                    turns.push((waiter, permit));
                }
                Next::At(at) => break Some(at),
                Next::AfterAnswer | Next::Idle => break None,
            }
        };
        self.arm(&mut state, next);
        drop(state);
        for (waiter, permit) in turns {
            // Nobody takes it if the task was dropped in this instant; then the permit is dropped too, and counts as failed.
            let _ = waiter.map(|waiter| waiter.turn.send(permit));
        }
    }

    fn arm(self: &Arc<Self>, state: &mut State, next: Option<Duration>) {
        if state.timer.as_ref().map(|timer| timer.at) == next {
            return;
        }
        if let Some(timer) = state.timer.take() {
            timer.task.abort();
        }
        // Outside of a runtime everything is over, and nobody waits any more.
        let (Some(at), Ok(runtime)) = (next, tokio::runtime::Handle::try_current()) else { return };
        let (sleep, turnstile) = (self.shared.time.sleep_until(at), Arc::downgrade(self));
        let task = runtime.spawn(async move {
            sleep.await;
            if let Some(turnstile) = turnstile.upgrade() {
                turnstile.state().timer = None;
                turnstile.hand_out();
            }
        });
        state.timer = Some(Timer { at, task: task.abort_handle() });
    }

    fn answered(self: &Arc<Self>, permit: gate::Permit, answer: Answer) {
        if matches!(answer, Answer::Throttled(_)) {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
        }
        {
            let mut state = self.state();
            let mut rng = self.shared.rng.lock().unwrap_or_else(PoisonError::into_inner);
            state.failing = answer == Answer::Failed;
            state.gate.answered(permit, self.shared.time.now(), answer, &mut **rng);
        }
        self.hand_out();
    }

    fn give_up(self: &Arc<Self>, ticket: Ticket, number: u64) {
        {
            let mut state = self.state();
            let Some(waiting) = state.waiting.get_mut(&ticket) else { return };
            let Some(place) = waiting.iter().position(|waiter| waiter.number == number) else { return };
            waiting.remove(place);
            if waiting.is_empty() {
                state.waiting.remove(&ticket);
            }
            state.gate.withdraw(ticket);
        }
        self.hand_out();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// What became of the call.
    pub(crate) fn answered(mut self, answer: Answer) {
        if let Some(permit) = self.permit.take() {
            self.turnstile.answered(permit, answer);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.turnstile.answered(permit, Answer::Failed);
        }
    }
}

impl Future for Turn {
    /// `None` if the resource left the line meanwhile.
    type Output = Option<Permit>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Permit>> {
        Pin::new(&mut self.permit).poll(context).map(Result::ok)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turnstile.give_up(self.ticket, self.number);
    }
}
