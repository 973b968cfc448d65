//! Events on executors: one when a verdict changes, from the leading aggregator only. A thousand replicas that sent their
//! own would say the same a thousand times; the replica that matters is named in the note.
//!
//! A verdict is announced when it is one: while a generation rolls out, replicas without a report are a normal step.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use muster_api::{CONDITION_READY, ExecutorStatus, GROUP, Reason, VERSION};
use muster_core::text;

use crate::facts::Executor;

/// Events that one object may send at once.
const BURST: u32 = 5;
/// Time after which it may send one more.
const REFILL: Duration = Duration::from_mins(1);
/// An Event's note may have so many bytes; the API server refuses more.
const NOTE_MAX: usize = 1_024;
/// Longest readable part of an Event's name; the rest is a time in hexadecimal.
const NAME_MAX: usize = 200;
/// Longest `reportingInstance` that the API server accepts.
const INSTANCE_MAX: usize = 128;
/// Reason of the Event that tells of another writer.
pub const FOREIGN_WRITER: &str = "ForeignWriter";

/// What is to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Whether somebody should look.
    pub warning: bool,
    /// One word.
    pub reason: String,
    /// One sentence.
    pub note: String,
}

/// What was said about one object. Times are monotonic, since process start.
#[derive(Clone, Debug)]
pub struct Announced {
    last: Option<Key>,
    /// A token bucket, kept as the instant at which it would be full again.
    full_at: Duration,
}

type Key = (Option<i64>, String, String);

impl Announced {
    /// Starts from what the object says: a new leader repeats nothing.
    pub fn new(status: Option<&ExecutorStatus>) -> Self {
        Self { last: status.and_then(key), full_at: Duration::ZERO }
    }

    /// What to say about a status that was just written, if anything.
    pub fn verdict(&mut self, status: &ExecutorStatus, now: Duration) -> Option<Result<Announcement, Limited>> {
        let key = key(status)?;
        if self.last.as_ref() == Some(&key) {
            return None;
        }
        let ready = status.conditions.iter().find(|condition| condition.type_ == CONDITION_READY)?;
        let first = status.by_pod.first().filter(|_| !status.succeeded);
        let note = match first {
            Some(entry) => format!("{}; first replica: {}", text::cut(&ready.message, NOTE_MAX - 280), entry.id),
            None => ready.message.clone(),
        };
        let announcement = Announcement {
            warning: ready.status != "True",
            reason: ready.reason.clone(),
            note: text::cut(&note, NOTE_MAX).into_owned(),
        };
        self.last = Some(key);
        Some(self.limited(announcement, now))
    }

    /// Somebody else writes this status too.
    pub fn foreign_writer(&mut self, manager: &str, now: Duration) -> Result<Announcement, Limited> {
        let manager = text::cut(&text::single_line(manager), text::BRIEF_MAX).into_owned();
        let note = format!("field manager \"{manager}\" rewrites this status; it is put right every 5m at most");
        self.limited(Announcement { warning: true, reason: FOREIGN_WRITER.to_owned(), note }, now)
    }

    fn limited(&mut self, announcement: Announcement, now: Duration) -> Result<Announcement, Limited> {
        if self.full_at > now + REFILL * (BURST - 1) {
            return Err(Limited { reason: announcement.reason });
        }
        self.full_at = self.full_at.max(now) + REFILL;
        Ok(announcement)
    }
}

/// There would be something to say, but this object has said too much already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The reason it would have had.
    pub reason: String,
}

/// What makes two verdicts the same. `None` while there is none yet.
fn key(status: &ExecutorStatus) -> Option<Key> {
    let ready = status.conditions.iter().find(|condition| condition.type_ == CONDITION_READY)?;
    let pending = [Reason::NotReported, Reason::GenerationBehind].iter().any(|step| step.as_str() == ready.reason);
    (!pending).then(|| (status.observed_generation, ready.status.clone(), ready.reason.clone()))
}

/// The Event as it is sent: in the object's namespace, or in `default` for a cluster-scoped one, where `kubectl describe`
/// looks for it.
pub fn event(announcement: &Announcement, executor: &Executor, reporter: &str, pod: &str, now: Timestamp) -> Event {
    let namespace = if executor.namespace.is_empty() { "default" } else { &executor.namespace };
    // Names of objects are ASCII.
    let prefix = executor.name.get(..NAME_MAX).unwrap_or(&executor.name).trim_end_matches(['.', '-']);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}.{:x}", now.as_nanosecond())),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some(if announcement.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(announcement.reason.clone()),
        note: Some(announcement.note.clone()),
        action: Some("Aggregate".to_owned()),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(format!("{GROUP}/{reporter}")),
        reporting_instance: Some(pod.get(..INSTANCE_MAX).unwrap_or(pod).to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(format!("{GROUP}/{VERSION}")),
            kind: Some(executor.kind.as_str().to_owned()),
            name: Some(executor.name.to_string()),
            namespace: Some(executor.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
            uid: Some(executor.uid.to_string()),
            resource_version: Some(executor.version.as_str().to_owned()),
            ..ObjectReference::default()
        }),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
