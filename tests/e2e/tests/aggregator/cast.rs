//! Replicas that only pretend: pods on a node that nobody runs, which report what a test wants them to, each with a token
//! bound to its pod and under the service account that we ship.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use muster_api::{Executor, ExecutorPodStatus, NamespacedExecutor};
use muster_core::name::pod_status_name;
use muster_lab::identity;
use muster_lab::installation::{NAMESPACE, RECONCILER};
use serde_json::{Value, json};

use crate::oracle;
use crate::stage::{SELECTOR, Stage};

/// Pods that are made at the same time.
const AT_ONCE: usize = 16;

/// One pretended replica.
#[derive(Clone)]
pub(crate) struct Actor {
    pub(crate) name: String,
    pub(crate) uid: String,
    client: Client,
}

impl Stage {
    /// Pods of the reconciler that run nowhere, one for each name.
    pub(crate) async fn cast(&self, names: &[&str]) -> Result<Vec<Actor>> {
        stream::iter(names).map(|name| self.act(name)).buffered(AT_ONCE).try_collect().await
    }

    pub(crate) async fn act(&self, name: &str) -> Result<Actor> {
        self.act_with(name, json!([{"name": "health", "containerPort": 8086}])).await
    }

    /// One that cannot be asked for its health.
    pub(crate) async fn act_without_port(&self, name: &str) -> Result<Actor> {
        self.act_with(name, json!([])).await
    }

    async fn act_with(&self, name: &str, ports: Value) -> Result<Actor> {
        let labels: BTreeMap<_, _> = SELECTOR.split(',').filter_map(|label| label.split_once('=')).collect();
        let pod = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "serviceAccountName": RECONCILER, "nodeName": "nowhere",
                "securityContext": {"runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "reconciler", "image": "none",
                    "ports": ports,
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        });
        let pod = self.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await;
        let pod = pod.with_context(|| format!("cannot create pod {name}"))?;
        let client = identity::pod(&self.installation.plane, NAMESPACE, name).await?;
        Ok(Actor { name: name.to_owned(), uid: pod.uid().context("no UID")?, client })
    }

    /// Sets the status of a pod as its node would.
    pub(crate) async fn set_pod_status(&self, name: &str, status: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "status": status }));
        let patched = self.pods().patch_status(name, &PatchParams::default(), &patch).await;
        patched.map(drop).with_context(|| format!("cannot set the status of pod {name}"))
    }

    /// A report that nobody owns, of a pod that does not exist.
    pub(crate) async fn leftover(&self, name: &str) -> Result<()> {
        let base = self.executors().get("base").await?;
        let object = json!({
            "apiVersion": "config.ratify.dev/v2alpha1", "kind": "ExecutorPodStatus", "metadata": {"name": name},
            "spec": {
                "executor": {"kind": "Executor", "namespace": "", "name": "base", "uid": base.uid()},
                "pod": {"name": "nobody", "uid": "nobody"},
            },
        });
        let created = self.reports().create(&PostParams::default(), &serde_json::from_value(object)?).await;
        created.map(drop).with_context(|| format!("cannot create {name}"))
    }

    /// Removes a pod at once, as a node that answers would.
    pub(crate) async fn remove_pod(&self, name: &str) -> Result<()> {
        let removed = self.pods().delete(name, &DeleteParams::default().grace_period(0)).await;
        removed.map(drop).with_context(|| format!("cannot remove pod {name}"))
    }

    /// Fails unless the status of the executor is what the oracle makes of the objects as they are.
    pub(crate) async fn is_right(&self, name: &str) -> Result<()> {
        let executor = serde_json::to_value(self.executors().get(name).await?)?;
        let reports = self.reports().list(&ListParams::default()).await?;
        let pods = self.pods().list(&ListParams::default().labels(SELECTOR)).await?;
        let values = |objects: Vec<Value>| objects;
        let reports = values(reports.items.iter().map(serde_json::to_value).collect::<Result<_, _>>()?);
        let pods = values(pods.items.iter().map(serde_json::to_value).collect::<Result<_, _>>()?);
        let expected = oracle::expected_status(&executor, &reports, &pods, &now());
        let seen = oracle::seen_status(&executor["status"]);
        oracle::check(expected, seen).map_err(|difference| anyhow::anyhow!("{name}: {difference}"))
    }
}

impl Actor {
    /// Reports on a generation of an executor: success if `error` is empty, a transient failure otherwise.
    pub(crate) async fn report(&self, executor: &Executor, generation: i64, error: &str) -> Result<ExecutorPodStatus> {
        let about = json!({"kind": "Executor", "namespace": "", "name": executor.name_any(), "uid": executor.uid()});
        self.report_about(about, generation, error).await
    }

    /// Success on a generation of a NamespacedExecutor.
    pub(crate) async fn report_on_tenant(
        &self,
        executor: &NamespacedExecutor,
        generation: i64,
    ) -> Result<ExecutorPodStatus> {
        let (name, namespace) = (executor.name_any(), executor.namespace());
        let about = json!({"kind": "NamespacedExecutor", "namespace": namespace, "name": name, "uid": executor.uid()});
        self.report_about(about, generation, "").await
    }

    async fn report_about(&self, about: Value, generation: i64, error: &str) -> Result<ExecutorPodStatus> {
        let text = |key: &str| about[key].as_str().with_context(|| format!("no {key}"));
        let name = pod_status_name(text("name")?, &self.name, text("uid")?, &self.uid);
        let good = error.is_empty();
        let object = json!({
            "apiVersion": "config.ratify.dev/v2alpha1",
            "kind": "ExecutorPodStatus",
            "metadata": {
                "name": name,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid}],
            },
            "spec": {
                "executor": about,
                "pod": {"name": self.name, "uid": self.uid},
            },
            "status": {
                "observedGeneration": generation, "succeeded": good,
                "serves": if good { "Wanted" } else { "Nothing" },
                "reason": if good { "Built" } else { "Unreachable" },
                "error": error, "briefError": error.get(..120).unwrap_or(error),
                "lastTransitionTime": now(), "trustExpiresAt": null, "warnings": [],
            },
        });
        let api: Api<ExecutorPodStatus> = Api::namespaced(self.client.clone(), NAMESPACE);
        let params = PatchParams::apply("muster-reconciler").force();
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.with_context(|| format!("{} cannot report on {name}", self.name))
    }
}

/// Whole seconds, UTC.
#[expect(clippy::disallowed_methods, reason = "pretended replicas have the machine's clock, as real ones have")]
pub(crate) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
