//! What a replica knows about one executor object: facts only, no handles, so that a test can write any of it down.
//!
//! What the facts stand for (compiled specs, built executors, running tasks, requests) is kept by the controller; the
//! decisions need to know that it exists, of which generation it is and until when it is good.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{ExecutorKind, ExecutorRef, PodReport, Reason, Serves};
use muster_executor::{Bucket, Scope};

/// UID of an executor object: the key of everything, because a re-created object of the same name is another one (C05).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Arc<str>);

/// One instant on both clocks. Waits are measured on `mono`; `wall` is only compared with certificates and written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since process start.
    pub mono: Duration,
    /// UTC.
    pub wall: Timestamp,
}

/// One executor object, from the first sign of it until nothing of it is left.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Which object.
    pub reference: ExecutorRef,
    /// Whether it exists.
    pub presence: Presence,
    /// When this replica first saw it.
    pub first_seen: Duration,
    /// The serve set knows that it exists.
    pub announced: bool,
    /// A read of the object is on its way.
    pub fetching: bool,
    /// The last spec that was read.
    pub loaded: Option<Loaded>,
    /// The attempt that is going on.
    pub attempt: Option<Attempt>,
    /// How the last attempt ended.
    pub verdict: Option<Verdict>,
    /// The built executor that is kept; it serves unless something speaks against it.
    pub held: Option<Held>,
    /// What the serve set answers for it now.
    pub served: Option<Served>,
    /// Since when another generation than the held one is wanted; where the edit grace begins.
    pub left_since: Option<Duration>,
    /// When the trust material is to be fetched again.
    pub refresh_at: Option<Duration>,
    /// An attempt was asked for, whatever else says that none is due.
    pub forced: bool,
    /// What this process last decided to report, and since when it is so.
    pub said: Option<Said>,
    /// The API server has taken what was said, so that a difference now is somebody else's doing.
    pub acknowledged: bool,
    /// This replica's own object about it, as last read or written.
    pub own: Option<Own>,
    /// The request about the own object that is on its way.
    pub writing: Option<Writing>,
    /// A report that the API server will not take however often it is sent.
    pub refused: Option<PodReport>,
}

/// Whether an executor object exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Known only from an own object; the watch that would show the executor is not in sync.
    Unresolved,
    /// It exists.
    Present(Present),
    /// It was deleted, or is being deleted (a deletion moves the generation too, so this is not a new spec).
    Gone,
}

/// Metadata of an executor object that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// The generation of the spec that people want.
    pub generation: i64,
    /// When it was created; the older of two objects holds a scope that both list.
    pub created: Timestamp,
    /// Value of the retry annotation.
    pub retry: Option<String>,
    /// The resource version it was seen at: whatever is read of it must not be older.
    pub version: String,
}

/// A spec that was read, and what compiling it said. Compiling needs no I/O, so it belongs to the reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Its generation.
    pub generation: i64,
    /// The scopes it lists, as far as they can be parsed. They are claimed even if the rest is wrong.
    pub claims: Vec<Scope>,
    /// How often its trust material is to be fetched; `None` if there is nothing to fetch or refreshing is off. Or why
    /// the spec can never be built.
    pub compiled: Result<Option<Duration>, Failure>,
}

/// A build that is going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Number of the attempt in this process; an answer of another one is not listened to.
    pub id: u64,
    /// The generation it builds.
    pub generation: i64,
    /// What it is for.
    pub purpose: Purpose,
    /// What it may have read has changed meanwhile: it has to begin anew.
    pub superseded: bool,
}

/// What an attempt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing of the wanted generation serves yet.
    Load,
    /// The wanted generation serves; its material is fetched again.
    Refresh,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The generation it was about.
    pub generation: i64,
    /// Success, or why not.
    pub result: Result<Facts, Failure>,
}

/// What is worth saying about a built executor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// When the first certificate it relies on expires.
    pub trust_expires_at: Option<Timestamp>,
    /// When it stops being usable: some verifier has no valid certificate from then on.
    pub usable_until: Option<Timestamp>,
    /// When building it again would say something else although nothing was changed: the next expiry.
    pub rebuild_at: Option<Timestamp>,
    /// What works but is not as its author may think.
    pub warnings: Vec<String>,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The closed reason; its class says what can help.
    pub reason: Reason,
    /// The whole sentence, stable from attempt to attempt.
    pub text: String,
    /// The upstream's wish.
    pub retry_after: Option<Duration>,
}

/// A built executor that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Its generation.
    pub generation: i64,
    /// The scopes it answers for.
    pub claims: Vec<Scope>,
    /// What is worth saying about it.
    pub facts: Facts,
}

/// What lookups get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The generation.
    pub generation: i64,
    /// What that is, compared with what is wanted.
    pub serves: Serves,
}

/// An outcome as reported: everything but the time since when it is so.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The generation the verdict is about; 0 if there is none.
    pub generation: i64,
    /// The replica serves that generation.
    pub succeeded: bool,
    /// What it serves.
    pub serves: Serves,
    /// Why.
    pub reason: Reason,
    /// The whole sentence; empty if nothing is wrong.
    pub error: String,
    /// When the first certificate expires.
    pub trust_expires_at: Option<Timestamp>,
    /// What works but is not as its author may think.
    pub warnings: Vec<String>,
}

/// An outcome and since when it is so.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The outcome.
    pub outcome: Outcome,
    /// By this replica's clock, whole seconds.
    pub since: Timestamp,
}

/// This replica's own object about an executor.
#[derive(Clone, Debug, PartialEq)]
pub struct Own {
    /// Name of the object.
    pub name: String,
    /// UID of the object; a deletion names it, so that a re-created one survives.
    pub uid: String,
    /// Its resourceVersion as a number; 0 if it is not one.
    pub version: u64,
    /// Its spec and owner references are what they must be.
    pub intact: bool,
    /// What it says.
    pub report: Option<PodReport>,
}

/// The request about the own object that is on its way.
#[derive(Clone, Debug, PartialEq)]
pub enum Writing {
    /// Its apply.
    Report(PodReport),
    /// Its deletion.
    Delete,
}

impl Subject {
    /// The first sign of an executor.
    pub fn new(reference: ExecutorRef, presence: Presence, first_seen: Duration) -> Self {
        Self {
            reference,
            presence,
            first_seen,
            announced: false,
            fetching: false,
            loaded: None,
            attempt: None,
            verdict: None,
            held: None,
            served: None,
            left_since: None,
            refresh_at: None,
            forced: false,
            said: None,
            acknowledged: false,
            own: None,
            writing: None,
            refused: None,
        }
    }

    /// Its metadata, if it exists.
    pub const fn present(&self) -> Option<&Present> {
        match &self.presence {
            Presence::Present(present) => Some(present),
            Presence::Unresolved | Presence::Gone => None,
        }
    }

    /// The spec of that generation, if it was read.
    pub fn loaded(&self, generation: i64) -> Option<&Loaded> {
        self.loaded.as_ref().filter(|loaded| loaded.generation == generation)
    }

    /// How the last attempt on that generation ended.
    pub fn verdict(&self, generation: i64) -> Option<&Verdict> {
        self.verdict.as_ref().filter(|verdict| verdict.generation == generation)
    }

    /// For a log line or a heartbeat: `Executor a`, `NamespacedExecutor team/a`.
    pub fn label(&self) -> String {
        format!("{} {}", self.reference.kind, self.reference)
    }

    /// Whose lookups it answers.
    pub fn bucket(&self) -> Bucket {
        match self.reference.kind {
            ExecutorKind::Executor => Bucket::Cluster,
            ExecutorKind::NamespacedExecutor => Bucket::Namespace(self.reference.namespace.clone()),
        }
    }
}

impl Held {
    /// It can no longer be served, whatever else speaks for it.
    pub fn is_expired(&self, wall: Timestamp) -> bool {
        self.facts.usable_until.is_some_and(|until| until <= wall)
    }
}

impl Failure {
    /// A failure without a wish of the upstream.
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into(), retry_after: None }
    }
}

impl Own {
    /// It says exactly this, and is whole.
    pub fn says(&self, report: &PodReport) -> bool {
        self.intact && self.report.as_ref() == Some(report)
    }
}

impl Uid {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(uid: &str) -> Self {
        Self(uid.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
