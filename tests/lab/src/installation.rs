//! Muster as users install it: the definitions, roles and Deployments under `deploy`, on a control plane of its own.
//!
//! What the lab adds to a Deployment is only what a network namespace would give it: an address to listen on.

use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::control_plane::{self, ControlPlane};
use crate::kubelet::{self, Kubelet, Launch, PodView};
use crate::{deployments, manifests};

/// Namespace of the installation.
pub const NAMESPACE: &str = "muster-system";
/// Deployment and service account of the replicas.
pub const RECONCILER: &str = "muster-reconciler";
/// Deployment and service account of the aggregators.
pub const AGGREGATOR: &str = "muster-aggregator";

/// Sees every pod before each of its starts, and may change what it is started with.
pub type Customise = Box<dyn Fn(&Pod, &mut Launch) + Send + Sync>;

/// What an installation starts with.
pub struct Settings {
    /// Replicas of the reconciler.
    pub reconcilers: u16,
    /// Replicas of the aggregator.
    pub aggregators: u16,
    /// Arguments that each reconciler gets besides those of its Deployment.
    pub reconciler_args: Vec<String>,
    /// The same for each aggregator.
    pub aggregator_args: Vec<String>,
    /// What some pods get that others do not.
    pub customise: Option<Customise>,
    /// The control plane beneath.
    pub plane: control_plane::Options,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reconcilers: 3,
            aggregators: 1,
            reconciler_args: Vec::new(),
            aggregator_args: Vec::new(),
            customise: None,
            plane: control_plane::Options::default(),
        }
    }
}

/// A running installation.
pub struct Installation {
    /// The control plane.
    pub plane: ControlPlane,
    /// The node that runs the pods.
    pub kubelet: Kubelet,
}

impl Installation {
    /// Starts a control plane with the definitions under `deploy/crds`, and applies everything under
    /// `deploy/kustomize/base`; does not wait for the pods.
    pub async fn start(settings: Settings) -> Result<Self> {
        let mut options = settings.plane;
        options.crds.extend(definitions()?);
        let plane = ControlPlane::start(options).await?;
        let kubelet = Kubelet::start(&plane, kubelet::Options::default()).await?;
        if let Some(customise) = settings.customise {
            kubelet.customise(customise);
        }
        let client = plane.client()?;
        manifests::apply_path(&client, &deploy("kustomize/base/namespace.yaml")).await?;
        let parts = [
            ("reconciler", settings.reconcilers, &settings.reconciler_args),
            ("aggregator", settings.aggregators, &settings.aggregator_args),
        ];
        for (part, replicas, args) in parts {
            let mut objects = manifests::read(&deploy("kustomize/base").join(part))?;
            for object in &mut objects {
                fit(object, replicas, args).with_context(|| format!("in the Deployment of the {part}"))?;
            }
            manifests::apply_objects(&client, objects).await?;
        }
        Ok(Self { plane, kubelet })
    }

    /// Waits until every pod of both Deployments is ready.
    pub async fn ready(&self) -> Result<()> {
        let client = self.plane.client()?;
        for name in [RECONCILER, AGGREGATOR] {
            rolled_out(&client, name).await?;
        }
        Ok(())
    }

    /// Sets the replicas of a Deployment; does not wait.
    pub async fn scale(&self, name: &str, replicas: u16) -> Result<()> {
        deployments::scale(&self.plane.client()?, NAMESPACE, name, replicas.into()).await
    }

    /// The pods of the reconciler, by name.
    pub fn reconcilers(&self) -> Vec<PodView> {
        self.kubelet.pods_of(NAMESPACE, RECONCILER)
    }

    /// The pods of the aggregator, by name.
    pub fn aggregators(&self) -> Vec<PodView> {
        self.kubelet.pods_of(NAMESPACE, AGGREGATOR)
    }

    /// Ends everything, and says that all went well: no logs are kept.
    pub async fn stop(self) {
        self.kubelet.stop().await;
        self.plane.stop().await;
    }
}

/// The custom resource definitions under `deploy/crds`.
fn definitions() -> Result<Vec<String>> {
    let definitions = manifests::read(&deploy("crds"))?;
    definitions.iter().map(|definition| serde_json::to_string(definition).context("not JSON")).collect()
}

/// A path under the repository's `deploy`.
pub fn deploy(path: &str) -> PathBuf {
    crate::tools::repository().join("deploy").join(path)
}

/// Waits until every replica of our Deployment is of its newest template and ready.
pub async fn rolled_out(client: &Client, name: &str) -> Result<()> {
    deployments::rolled_out(client, NAMESPACE, name).await
}

/// Sets replicas and extra arguments of a Deployment, and lets its pods share this machine's ports: each listens on its
/// own address.
fn fit(object: &mut DynamicObject, replicas: u16, args: &[String]) -> Result<()> {
    if object.types.as_ref().is_none_or(|types| types.kind != "Deployment") {
        return Ok(());
    }
    let name = object.name_any();
    object.data["spec"]["replicas"] = json!(replicas);
    let container = object.data.pointer_mut("/spec/template/spec/containers/0").context("no container")?;
    let env = list(container, "env").with_context(|| format!("{name}: env"))?;
    env.push(json!({ "name": "POD_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }));
    env.push(json!({ "name": "MUSTER_HEALTH_ADDR", "value": "$(POD_IP):8086" }));
    env.push(json!({ "name": "MUSTER_ADMIN_ADDR", "value": "$(POD_IP):8080" }));
    list(container, "args").with_context(|| format!("{name}: args"))?.extend(args.iter().map(|arg| json!(arg)));
    Ok(())
}

fn list<'a>(container: &'a mut Value, field: &str) -> Result<&'a mut Vec<Value>> {
    let fields = container.as_object_mut().context("not an object")?;
    fields.entry(field).or_insert_with(|| json!([])).as_array_mut().context("not a list")
}
