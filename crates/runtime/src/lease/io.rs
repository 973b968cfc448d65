//! The requests for the Lease: always PUT, for `resourceNames` in RBAC then limits creation too, and always with the
//! guard the machine gives.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use muster_core::election::{Guard, Input, Record, Write};
use muster_core::retry::Retry;

use super::Candidate;
use crate::clock::Clock;
use crate::kube_error::{Verdict, classify};

/// The Lease in the API server.
#[derive(Clone)]
pub(super) struct Store {
    api: Api<Lease>,
    name: String,
    manager: String,
    clock: Clock,
    /// As last seen, so that a write keeps the labels and annotations others have put on it.
    seen: Arc<Mutex<Option<Lease>>>,
}

/// The end of one request.
#[derive(Debug)]
pub(super) struct Answered {
    /// `read`, `glance`, `acquire`, `renew`, `release`.
    pub(super) action: &'static str,
    /// What it means for the machine, if anything.
    pub(super) input: Option<Input>,
    /// What went wrong, if anything.
    pub(super) error: Option<Verdict>,
}

impl Store {
    pub(super) fn new(client: Client, candidate: &Candidate, clock: Clock) -> Self {
        Self {
            api: Api::namespaced(client, &candidate.namespace),
            name: candidate.name.clone(),
            manager: candidate.manager.clone(),
            clock,
            seen: Arc::default(),
        }
    }

    /// GET, from the server and not its cache.
    pub(super) fn read(&self) -> impl Future<Output = Answered> + Send + 'static {
        let store = self.clone();
        async move {
            let (input, error) = match store.api.get_opt(&store.name).await {
                Ok(Some(lease)) => (store.see(lease).map_or(Input::ReadFailed, Input::Found), None),
                Ok(None) => (Input::Absent, None),
                Err(error) => (Input::ReadFailed, Some(classify(&error))),
            };
            Answered { action: "read", input: Some(input), error }
        }
    }

    /// A look at the Lease beside the watch, given up soon: after a cut the watch may take a minute to find its way back,
    /// and a standby that has not seen the last renewals would wait a whole lease duration from when it sees them.
    pub(super) fn glance(&self, patience: Duration) -> impl Future<Output = Answered> + Send + 'static {
        let read = self.read();
        async move {
            let answered = tokio::time::timeout(patience, read).await;
            let (input, error) = match answered {
                Ok(Answered { input: Some(Input::Found(record)), .. }) => (Some(Input::Watched(record)), None),
                Ok(Answered { input: Some(Input::Absent), .. }) => (Some(Input::WatchedDeleted), None),
                Ok(Answered { error, .. }) => (None, error),
                Err(_elapsed) => (None, Some(Verdict::no_answer("get leases", patience))),
            };
            Answered { action: "glance", input, error }
        }
    }

    /// PUT. Without a guard it creates, and is refused if the Lease exists.
    pub(super) fn write(&self, action: &'static str, write: Write) -> impl Future<Output = Answered> + Send + 'static {
        let store = self.clone();
        async move {
            let guarded = write.guard.is_some();
            let lease = store.lease(write, store.clock.wall());
            let params = PostParams { field_manager: Some(store.manager.clone()), ..PostParams::default() };
            let (input, error) = match store.api.replace(&store.name, &params, &lease).await {
                Ok(lease) => (store.see(lease).map_or(Input::WriteFailed, Input::Stored), None),
                Err(error) => {
                    let verdict = classify(&error);
                    (refused(&verdict, guarded), Some(verdict))
                }
            };
            Answered { action, input: Some(input), error }
        }
    }

    /// What an event of the watch means. A watch that comes back replays the renewals it missed; one that is older than
    /// what has been seen meanwhile is no news, and taking it for a new claim would put off a takeover.
    pub(super) fn watched(&self, event: Event<Lease>) -> Option<Input> {
        match event {
            Event::Apply(lease) | Event::InitApply(lease) if self.is_news(&lease) => {
                self.see(lease).map(Input::Watched)
            }
            Event::Delete(lease) if self.is_news(&lease) => Some(Input::WatchedDeleted),
            _ => None,
        }
    }

    /// Kubernetes declares resourceVersions of one resource to be comparable numbers; what is none is taken for news.
    fn is_news(&self, lease: &Lease) -> bool {
        let version = |lease: &Lease| lease.metadata.resource_version.as_ref()?.parse::<u64>().ok();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.as_ref().and_then(version);
        known.zip(version(lease)).is_none_or(|(known, told)| told >= known)
    }

    fn see(&self, lease: Lease) -> Option<Record> {
        let record = record(&lease)?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
        Some(record)
    }

    fn lease(&self, write: Write, now: Timestamp) -> Lease {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before =
            seen.filter(|seen| write.guard.as_ref().is_some_and(|guard| guard_of(seen).as_ref() == Some(guard)));
        let kept = before.unwrap_or_default();
        let (resource_version, uid) = write.guard.map(|guard| (guard.resource_version, guard.uid)).unzip();
        let metadata =
            ObjectMeta { name: Some(self.name.clone()), resource_version, uid, managed_fields: None, ..kept.metadata };
        let seconds = i32::try_from(write.duration.as_secs()).unwrap_or(i32::MAX);
        let spec = LeaseSpec {
            holder_identity: Some(write.holder.unwrap_or_default()),
            lease_duration_seconds: Some(seconds),
            lease_transitions: Some(write.transitions),
            acquire_time: Some(MicroTime(write.acquired.unwrap_or(now))),
            renew_time: Some(MicroTime(now)),
            ..kept.spec.unwrap_or_default()
        };
        Lease { metadata, spec: Some(spec) }
    }
}

/// A PUT that creates is refused with 422 if the Lease exists, a guarded one with 409 if it changed or is another one.
const fn refused(verdict: &Verdict, guarded: bool) -> Input {
    match verdict.retry {
        Retry::Conflict | Retry::AlreadyExists | Retry::NotFound => Input::Conflict,
        Retry::Invalid if !guarded => Input::Conflict,
        _ => Input::WriteFailed,
    }
}

fn guard_of(lease: &Lease) -> Option<Guard> {
    let metadata = &lease.metadata;
    Some(Guard { resource_version: metadata.resource_version.clone()?, uid: metadata.uid.clone()? })
}

fn record(lease: &Lease) -> Option<Record> {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
    Some(Record {
        guard: guard_of(lease)?,
        holder: spec.holder_identity,
        duration: Duration::from_secs(seconds),
        transitions: spec.lease_transitions.unwrap_or(0),
        acquired: spec.acquire_time.map(|time| time.0),
        renewed: spec.renew_time.map(|time| time.0),
    })
}
