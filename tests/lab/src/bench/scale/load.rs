//! Does what so many replicas would do: a report of each on every executor's new generation, and the read before it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use muster_api::Executor;
use serde_json::json;
use tokio::time::Instant;

use super::cast::Actor;
use crate::installation::NAMESPACE;

/// Reports under way at the same time: enough to keep an API server on a small machine busy.
pub(super) const AT_ONCE: usize = 32;
/// Replicas that also read each executor's new generation; what all of them would read is computed from these.
pub(super) const READERS: usize = 50;

/// What the replicas did about one change.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// From an executor's first report to its last, for the executor where that took longest.
    pub(super) spread: Duration,
    /// Reads of executors, by at most [`READERS`] replicas.
    pub(super) gets: u64,
    /// Bytes of their bodies.
    pub(super) get_bytes: u64,
}

/// First and last report of each executor.
type Spans = BTreeMap<String, (Instant, Instant)>;

/// Every replica reads and reports. Replica by replica, so that an executor's reports take as long as all together, as
/// they do where replicas run beside each other.
pub(super) async fn play(client: &Client, actors: &[Actor], executors: &[Executor]) -> Result<Done> {
    let spans = Mutex::new(Spans::new());
    let steps = actors
        .iter()
        .enumerate()
        .flat_map(|(number, actor)| executors.iter().map(move |executor| (number < READERS, actor, executor)));
    let step = |(reads, actor, executor): (bool, &Actor, &Executor)| {
        let (read, report) = (reads.then(|| read(executor)), report(actor, executor));
        let (name, spans) = (executor.name_any(), &spans);
        async move {
            let bytes = match read {
                Some(read) => client.request_text(read?).await.context("cannot read an executor")?.len(),
                None => 0,
            };
            client.request_text(report?).await.context("cannot report")?;
            let now = Instant::now();
            let mut spans = spans.lock().unwrap_or_else(PoisonError::into_inner);
            spans.entry(name).or_insert((now, now)).1 = now;
            Ok::<_, anyhow::Error>(bytes as u64)
        }
    };
    let add = |done: Done, bytes: u64| async move {
        let gets = done.gets + u64::from(bytes > 0);
        Ok(Done { gets, get_bytes: done.get_bytes + bytes, ..done })
    };
    let done = stream::iter(steps).map(step).buffer_unordered(AT_ONCE).try_fold(Done::default(), add).await?;
    let spans = spans.into_inner().unwrap_or_else(PoisonError::into_inner);
    let spread = spans.values().map(|(first, last)| last.duration_since(*first)).max().unwrap_or_default();
    Ok(Done { spread, ..done })
}

fn read(executor: &Executor) -> Result<Request<Vec<u8>>> {
    let path = format!("/apis/config.ratify.dev/v2alpha1/executors/{}", executor.name_any());
    Request::get(path).body(Vec::new()).context("a request of our own")
}

/// The apply that a replica sends when it has built a generation.
fn report(actor: &Actor, executor: &Executor) -> Result<Request<Vec<u8>>> {
    let name = format!("{}.{}", executor.name_any(), actor.name);
    let object = json!({
        "apiVersion": "config.ratify.dev/v2alpha1",
        "kind": "ExecutorPodStatus",
        "metadata": {
            "name": name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": actor.name, "uid": actor.uid}],
        },
        "spec": {
            "executor": {"kind": "Executor", "namespace": "", "name": executor.name_any(), "uid": executor.uid()},
            "pod": {"name": actor.name, "uid": actor.uid},
        },
        "status": {
            "observedGeneration": executor.metadata.generation, "succeeded": true, "serves": "Wanted", "reason": "Built",
            "error": "", "briefError": "", "lastTransitionTime": now(), "trustExpiresAt": null, "warnings": [],
        },
    });
    let path = format!(
        "/apis/config.ratify.dev/v2alpha1/namespaces/{NAMESPACE}/executorpodstatuses/{name}\
         ?fieldManager=muster-reconciler&force=true"
    );
    let request = Request::patch(path).header(CONTENT_TYPE, "application/apply-patch+yaml");
    request.body(object.to_string().into_bytes()).context("a request of our own")
}

/// Whole seconds, UTC.
#[expect(clippy::disallowed_methods, reason = "pretended replicas have the machine's clock, as real ones have")]
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
