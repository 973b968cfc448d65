//! Writes to the API server about one pod: its binding, its status, and its end. Each is tried until it is settled.

use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod, PodStatus};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::node::{Node, RETRY};
use super::pod::Slot;

/// Puts the pod on this node. False if that cannot be: it is gone, or on another node by now.
pub(super) async fn bind(node: &Node, slot: &Slot) -> bool {
    let target = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.options.node.clone()),
        ..ObjectReference::default()
    };
    let metadata = ObjectMeta { name: Some(slot.name.clone()), uid: Some(slot.uid.clone()), ..ObjectMeta::default() };
    let binding = Binding { metadata, target };
    settle(node, slot, "bind", || async {
        let params = PostParams::default();
        pods(node, slot).create_subresource::<_, serde_json::Value>("binding", &slot.name, &params, &binding).await
    })
    .await
}

/// Reports whatever `wanted` holds last, for ever.
pub(super) async fn keep_reporting(node: Arc<Node>, slot: Arc<Slot>, mut wanted: watch::Receiver<Option<PodStatus>>) {
    while wanted.changed().await.is_ok() {
        let status = wanted.borrow_and_update().clone();
        if let Some(status) = status {
            report(&node, &slot, &status).await;
        }
    }
}

/// Reports `status`. The UID keeps it away from a later pod of the same name.
pub(super) async fn report(node: &Node, slot: &Slot, status: &PodStatus) -> bool {
    let patch = json!({"metadata": {"uid": slot.uid}, "status": status});
    settle(node, slot, "report", || async {
        let params = PatchParams::default();
        pods(node, slot).patch_status(&slot.name, &params, &Patch::Merge(&patch)).await.map(drop)
    })
    .await
}

/// Takes the pod object away, once nothing of it runs any more.
pub(super) async fn remove(node: &Node, slot: &Slot) -> bool {
    let preconditions = Preconditions { uid: Some(slot.uid.clone()), resource_version: None };
    let params =
        DeleteParams { grace_period_seconds: Some(0), preconditions: Some(preconditions), ..DeleteParams::default() };
    settle(node, slot, "remove", || async { pods(node, slot).delete(&slot.name, &params).await.map(drop) }).await
}

fn pods(node: &Node, slot: &Slot) -> Api<Pod> {
    Api::namespaced(node.client.clone(), &slot.namespace)
}

/// Calls until it succeeds (true), or the object is gone or another one (false).
async fn settle<T, F, Fut>(node: &Node, slot: &Slot, what: &str, call: F) -> bool
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<T, kube::Error>>,
{
    loop {
        node.awake().await;
        match call().await {
            Ok(_) => return true,
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                tracing::debug!(pod = slot.name, what, "no longer: {status}");
                return false;
            }
            Err(error) => {
                tracing::debug!(pod = slot.name, what, "will be tried again: {error}");
                sleep(RETRY).await;
            }
        }
    }
}
