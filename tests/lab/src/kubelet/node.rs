//! The node: which pods are on it, seen through one watch, one worker each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::launch::Launch;
use super::pod::Slot;
use super::{Options, worker};
use crate::net::Net;

/// Pause before a call that failed is tried again. The API server may just be away for a test.
pub(super) const RETRY: Duration = Duration::from_millis(200);

/// Changes what a pod is started with.
pub(super) type Customise = Arc<dyn Fn(&Pod, &mut Launch) + Send + Sync>;

/// Everything the workers share.
pub(super) struct Node {
    pub(super) client: Client,
    pub(super) options: Options,
    pub(super) plane: Plane,
    pub(super) host_ip: Ipv4Addr,
    pub(super) bin_dir: PathBuf,
    pub(super) customise: RwLock<Customise>,
    /// While true nothing is done, as on a dead node.
    pub(super) frozen: watch::Sender<bool>,
    /// While true no new pod is taken.
    pub(super) cordoned: watch::Sender<bool>,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
}

/// What is used of the control plane. The node does not hold it, so that a test can stop it when it likes.
pub(super) struct Plane {
    pub(super) url: String,
    pub(super) tls_name: String,
    pub(super) ca_file: PathBuf,
    pub(super) net: Arc<Net>,
    /// Folder of the pods' logs.
    pub(super) logs: PathBuf,
    /// Folder of what the pods' processes read.
    pub(super) files: PathBuf,
}

impl Node {
    pub(super) fn new(client: Client, plane: Plane, bin_dir: PathBuf, options: Options) -> Self {
        Self {
            client,
            host_ip: plane.net.next_ip(),
            plane,
            bin_dir,
            options,
            customise: RwLock::new(Arc::new(|_, _| ())),
            frozen: watch::Sender::new(false),
            cordoned: watch::Sender::new(false),
            slots: Mutex::default(),
        }
    }

    /// Creates the Node object: bare, but Ready.
    pub(super) async fn register(&self) -> Result<()> {
        let name = &self.options.node;
        let labels = self.labels();
        let nodes: Api<core::Node> = Api::all(self.client.clone());
        let node = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}))?;
        nodes.create(&PostParams::default(), &node).await.with_context(|| format!("cannot create node {name}"))?;
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": self.host_ip}, {"type": "Hostname", "address": name}],
            "capacity": {"cpu": "64", "memory": "256Gi", "pods": "10000"},
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "10000"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the lab plays kubelet",
                "lastHeartbeatTime": now(), "lastTransitionTime": now()}],
        }});
        nodes
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .context("cannot report the node")?;
        Ok(())
    }

    /// Labels of the node, which node selectors are held against.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let labels = [("kubernetes.io/hostname", self.options.node.as_str()), ("kubernetes.io/os", "linux")];
        labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    pub(super) fn slots(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the node is frozen.
    pub(super) async fn awake(&self) {
        let _ = self.frozen.subscribe().wait_for(|frozen| !frozen).await; // the sender lives as long as the node
    }

    /// Takes notice of `pod`; a pod that is new here gets a worker.
    fn saw(self: &Arc<Self>, pod: Pod, workers: &mut JoinSet<()>) {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if node.is_some_and(|node| node != self.options.node) {
            return;
        }
        let Some(uid) = pod.uid() else { return };
        let mut slots = self.slots();
        if let Some(slot) = slots.get(&uid) {
            slot.saw(Some(pod));
            return;
        }
        let (log, dir) = (self.plane.logs.join(log_name(&pod, &uid)), self.plane.files.join(&uid));
        let slot = Arc::new(Slot::new(pod, self.plane.net.next_ip(), log, dir));
        slots.insert(uid, Arc::clone(&slot));
        workers.spawn(worker::run(Arc::clone(self), slot));
    }

    fn gone(&self, uid: &str) {
        if let Some(slot) = self.slots().get(uid) {
            slot.saw(None);
        }
    }
}

/// A file name has room for 255 bytes, the name of a pod alone may take 253 of them.
fn log_name(pod: &Pod, uid: &str) -> String {
    let name: String = pod.name_any().chars().take(100).collect();
    format!("{}_{name}_{uid}.log", pod.namespace().unwrap_or_default())
}

/// Watches pods and runs their workers, for ever. Dropping it drops the workers, and they their processes.
pub(super) async fn run(node: Arc<Node>) {
    let mut workers = JoinSet::new();
    let mut listed = BTreeSet::new();
    let events = watcher(Api::<Pod>::all(node.client.clone()), watcher::Config::default());
    pin_mut!(events);
    while let Some(event) = events.next().await {
        while workers.try_join_next().is_some() {}
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.extend(pod.uid());
                node.saw(pod, &mut workers);
            }
            Ok(Event::InitDone) => {
                let known: Vec<_> = node.slots().keys().cloned().collect();
                known.iter().filter(|uid| !listed.contains(*uid)).for_each(|uid| node.gone(uid));
            }
            Ok(Event::Apply(pod)) => node.saw(pod, &mut workers),
            Ok(Event::Delete(pod)) => node.gone(&pod.uid().unwrap_or_default()),
            Err(error) => {
                tracing::debug!("watching pods: {error}");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// The wall clock: statuses carry times.
#[expect(clippy::disallowed_methods, reason = "the lab plays a part of the world, and the world has a clock")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_names_fit_into_a_file_name() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p".repeat(253), "namespace": "n".repeat(63)}
        }))
        .unwrap();
        assert!(log_name(&pod, "01234567-89ab-cdef-0123-456789abcdef").len() <= 255);
    }
}
