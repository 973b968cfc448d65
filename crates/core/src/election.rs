//! Who leads: client-go's rules for a Lease, as a state machine that does no I/O.
//!
//! Every write is guarded by the resourceVersion that was read, so of two contenders one loses. A foreign claim expires
//! on *our* monotonic clock, counted from the moment we saw the Lease change; the times inside it are another machine's
//! and only tell that it changed (C54). A leader counts its own claim from the moment it *sent* the write, and gives up
//! a margin before anybody else may take over. Losing the Lease is an ordinary event: the machine steps down and
//! contends again (C46, C49). On shutdown the Lease is given back, and whoever sees that takes it at once.
//!
//! The driver owns the requests, a watch of the Lease and a timer, and repeats: [`Election::poll`], do what it says,
//! wait for the first of answer, watch event, shutdown and timer, pass it to [`Election::input`]. There is at most one
//! request in flight: when `poll` asks for another one, the former is dropped.

mod contender;
mod timing;

use std::time::Duration;

use jiff::Timestamp;

pub use contender::Election;
pub use timing::{Timing, TimingError};

/// What makes a write conditional. Both go into the `metadata` of the PUT: a PUT of a Lease that was deleted meanwhile
/// would create it if only the resourceVersion was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// `metadata.resourceVersion`, opaque.
    pub resource_version: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// A Lease as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Guard for the next write.
    pub guard: Guard,
    /// `spec.holderIdentity`; `None` or empty after a release.
    pub holder: Option<String>,
    /// `spec.leaseDurationSeconds`; zero if absent, which stands for our own.
    pub duration: Duration,
    /// `spec.leaseTransitions`.
    pub transitions: i32,
    /// `spec.acquireTime`: carried over while the holder stays.
    pub acquired: Option<Timestamp>,
    /// `spec.renewTime`: never compared with a clock, only with its own former value.
    pub renewed: Option<Timestamp>,
}

/// The Lease to write. `renewTime` is the wall time at which the driver writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// `None`: create it, or fail if it exists.
    pub guard: Option<Guard>,
    /// `None` releases: an empty `holderIdentity`.
    pub holder: Option<String>,
    /// `leaseDurationSeconds`, whole seconds.
    pub duration: Duration,
    /// `leaseTransitions`.
    pub transitions: i32,
    /// `acquireTime`; `None` stands for the time of writing.
    pub acquired: Option<Timestamp>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// [`Action::Read`] found the Lease.
    Found(Record),
    /// [`Action::Read`] found that there is none.
    Absent,
    /// [`Action::Read`] got no useful answer.
    ReadFailed,
    /// A write was stored; this is the Lease the server answered with.
    Stored(Record),
    /// A write was refused because the Lease is not as its guard says: 409, or 422 for a create of what exists.
    Conflict,
    /// A write was refused for another reason, or its outcome is unknown.
    WriteFailed,
    /// The watch saw the Lease.
    Watched(Record),
    /// The watch saw the Lease deleted.
    WatchedDeleted,
    /// The process ends. The machine steps down, releases and stops.
    Shutdown,
}

/// What to do now. Instants are monotonic, since process start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// GET the Lease, from the server, not a cache. No answer by `give_up_at` is [`Input::ReadFailed`].
    Read {
        /// When the answer is of no use any more.
        give_up_at: Duration,
    },
    /// PUT the Lease to become its holder. No answer by `give_up_at` is [`Input::WriteFailed`].
    TryAcquire {
        /// The Lease.
        write: Write,
        /// When the answer is of no use any more.
        give_up_at: Duration,
    },
    /// PUT the Lease to stay its holder. No answer by `give_up_at` is [`Input::WriteFailed`].
    Renew {
        /// The Lease.
        write: Write,
        /// When the answer is of no use any more.
        give_up_at: Duration,
    },
    /// PUT the Lease to give it back. No answer by `give_up_at` is [`Input::WriteFailed`].
    Release {
        /// The Lease.
        write: Write,
        /// When the answer is of no use any more.
        give_up_at: Duration,
    },
    /// Leadership was won: start the work of a leader.
    Lead,
    /// Leadership is over: end the work of a leader, and poll again only when it has ended.
    StepDown(StepDown),
    /// Nothing until this instant, or until something happens.
    WaitUntil(Duration),
    /// The machine has stopped after [`Input::Shutdown`]; there is nothing left to do.
    Stop,
}

/// Why leadership ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepDown {
    /// No renewal succeeded in time; another may take over soon.
    RenewDeadline,
    /// The Lease names another holder, or none (`None`).
    Taken {
        /// Who holds it.
        holder: Option<String>,
    },
    /// Somebody deleted the Lease.
    Deleted,
    /// We were told to.
    Shutdown,
}

impl Record {
    /// Whether this is a new claim or a renewal compared with `before`. A change of labels or annotations is neither,
    /// although it moves the resourceVersion.
    fn claims_anew(&self, before: &Self) -> bool {
        (&self.holder, self.duration, self.transitions, self.acquired, self.renewed)
            != (&before.holder, before.duration, before.transitions, before.acquired, before.renewed)
            || self.guard.uid != before.guard.uid
    }

    /// The holder, if there is one.
    fn holder(&self) -> Option<&str> {
        self.holder.as_deref().filter(|holder| !holder.is_empty())
    }
}

impl StepDown {
    /// Stable word for metrics and logs.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::RenewDeadline => "RenewDeadline",
            Self::Taken { .. } => "Taken",
            Self::Deleted => "Deleted",
            Self::Shutdown => "Shutdown",
        }
    }
}

#[cfg(test)]
mod tests;
