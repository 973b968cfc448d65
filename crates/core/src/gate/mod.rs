//! The gate: one pace per credential, learned from refusals.
//!
//! Resources that share a rate-limited credential and back off each on its own never converge once they are many. All
//! calls with one credential (upstream and token) therefore pass one gate, which finds the upstream's rate from the
//! refusals themselves and hands out the calls in order. Processes that share a token know nothing of each other; their
//! gates drift towards equal shares. The algorithm was found by simulation (package `muster-simulation` repeats it).
//!
//! The gate is a plain value: the caller tells it the time (since any fixed start, monotonic), what was answered and a
//! source of randomness, and asks what is next. Nothing here waits. A driver goes like this:
//!
//! 1. A resource [joins](Gate::join) with its key and [asks](Gate::ask) for a call.
//! 2. The driver [polls](Gate::poll) until it gets something else than [`Next::Send`], wakes the resource of each ticket
//!    it got, and polls again at the instant named, after the next answer, or after the next `ask`.
//! 3. The resource sends its call and its [`Permit`] comes back through [`Gate::answered`], whatever became of it.
//! 4. Refused or not, the resource asks again until it has all it needs, and then [leaves](Gate::leave).
//!
//! Split by concern: `answer` classes answers, `line` knows whose turn it is, `pace` when the next call may go, from what
//! `measure` learned, along the curve of `search`, after the holds of `wait`.

mod answer;
mod line;
mod measure;
mod pace;
mod search;
#[cfg(test)]
mod tests;
mod wait;

use std::time::Duration;

use rand::Rng;

pub use answer::{Answer, Refusal};
use line::Lines;
pub use line::{Line, Ticket};
pub use pace::Permit;
use pace::{Leave, Pace, Phase};

/// Calls behind a full measure. A rate measured on m calls errs by one part in m. The pace saves a quarter call until it
/// is back at the measured rate and then spends it: an empty bucket breaks at x⁴/4 = 1¼, x = 1.5, so a full epoch is
/// 2.5 · 25 = 62 calls and 1.6 % are refused. From a first guess (two calls) each epoch multiplies the measure by 2.5:
/// the rate is learned after three or four refusals.
const FULL_MEASURE: f64 = 25.0;

/// All calls of one process with one credential. `K` is what a resource is known by, for instance its UID.
#[derive(Debug, Clone)]
pub struct Gate<K> {
    lines: Lines<K>,
    pace: Pace,
}

/// What is next at a gate.
#[derive(Debug, PartialEq)]
#[must_use = "a call that is not sent must still be answered"]
pub enum Next {
    /// The resource of this ticket sends one call now.
    Send {
        /// Whose turn it is.
        ticket: Ticket,
        /// To be given back with the answer.
        permit: Permit,
    },
    /// Nothing may be sent before this instant.
    At(Duration),
    /// Nothing may be sent before an answer to a call in flight is in.
    AfterAnswer,
    /// Nobody waits: nothing to do before somebody asks.
    Idle,
}

/// A gate as metrics and people see it, at one instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    /// Resources waiting with a new spec, a changed credential or nothing served.
    pub waiting_urgent: usize,
    /// Resources waiting to renew material that is still good.
    pub waiting_refresh: usize,
    /// How long the oldest of the waiting resources has been at this gate, its earlier calls included.
    pub oldest_wait: Option<Duration>,
    /// Calls in flight.
    pub in_flight: usize,
    /// Calls per second allowed now; `None` while the gate has no pace: never refused, or holding.
    pub pace: Option<f64>,
    /// Calls refused since the gate exists.
    pub refused: u64,
    /// Nothing is sent before this instant; `None` if it is past.
    pub hold_until: Option<Duration>,
    /// Refused, and no probe admitted since.
    pub probing: bool,
}

impl<K> Default for Gate<K> {
    fn default() -> Self {
        Self { lines: Lines::default(), pace: Pace::default() }
    }
}

impl<K: Ord + Clone> Gate<K> {
    /// A gate that was never refused and has no user.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the resource a ticket, or the one it already has.
    ///
    /// The ticket lasts until [`leave`](Self::leave). Joining again as urgent moves a resource from the refresh line to
    /// the urgent one, where it stands by its ticket: ahead of those who joined the gate after it. Joining again as
    /// refresh changes nothing.
    pub fn join(&mut self, key: &K, line: Line, now: Duration) -> Ticket {
        self.lines.join(key, line, now)
    }

    /// The resource is done or gone: its ticket and all it asked for lapse. Permits it still holds must come back.
    pub fn leave(&mut self, ticket: Ticket) {
        self.lines.leave(ticket);
    }

    /// The resource wants to send one more call. False if its ticket has lapsed: then nothing will come.
    pub fn ask(&mut self, ticket: Ticket) -> bool {
        self.lines.ask(ticket)
    }

    /// The resource wants one call less, for instance because the task that asked was dropped. It keeps its place.
    pub fn withdraw(&mut self, ticket: Ticket) {
        self.lines.withdraw(ticket);
    }

    /// What is next at `now`. To be called until it is no [`Next::Send`].
    pub fn poll(&mut self, now: Duration) -> Next {
        if self.lines.nobody_waits() {
            return Next::Idle;
        }
        match self.pace.may_send(now) {
            Leave::At(instant) => Next::At(instant),
            Leave::AfterAnswer => Next::AfterAnswer,
            Leave::Now => match self.lines.take() {
                Some(ticket) => Next::Send { ticket, permit: self.pace.sent(now) },
                None => Next::Idle,
            },
        }
    }

    /// The call of `permit` came to `answer` at `now`. A permit dropped without an answer is [`Answer::Failed`].
    #[expect(clippy::needless_pass_by_value, reason = "a permit comes back once")]
    pub fn answered<R: Rng + ?Sized>(&mut self, permit: Permit, now: Duration, answer: Answer, rng: &mut R) {
        self.pace.answered(&permit, now, answer, rng);
    }

    /// No resource holds a ticket and no call is in flight: the gate may be dropped.
    pub fn is_unused(&self) -> bool {
        self.lines.len() == 0 && self.pace.in_flight == 0
    }

    /// The gate as seen at `now`.
    pub fn stats(&self, now: Duration) -> Stats {
        Stats {
            waiting_urgent: self.lines.waiting(Line::Urgent),
            waiting_refresh: self.lines.waiting(Line::Refresh),
            oldest_wait: self.lines.oldest().map(|joined| now.saturating_sub(joined)),
            in_flight: self.pace.in_flight,
            pace: match &self.pace.phase {
                Phase::Paced(search) => Some(search.pace(now)),
                Phase::Open | Phase::Hold(_) => None,
            },
            refused: self.pace.refused,
            hold_until: Some(self.pace.hold).filter(|hold| *hold > now),
            probing: matches!(self.pace.phase, Phase::Hold(_)),
        }
    }
}
