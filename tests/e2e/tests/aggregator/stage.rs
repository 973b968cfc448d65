//! An installation with an aggregator, and what tests do to executors and read from their status.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use muster_api::{Executor, ExecutorPodStatus, ExecutorStatus};
use muster_lab::audit::{Audit, Mark, Request};
use muster_lab::installation::{AGGREGATOR, Installation, NAMESPACE, RECONCILER, Settings, rolled_out};
use muster_lab::kubelet::{PodView, Signal};
use muster_lab::wait;
use serde_json::{Value, json};

/// Labels by which the aggregator knows the reconciler's pods.
pub(crate) const SELECTOR: &str = "app.kubernetes.io/name=muster,app.kubernetes.io/component=reconciler";

/// A control plane with an installation of ours.
pub(crate) struct Stage {
    pub(crate) installation: Installation,
    /// The administrator: what people do.
    pub(crate) client: Client,
}

impl Stage {
    /// Real replicas and aggregators, all ready.
    pub(crate) async fn ready(reconcilers: u16, aggregators: u16, aggregator_args: &[&str]) -> Result<Self> {
        let stage = Self::start(Settings {
            reconcilers,
            aggregators,
            aggregator_args: aggregator_args.iter().map(ToString::to_string).collect(),
            ..Settings::default()
        })
        .await?;
        for name in [RECONCILER, AGGREGATOR] {
            rolled_out(&stage.client, name).await?;
        }
        Ok(stage)
    }

    /// Starts without waiting.
    pub(crate) async fn start(settings: Settings) -> Result<Self> {
        let installation = Installation::start(settings).await?;
        let client = installation.plane.client()?;
        Ok(Self { installation, client })
    }

    pub(crate) async fn stop(self) {
        self.installation.stop().await;
    }

    pub(crate) fn audit(&self) -> Audit {
        self.installation.plane.audit()
    }

    pub(crate) fn executors(&self) -> Api<Executor> {
        Api::all(self.client.clone())
    }

    pub(crate) fn reports(&self) -> Api<ExecutorPodStatus> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn create(&self, name: &str) -> Result<Executor> {
        self.create_with(name, spec(&format!("{name}.example.com"))).await
    }

    pub(crate) async fn create_with(&self, name: &str, spec: Value) -> Result<Executor> {
        let object = json!({
            "apiVersion": "config.ratify.dev/v2alpha1", "kind": "Executor", "metadata": {"name": name}, "spec": spec,
        });
        let object = serde_json::from_value(object)?;
        self.executors().create(&PostParams::default(), &object).await.with_context(|| format!("cannot create {name}"))
    }

    /// An edit that every replica can build: the generation moves.
    pub(crate) async fn edit(&self, name: &str, concurrency: i32) -> Result<Executor> {
        self.merge(name, json!({"spec": {"concurrency": concurrency}})).await
    }

    pub(crate) async fn label(&self, name: &str, value: &str) -> Result<Executor> {
        self.merge(name, json!({"metadata": {"labels": {"racing": value}}})).await
    }

    pub(crate) async fn merge(&self, name: &str, patch: Value) -> Result<Executor> {
        let patched = self.executors().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.with_context(|| format!("cannot edit {name}"))
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        let deleted = self.executors().delete(name, &DeleteParams::default()).await;
        deleted.map(drop).with_context(|| format!("cannot delete {name}"))
    }

    /// Waits until the status of an executor is as `is` wants it; its error says what is wrong.
    pub(crate) async fn status(
        &self,
        limit: Duration,
        name: &str,
        is: impl Fn(&Executor, &ExecutorStatus) -> Result<()>,
    ) -> Result<Executor> {
        wait::within(wait::scaled(limit), format!("the status of {name}"), || async {
            let executor = self.executors().get(name).await?;
            let status = executor.status.clone().context("no status")?;
            is(&executor, &status).with_context(|| format!("{status:?}"))?;
            Ok::<_, anyhow::Error>(executor)
        })
        .await
    }

    /// Waits until every one of so many replicas has built the executor as it is now.
    pub(crate) async fn succeeded(&self, name: &str, replicas: u32) -> Result<Executor> {
        self.status(wait::patience(), name, |executor, status| {
            let wanted = format!("{replicas}/{replicas}");
            ensure!(status.observed_generation == executor.metadata.generation, "another generation");
            ensure!(status.succeeded && summary(status) == wanted, "not {wanted}");
            Ok(())
        })
        .await
    }

    /// Names of the replicas in `byPod`, in its order.
    pub(crate) async fn listed(&self, name: &str) -> Result<Vec<String>> {
        let status = self.executors().get(name).await?.status.context("no status")?;
        Ok(status.by_pod.into_iter().map(|entry| entry.id).collect())
    }

    /// Events about an executor: reason and note.
    pub(crate) async fn events(&self, name: &str) -> Result<Vec<(String, String)>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let all = events.list(&ListParams::default()).await?;
        let about = all
            .items
            .into_iter()
            .filter(|event| event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(name));
        Ok(about.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect())
    }

    /// Kills the aggregator's process; it is started again in place, and leads once the Lease of the dead one is over.
    pub(crate) fn kill_aggregator(&self) -> Result<()> {
        self.installation.kubelet.signal(&self.aggregator()?, Signal::SIGKILL)
    }

    /// The aggregator's pod, if there is one only.
    pub(crate) fn aggregator(&self) -> Result<PodView> {
        match self.installation.aggregators().as_slice() {
            [one] => Ok(one.clone()),
            pods => bail!("{} aggregators", pods.len()),
        }
    }
}

/// A spec that every replica can build.
pub(crate) fn spec(scope: &str) -> Value {
    json!({
        "scopes": [scope],
        "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
        "verifiers": [{"name": "cosign", "type": "cosign", "parameters": {"trustPolicies": [{
            "certificateIdentity": "release@example.com", "certificateOIDCIssuer": "https://issuer.example.com",
        }]}}],
        "policyEnforcer": {"type": "threshold-policy", "parameters": {"policy": {
            "threshold": 1, "rules": [{"verifierName": "cosign"}],
        }}},
    })
}

pub(crate) fn summary(status: &ExecutorStatus) -> &str {
    status.replicas.as_ref().map_or("", |replicas| &replicas.summary)
}

/// `True`, `False` or `Unknown`.
pub(crate) fn condition<'a>(status: &'a ExecutorStatus, type_: &str) -> &'a str {
    status.conditions.iter().find(|condition| condition.type_ == type_).map_or("absent", |condition| &condition.status)
}

/// By an aggregator.
pub(crate) fn by_aggregator(request: &Request) -> bool {
    request.by(NAMESPACE, AGGREGATOR)
}

/// A write of a status by an aggregator, whatever its outcome.
pub(crate) fn is_status_write(request: &Request) -> bool {
    by_aggregator(request) && request.is_write() && request.on_status_of("executors")
}

/// Status writes since `mark` that succeeded.
pub(crate) fn status_writes(audit: &Audit, mark: Mark) -> Result<usize> {
    audit.count(mark, |request| is_status_write(request) && request.code == 200)
}

/// Status writes since `mark` that lost to another write.
pub(crate) fn conflicts(audit: &Audit, mark: Mark) -> Result<usize> {
    audit.count(mark, |request| is_status_write(request) && request.code == 409)
}

/// Something that both of our services may do in a quiet cluster only to the Lease.
pub(crate) fn disturbs(request: &Request) -> bool {
    let ours = by_aggregator(request) || request.by(NAMESPACE, RECONCILER);
    ours && !request.is_lease() && (request.is_write() || request.is_list())
}
