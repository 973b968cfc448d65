//! From objects of the API server to facts, and from watches to changes of the index. An object that lacks what identifies
//! it is skipped: the API server does not produce such, and a guess would be worse.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource, ResourceExt as _};
use muster_api::{ExecutorLike, ExecutorPodStatus, PodReport};
use muster_core::text;
use muster_runtime::watch::{Selection, Setup, Watch};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::facts::{Executor, Life, Name, Outcome, Owner, Pod, Report, Version};
use crate::index::{Change, Object, Source};

/// The container port whose name says that health is answered there.
pub const HEALTH_PORT: &str = "health";

/// Texts that are held once however many objects say the same.
#[derive(Debug, Default)]
pub struct Texts {
    held: HashSet<Arc<str>>,
    /// Size at which texts that nobody holds any more are dropped.
    prune_at: usize,
}

impl Texts {
    /// The shared form of `text`.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(held) = self.held.get(text) {
            return held.clone();
        }
        if self.held.len() >= self.prune_at {
            self.held.retain(|text| Arc::strong_count(text) > 1);
            self.prune_at = (self.held.len() * 2).max(1_024);
        }
        let shared: Arc<str> = text.into();
        self.held.insert(shared.clone());
        shared
    }

    /// A replica's text made safe: one line, bounded in bytes, without what a terminal would obey.
    fn line(&mut self, text: &str, max_bytes: usize) -> Arc<str> {
        self.share(&text::cut(&text::single_line(text), max_bytes))
    }
}

/// What is kept of an executor.
pub fn executor<K: ExecutorLike>(object: &K) -> Option<Executor> {
    let meta = object.meta();
    Some(Executor {
        kind: K::KIND,
        namespace: meta.namespace.as_deref().unwrap_or_default().into(),
        name: meta.name.as_deref()?.into(),
        uid: meta.uid.as_deref()?.into(),
        version: Version::new(meta.resource_version.as_deref()?),
        generation: meta.generation?,
        deleting: meta.deletion_timestamp.is_some(),
        status: object.executor_status().cloned().map(Arc::new),
    })
}

/// What is kept of a report.
pub fn report(object: &ExecutorPodStatus, texts: &mut Texts) -> Option<Report> {
    let pod_uid = object.spec.pod.uid.as_str();
    let owner = match object.owner_references() {
        [] => Owner::Nobody,
        [one] if one.kind == "Pod" && one.uid == pod_uid => Owner::ItsPod,
        _ => Owner::Foreign,
    };
    Some(Report {
        name: object.metadata.name.as_deref()?.into(),
        uid: object.metadata.uid.as_deref()?.into(),
        version: Version::new(object.metadata.resource_version.as_deref()?),
        executor: Name {
            kind: object.spec.executor.kind,
            namespace: texts.share(&object.spec.executor.namespace),
            name: texts.share(&object.spec.executor.name),
        },
        executor_uid: texts.share(&object.spec.executor.uid),
        pod_name: texts.share(&object.spec.pod.name),
        pod_uid: texts.share(pod_uid),
        owner,
        outcome: object.status.as_ref().map(|report| outcome(report, texts)),
    })
}

fn outcome(report: &PodReport, texts: &mut Texts) -> Outcome {
    Outcome {
        generation: report.observed_generation,
        succeeded: report.succeeded,
        serves: report.serves.clone(),
        reason: report.reason.clone(),
        error: texts.line(&report.error, text::ERROR_MAX),
        trust_expires_at: report.trust_expires_at.as_ref().and_then(|at| Timestamp::from_second(at.0.as_second()).ok()),
        warnings: report.warnings.iter().map(|warning| texts.line(warning, text::WARNING_MAX)).collect(),
    }
}

/// What is kept of a pod.
pub fn pod(object: &ApiPod) -> Option<Pod> {
    let status = object.status.as_ref();
    let over = object.metadata.deletion_timestamp.is_some()
        || matches!(status.and_then(|status| status.phase.as_deref()), Some("Failed" | "Succeeded"));
    let unschedulable = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten().any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    let ports =
        object.spec.iter().flat_map(|spec| &spec.containers).flat_map(|container| container.ports.iter().flatten());
    Some(Pod {
        name: object.metadata.name.as_deref()?.into(),
        uid: object.metadata.uid.as_deref()?.into(),
        life: match (over, unschedulable) {
            (true, _) => Life::Over,
            (false, true) => Life::Unschedulable,
            (false, false) => Life::Expected,
        },
        ip: status.and_then(|status| status.pod_ip.as_deref()).and_then(|ip| ip.parse().ok()),
        health_port: ports
            .filter(|port| port.name.as_deref() == Some(HEALTH_PORT))
            .find_map(|port| u16::try_from(port.container_port).ok()),
    })
}

/// Watches one executor kind and hands on what changes, until the receiver is gone.
pub async fn watch_executors<K>(setup: Setup, client: Client, changes: mpsc::Sender<(Source, Change)>)
where
    K: ExecutorLike,
{
    let watch = Watch::<K>::new(setup, client, Selection::default(), Api::all);
    forward(watch, Source::Executors(K::KIND), |object| executor(object).map(Object::Executor), changes).await;
}

/// Watches the reports in one namespace.
pub async fn watch_reports(setup: Setup, client: Client, namespace: String, changes: mpsc::Sender<(Source, Change)>) {
    let mut texts = Texts::default();
    let watch = namespaced::<ExecutorPodStatus>(setup, client, Selection::default(), namespace);
    let keep = move |object: &ExecutorPodStatus| report(object, &mut texts).map(Object::Report);
    forward(watch, Source::Reports, keep, changes).await;
}

/// Watches the reconciler's pods in one namespace.
pub async fn watch_pods(
    setup: Setup,
    client: Client,
    namespace: String,
    selector: String,
    changes: mpsc::Sender<(Source, Change)>,
) {
    let selection = Selection { labels: Some(selector), fields: None };
    let watch = namespaced::<ApiPod>(setup, client, selection, namespace);
    forward(watch, Source::Pods, |object| pod(object).map(Object::Pod), changes).await;
}

fn namespaced<K>(setup: Setup, client: Client, selection: Selection, namespace: String) -> Watch<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    Watch::new(setup, client, selection, move |client| Api::namespaced(client, &namespace))
}

async fn forward<K>(
    mut watch: Watch<K>,
    source: Source,
    mut keep: impl FnMut(&K) -> Option<Object>,
    changes: mpsc::Sender<(Source, Change)>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    loop {
        let change = match watch.next().await {
            Event::Init => Some(Change::ListBegins),
            Event::InitApply(object) => keep(&object).map(Change::Listed),
            Event::InitDone => Some(Change::ListEnds),
            Event::Apply(object) => keep(&object).map(Change::Applied),
            Event::Delete(object) => keep(&object).map(Change::Deleted),
        };
        let Some(change) = change else { continue };
        if changes.send((source, change)).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
