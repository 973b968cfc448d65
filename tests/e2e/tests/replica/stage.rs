//! Replicas alone on a control plane of their own, and what tests do to executors and read from reports.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use muster_api::{Executor, ExecutorPodStatus, PodReport, Serves};
use muster_lab::admin;
use muster_lab::audit::Request;
use muster_lab::installation::{Installation, NAMESPACE, RECONCILER, Settings, rolled_out};
use muster_lab::kubelet::PodView;
use muster_lab::{faulty, wait};
use serde_json::{Value, json};

/// Replicas without an aggregator.
pub(crate) struct Stage {
    pub(crate) installation: Installation,
    /// The administrator: what people do.
    pub(crate) client: Client,
}

impl Stage {
    /// Starts so many replicas with these further arguments; does not wait until they are ready.
    pub(crate) async fn start(replicas: u16, args: &[&str]) -> Result<Self> {
        let installation = Installation::start(Settings {
            reconcilers: replicas,
            aggregators: 0,
            reconciler_args: args.iter().map(ToString::to_string).collect(),
            ..Settings::default()
        })
        .await?;
        let client = installation.plane.client()?;
        Ok(Self { installation, client })
    }

    /// The same, and waits until all are ready.
    pub(crate) async fn ready(replicas: u16, args: &[&str]) -> Result<Self> {
        let stage = Self::start(replicas, args).await?;
        rolled_out(&stage.client, RECONCILER).await?;
        Ok(stage)
    }

    /// The same, of the binary with injected faults.
    pub(crate) async fn faulty(replicas: u16, args: &[&str]) -> Result<Self> {
        let binary = faulty::program("reconciler")?.display().to_string();
        let stage = Self::start(0, args).await?;
        stage.installation.kubelet.customise(move |_, launch| launch.command[0].clone_from(&binary));
        stage.scale(replicas).await?;
        Ok(stage)
    }

    /// Sets how many replicas there are, and waits until all are ready.
    pub(crate) async fn scale(&self, replicas: u16) -> Result<()> {
        self.installation.scale(RECONCILER, replicas).await?;
        rolled_out(&self.client, RECONCILER).await
    }

    pub(crate) async fn stop(self) {
        self.installation.stop().await;
    }

    pub(crate) fn executors(&self) -> Api<Executor> {
        Api::all(self.client.clone())
    }

    pub(crate) fn pod_statuses(&self) -> Api<ExecutorPodStatus> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn pods(&self) -> Vec<PodView> {
        self.installation.reconcilers()
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) -> Result<Executor> {
        let object = json!({
            "apiVersion": "config.ratify.dev/v2alpha1", "kind": "Executor", "metadata": {"name": name}, "spec": spec,
        });
        let object = serde_json::from_value(object)?;
        self.executors().create(&PostParams::default(), &object).await.with_context(|| format!("cannot create {name}"))
    }

    /// Replaces a part of the spec by a merge patch.
    pub(crate) async fn edit(&self, name: &str, spec: Value) -> Result<Executor> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let edited = self.executors().patch(name, &PatchParams::default(), &patch).await;
        edited.with_context(|| format!("cannot edit {name}"))
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        self.executors()
            .delete(name, &DeleteParams::default())
            .await
            .with_context(|| format!("cannot delete {name}"))?;
        Ok(())
    }

    /// All reports about an executor UID, by pod name.
    pub(crate) async fn reports(&self, uid: &str) -> Result<BTreeMap<String, ExecutorPodStatus>> {
        let about = ListParams::default().fields(&format!("spec.executor.uid={uid}"));
        let list = self.pod_statuses().list(&about).await?;
        Ok(list.items.into_iter().map(|object| (object.spec.pod.name.clone(), object)).collect())
    }

    /// Waits until every replica reports on `executor`, as it is now or newer, what `is` accepts.
    pub(crate) async fn reported(&self, executor: &Executor, is: impl Fn(&PodReport) -> bool) -> Result<()> {
        self.reported_within(wait::patience(), executor, is).await
    }

    pub(crate) async fn reported_within(
        &self,
        limit: Duration,
        executor: &Executor,
        is: impl Fn(&PodReport) -> bool,
    ) -> Result<()> {
        let (uid, generation) = (executor.uid().context("no UID")?, executor.metadata.generation.unwrap_or_default());
        let what = format!("every replica to report on generation {generation} of {}", executor.name_any());
        wait::within(limit, what, || async {
            let reports = self.reports(&uid).await?;
            for pod in self.pods() {
                let object = reports.get(&pod.name).with_context(|| format!("{} has not reported", pod.name))?;
                let report = object.status.as_ref().context("a report without a status")?;
                ensure!(report.observed_generation >= generation && is(report), "{}: {report:?}", pod.name);
            }
            ensure!(reports.len() == self.pods().len(), "reports of {:?}", reports.keys());
            Ok::<_, anyhow::Error>(())
        })
        .await
    }

    /// Waits until every replica serves `executor` as it is now.
    pub(crate) async fn served(&self, executor: &Executor) -> Result<()> {
        self.reported(executor, |report| report.succeeded && report.serves == Serves::Wanted).await
    }

    /// Sum of the samples of a counter of one replica whose labels contain `labels`.
    pub(crate) async fn counter(&self, pod: &PodView, name: &str, labels: &str) -> Result<u64> {
        admin::counter(pod, name, labels).await
    }

    /// A token of the replicas' service account, bound to this pod.
    pub(crate) async fn pod_token(&self, pod: &PodView) -> Result<String> {
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
        };
        self.token(NAMESPACE, RECONCILER, Some(bound)).await
    }

    /// A token of a service account, bound to nothing unless told.
    pub(crate) async fn token(
        &self,
        namespace: &str,
        account: &str,
        bound_object_ref: Option<BoundObjectReference>,
    ) -> Result<String> {
        let spec = TokenRequestSpec { audiences: Vec::new(), bound_object_ref, expiration_seconds: Some(3_600) };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        Ok(answer.status.context("a token request without a token")?.token)
    }

    /// Verdicts of one replica so far.
    pub(crate) async fn builds(&self, pod: &PodView) -> Result<u64> {
        self.counter(pod, "muster_builds_total", "").await
    }
}

/// A kubeconfig for one token.
pub(crate) fn kubeconfig(stage: &Stage, token: &str) -> Result<PathBuf> {
    let plane = &stage.installation.plane;
    let admin = std::fs::read_to_string(plane.kubeconfig())?;
    let path = plane.root().join(format!("kubeconfig-{}", &token[token.len() - 12..]));
    std::fs::write(&path, admin.replace(plane.admin_token(), token))?;
    Ok(path)
}

/// Where cargo puts binaries.
pub(crate) fn bin_dir() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.ancestors().nth(2).context("no build folder")?.to_owned())
}

/// By a replica.
pub(crate) fn by_replica(request: &Request) -> bool {
    request.by(NAMESPACE, RECONCILER)
}

/// A write of a replica.
pub(crate) fn write_of_replica(request: &Request) -> bool {
    by_replica(request) && request.is_write()
}

/// A spec that every replica can build: one scope, keyless.
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

/// A spec that trusts the certificates of these files below the trust directory.
pub(crate) fn spec_with_files(scope: &str, files: &[&str]) -> Value {
    let mut spec = spec(scope);
    spec["verifiers"] = json!([{"name": "notation", "type": "notation", "parameters": {
        "certificates": [{"type": "ca", "files": files}],
    }}]);
    spec["policyEnforcer"]["parameters"]["policy"]["rules"] = json!([{"verifierName": "notation"}]);
    spec
}

/// A certificate authority, PEM.
pub(crate) fn authority() -> Result<String> {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate()?;
    Ok(params.self_signed(&key)?.pem())
}
