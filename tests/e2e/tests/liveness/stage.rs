//! The shipped Deployments on a control plane of their own, with a fault proxy between every pod and the API server.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use muster_api::{Executor, ExecutorPodStatus, ExecutorStatus};
use muster_lab::admin::{counter, page};
use muster_lab::audit::Audit;
use muster_lab::installation::{AGGREGATOR, Customise, Installation, NAMESPACE, RECONCILER, Settings};
use muster_lab::kubelet::{Launch, PodView};
use muster_lab::proxy::{Asked, Proxy};
use muster_lab::{manifests, wait};
use serde_json::{Value, json};

use crate::probe::Service;

/// What plays, and how it is changed.
pub(crate) struct Cast {
    pub(crate) reconcilers: u16,
    pub(crate) aggregators: u16,
    /// Arguments for each reconciler besides those of its Deployment.
    pub(crate) reconciler_args: Vec<&'static str>,
    /// The same for each aggregator.
    pub(crate) aggregator_args: Vec<&'static str>,
    /// Changes a pod further, before each of its starts.
    pub(crate) launch: Customise,
}

/// A running play.
pub(crate) struct Stage {
    pub(crate) installation: Installation,
    /// Every pod reaches the API server through it; the test and the kubelet do not.
    pub(crate) proxy: Proxy,
    /// The administrator: what people do.
    pub(crate) client: Client,
    sizes: [(&'static str, u16); 2],
}

impl Cast {
    /// So many of each, as they are shipped.
    pub(crate) fn of(reconcilers: u16, aggregators: u16) -> Self {
        let (reconciler_args, aggregator_args) = (Vec::new(), Vec::new());
        Self { reconcilers, aggregators, reconciler_args, aggregator_args, launch: Box::new(|_, _| {}) }
    }

    /// With these arguments for both.
    pub(crate) fn args(mut self, args: &[&'static str]) -> Self {
        self.reconciler_args.extend(args);
        self.aggregator_args.extend(args);
        self
    }

    /// With these for the aggregators.
    pub(crate) fn aggregator_args(mut self, args: &[&'static str]) -> Self {
        self.aggregator_args.extend(args);
        self
    }

    /// With these for the reconcilers.
    pub(crate) fn reconciler_args(mut self, args: &[&'static str]) -> Self {
        self.reconciler_args.extend(args);
        self
    }

    /// Changed further by this.
    pub(crate) fn launch(mut self, launch: impl Fn(&Pod, &mut Launch) + Send + Sync + 'static) -> Self {
        self.launch = Box::new(launch);
        self
    }

    /// Everything but the pods: whatever is to be spoiled from the beginning is spoiled before [`Stage::enter`].
    pub(crate) async fn prepare(self) -> Result<Stage> {
        let owned = |args: Vec<&str>| args.into_iter().map(str::to_owned).collect();
        let installation = Installation::start(Settings {
            reconcilers: 0,
            aggregators: 0,
            reconciler_args: owned(self.reconciler_args),
            aggregator_args: owned(self.aggregator_args),
            ..Settings::default()
        })
        .await?;
        let (client, proxy) = (installation.plane.client()?, Proxy::start(&installation.plane).await?);
        let (url, launch) = (proxy.url(), self.launch);
        installation.kubelet.customise(move |pod, launched| {
            launched.api_server.clone_from(&url);
            launch(pod, launched);
        });
        let sizes = [(RECONCILER, self.reconcilers), (AGGREGATOR, self.aggregators)];
        Ok(Stage { installation, proxy, client, sizes })
    }

    /// Starts it all, and waits until every pod is ready.
    pub(crate) async fn ready(self) -> Result<Stage> {
        let stage = self.prepare().await?;
        stage.enter().await?;
        stage.installation.ready().await?;
        Ok(stage)
    }
}

impl Stage {
    /// Starts the pods, and returns when all are running.
    pub(crate) async fn enter(&self) -> Result<()> {
        for (name, size) in self.sizes {
            self.installation.scale(name, size).await?;
        }
        let wanted = self.sizes.iter().map(|(_, size)| usize::from(*size)).sum::<usize>();
        wait::until("the pods to run", || async {
            let running = self.pods().iter().filter(|pod| pod.pid.is_some()).count();
            ensure!(running == wanted, "{running} of {wanted} are running");
            Ok(())
        })
        .await
    }

    pub(crate) async fn stop(self) {
        self.installation.stop().await;
    }

    pub(crate) fn audit(&self) -> Audit {
        self.installation.plane.audit()
    }

    /// All pods of ours, reconcilers first.
    pub(crate) fn pods(&self) -> Vec<PodView> {
        let mut pods = self.installation.reconcilers();
        pods.extend(self.installation.aggregators());
        pods
    }

    /// Fails if the kubelet has restarted anything.
    pub(crate) fn ensure_no_restarts(&self) -> Result<()> {
        for pod in self.pods() {
            ensure!(pod.restarts == 0, "{} was restarted {} times", pod.name, pod.restarts);
        }
        Ok(())
    }

    pub(crate) fn executors(&self) -> Api<Executor> {
        Api::all(self.client.clone())
    }

    pub(crate) fn reports(&self) -> Api<ExecutorPodStatus> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) -> Result<Executor> {
        let object = json!({
            "apiVersion": "config.ratify.dev/v2alpha1", "kind": "Executor", "metadata": {"name": name}, "spec": spec,
        });
        let object = serde_json::from_value(object)?;
        self.executors().create(&PostParams::default(), &object).await.with_context(|| format!("cannot create {name}"))
    }

    /// Changes a part of the spec: the generation moves.
    pub(crate) async fn edit(&self, name: &str, spec: Value) -> Result<Executor> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let edited = self.executors().patch(name, &PatchParams::default(), &patch).await;
        edited.with_context(|| format!("cannot edit {name}"))
    }

    /// Waits until the status of an executor is as `is` wants it.
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

    /// Waits until every replica has built the executor as it is now, and its status says so.
    pub(crate) async fn succeeded(&self, limit: Duration, name: &str) -> Result<Executor> {
        let replicas = self.installation.reconcilers().len();
        let wanted = format!("{replicas}/{replicas}");
        self.status(limit, name, |executor, status| {
            ensure!(status.observed_generation == executor.metadata.generation, "another generation");
            let summary = status.replicas.as_ref().map_or("", |replicas| &replicas.summary);
            ensure!(status.succeeded && summary == wanted, "{summary}, wanted {wanted}");
            Ok(())
        })
        .await
    }

    /// Waits until every replica has reported what `is` accepts about the executor as it is now.
    pub(crate) async fn reported(&self, limit: Duration, executor: &Executor, succeeded: bool) -> Result<()> {
        let (uid, generation) = (executor.uid().context("no UID")?, executor.metadata.generation.unwrap_or_default());
        let what = format!("every replica to report on generation {generation} of {}", executor.name_any());
        wait::within(wait::scaled(limit), what, || async {
            let reports = self.reports().list(&ListParams::default()).await?;
            for pod in self.installation.reconcilers() {
                let about =
                    |report: &&ExecutorPodStatus| report.spec.pod.uid == pod.uid && report.spec.executor.uid == uid;
                let report = reports.items.iter().find(about).and_then(|report| report.status.as_ref());
                let report = report.with_context(|| format!("{} has not reported", pod.name))?;
                let is_right = report.observed_generation >= generation && report.succeeded == succeeded;
                ensure!(is_right, "{}: {report:?}", pod.name);
            }
            Ok::<_, anyhow::Error>(())
        })
        .await
    }

    /// A Secret of the installation's namespace, and the right of replicas to read it by its name.
    pub(crate) async fn grant_secret(&self, name: &str, key: &str, value: &str) -> Result<()> {
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        let verbs = ["get", "list", "watch"];
        let rule = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": verbs});
        let subject = json!({"kind": "ServiceAccount", "name": RECONCILER, "namespace": NAMESPACE});
        let objects = json!([
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {key: value}},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [subject],
            },
        ]);
        manifests::apply_objects(&self.client, serde_json::from_value(objects)?).await.map(drop)
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// The aggregator that holds the Lease.
    pub(crate) async fn leader(&self) -> Result<PodView> {
        let lease = self.leases().get(AGGREGATOR).await.context("no Lease")?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        let pods = self.installation.aggregators();
        pods.into_iter().find(|pod| is_identity(&holder, pod)).with_context(|| format!("{holder:?} holds the Lease"))
    }

    /// Waits until an aggregator that `is` accepts leads, and says so itself.
    pub(crate) async fn led_by(&self, limit: Duration, is: impl Fn(&PodView) -> bool) -> Result<PodView> {
        wait::within(wait::scaled(limit), "another leader", || async {
            let leader = self.leader().await?;
            ensure!(is(&leader), "{} leads", leader.name);
            ensure!(counter(&leader, "muster_leader", "").await? == 1, "{} does not know yet", leader.name);
            Ok::<_, anyhow::Error>(leader)
        })
        .await
    }

    /// Waits until a service of a pod answers so.
    pub(crate) async fn answers(&self, limit: Duration, pod: &PodView, service: Service, serving: bool) -> Result<()> {
        wait::within(wait::scaled(limit), format!("{service:?} of {} to be {serving}", pod.name), || async {
            let now = service.ask(pod).await?;
            ensure!(now == serving, "it is {now}: {}", page(pod, "/readyz?verbose").await?.1);
            Ok::<_, anyhow::Error>(())
        })
        .await
    }
}

/// Whether `holder` is how this pod names itself in the Lease.
pub(crate) fn is_identity(holder: &str, pod: &PodView) -> bool {
    holder == format!("{}_{}", pod.name, pod.uid)
}

/// A write of an executor's status.
pub(crate) fn is_status_write(asked: &Asked) -> bool {
    asked.verb == "update" && asked.on_status_of("executors")
}

/// A spec that every replica can build without asking anybody.
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

/// A spec that trusts the certificates that this provider loads.
pub(crate) fn notation(scope: &str, provider: &Value) -> Value {
    let mut spec = spec(scope);
    spec["verifiers"] = json!([{"name": "notation", "type": "notation", "parameters": {"certificates": [provider]}}]);
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
