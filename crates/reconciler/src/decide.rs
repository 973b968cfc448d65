//! What to do next about one executor, from everything that is known about it. Synchronous, without a clock, a client or
//! a random source, and never told what changed: events and timers take this one path, so no step can depend on which of
//! them came first.
//!
//! A plan is one step. Its effect is recorded ([`crate::replica::Replica::begin`]) before the next decision, so the
//! controller asks again until the answer is [`Plan::Wait`] or [`Plan::Nothing`].

mod attempt;
mod report;
mod standing;

use std::fmt;
use std::time::Duration;

use muster_executor::Claim;

use crate::subject::{Now, Outcome, Presence, Purpose, Said, Served, Subject};

pub use report::{pod_report, whole_seconds};
pub use standing::{Say, Standing, standing};

/// Durations that the operator of the process chooses.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long the generation before an edit serves while the new one cannot be loaded (`--edit-grace`).
    pub edit_grace: Duration,
    /// How long an executor may be without a first verdict before that is reported (`--start-grace`).
    pub start_grace: Duration,
}

/// Everything a decision about one executor is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The executor.
    pub subject: &'a Subject,
    /// Whether somebody older lists a scope of its last known spec.
    pub claim: &'a Claim,
    /// Somebody else lists a scope of the held executor now.
    pub is_contested: bool,
    /// The spec of somebody older in its bucket is not known yet.
    pub is_open: bool,
    /// Before when not to send.
    pub waits: Waits,
    /// The watch on the own objects is in sync.
    pub own_synced: bool,
    /// The process's settings.
    pub settings: &'a Settings,
    /// This instant.
    pub now: Now,
}

/// Instants before which a request must not be sent again; `None` if nothing failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Reading the spec.
    pub read: Option<Duration>,
    /// Loading its trust material.
    pub build: Option<Duration>,
    /// Writing or deleting the own object.
    pub write: Option<Duration>,
    /// Putting the own object right after somebody changed it.
    pub restore: Option<Duration>,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Nothing, until something happens.
    Nothing,
    /// Nothing, until one of these instants or until something happens.
    Wait(Agenda),
    /// Let the serve set know that the executor exists, which closes its namespace's fallback.
    Announce,
    /// Read the object: this generation is not known.
    Fetch {
        /// The generation.
        generation: i64,
    },
    /// Begin an attempt on this generation.
    Build {
        /// The generation.
        generation: i64,
        /// What for.
        purpose: Purpose,
    },
    /// Drop the attempt that is going on: nobody wants its result any more.
    Cancel,
    /// Let lookups find the held executor.
    Serve(Served),
    /// Let lookups find nothing.
    Withdraw,
    /// Let the serve set forget the executor, and with it whatever it served.
    Remove,
    /// Note that the own object already says this; nothing is sent.
    Adopt(Box<Said>),
    /// Apply the own object.
    Report(Box<Said>),
    /// Delete the own object that has this UID.
    DeleteReport {
        /// Name of the object.
        name: String,
        /// UID of the object.
        uid: String,
    },
    /// Forget the executor; nothing of it is left.
    Drop,
}

/// When something falls due, by loop, so that liveness can be judged (monotonic instants).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agenda {
    /// An attempt at something that does not serve yet.
    pub build: Option<Duration>,
    /// An attempt at something that serves.
    pub refresh: Option<Duration>,
    /// A write.
    pub report: Option<Duration>,
    /// The passing of time alone changes the outcome: a grace ends, a certificate expires.
    pub outcome: Option<Duration>,
}

/// One line of work: begin it, look again later, or leave it until something happens.
enum Next {
    Now(Plan),
    At(Duration),
    Never,
}

/// The next step.
pub fn decide(seen: &Snapshot<'_>) -> Plan {
    let subject = seen.subject;
    let present = match &subject.presence {
        Presence::Unresolved => return Plan::Nothing,
        Presence::Gone => return departure(seen),
        Presence::Present(present) => present,
    };
    if !subject.announced {
        return Plan::Announce;
    }
    if attempt::is_moot(seen, present) {
        return Plan::Cancel;
    }
    let standing = standing(seen);
    if standing.served != subject.served {
        return standing.served.map_or(Plan::Withdraw, Plan::Serve);
    }
    let mut agenda = Agenda { outcome: standing.changes_at, ..Agenda::default() };
    match attempt::next(seen, present) {
        Next::Now(plan) => return plan,
        Next::At(at) => match attempt::purpose(subject, present) {
            Purpose::Load => agenda.build = Some(at),
            Purpose::Refresh => agenda.refresh = Some(at),
        },
        Next::Never => {}
    }
    match report::next(seen, &standing.say) {
        Next::Now(plan) => return plan,
        Next::At(at) => agenda.report = Some(at),
        Next::Never => {}
    }
    agenda.plan()
}

/// The executor is gone: leave nothing of it, one thing after the other.
fn departure(seen: &Snapshot<'_>) -> Plan {
    let subject = seen.subject;
    if subject.attempt.is_some() {
        return Plan::Cancel;
    }
    if subject.announced {
        return Plan::Remove;
    }
    if subject.writing.is_some() || !seen.own_synced {
        return Plan::Nothing;
    }
    let Some(own) = &subject.own else { return Plan::Drop };
    match seen.waits.write.filter(|not_before| *not_before > seen.now.mono) {
        Some(at) => Agenda { report: Some(at), ..Agenda::default() }.plan(),
        None => Plan::DeleteReport { name: own.name.clone(), uid: own.uid.clone() },
    }
}

impl Agenda {
    /// The first of its instants.
    pub fn next(&self) -> Option<Duration> {
        [self.build, self.refresh, self.report, self.outcome].into_iter().flatten().min()
    }

    fn plan(self) -> Plan {
        if self.next().is_some() { Plan::Wait(self) } else { Plan::Nothing }
    }
}

impl Plan {
    /// True if there is nothing to begin now.
    pub const fn is_rest(&self) -> bool {
        matches!(self, Self::Nothing | Self::Wait(_))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Wait(agenda) => write!(f, "wait {agenda}"),
            Self::Announce => f.write_str("announce"),
            Self::Fetch { generation } => write!(f, "fetch {generation}"),
            Self::Build { generation, purpose } => write!(f, "{purpose} {generation}"),
            Self::Cancel => f.write_str("cancel"),
            Self::Serve(served) => write!(f, "serve {} {}", served.generation, served.serves),
            Self::Withdraw => f.write_str("withdraw"),
            Self::Remove => f.write_str("remove"),
            Self::Adopt(said) => write!(f, "adopt {}", said.outcome),
            Self::Report(said) => write!(f, "report {}", said.outcome),
            Self::DeleteReport { name, .. } => write!(f, "delete {name}"),
            Self::Drop => f.write_str("drop"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.succeeded { "ok" } else { "failed" };
        write!(f, "{} {word} {} {}", self.generation, self.serves, self.reason)?;
        if self.error.is_empty() { Ok(()) } else { write!(f, ": {}", self.error) }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Refresh => "refresh",
        })
    }
}

impl fmt::Display for Agenda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (word, at) in
            [("load", self.build), ("refresh", self.refresh), ("report", self.report), ("outcome", self.outcome)]
        {
            if let Some(at) = at {
                write!(f, "{separator}{word}@{}s", at.as_secs_f64())?;
                separator = " ";
            }
        }
        Ok(())
    }
}
