//! A real node with the images of this build, and the tools that people use on it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use muster_api::{Executor, ExecutorStatus};
use muster_image::{AUTHORITIES, Image, write};
use muster_lab::control_plane::Options;
use muster_lab::installation::{NAMESPACE, deploy};
use muster_lab::node::{RealNode, supported};
use muster_lab::skip::unable;
use muster_lab::{manifests, tools, wait};
use muster_toolbox::Tool;
use serde_json::Value;

/// Set by `cargo xtask test` where the programs of a node cannot be had: why not.
const NO_NODE: &str = "MUSTER_NO_NODE";
/// The version that the chart asks for.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The sample that every replica can build.
pub(crate) const SAMPLE: &str = "cosign-app";
/// Deadlines of whole rollouts: containers start one after the other, each with its probes.
const ROLLOUT: Duration = Duration::from_secs(90);

pub(crate) struct Stage {
    pub(crate) node: RealNode,
    /// The administrator: what people do.
    pub(crate) client: Client,
    kubeconfig: PathBuf,
}

impl Stage {
    /// A node with both images, and the namespace of the installation, where only restricted pods are admitted. `None`,
    /// which is recorded, where a node cannot be.
    pub(crate) async fn start() -> Result<Option<Self>> {
        let told = std::env::var(NO_NODE).ok();
        if let Some(why) = told.or_else(|| supported().err().map(|why| format!("{why:#}"))) {
            unable(&why)?;
            return Ok(None);
        }
        let node = RealNode::start(Options::default()).await?;
        let (client, kubeconfig) = (node.plane.client()?, node.plane.kubeconfig());
        let stage = Self { node, client, kubeconfig };
        for name in ["muster-reconciler", "muster-aggregator"] {
            stage.load(&program(name)?, name, VERSION).await?;
        }
        manifests::apply_path(&stage.client, &deploy("kustomize/base/namespace.yaml")).await?;
        Ok(Some(stage))
    }

    /// Makes an image of a program, called `name:tag` and with the program under that name, and loads it. The images of
    /// `cargo xtask image` are taken instead from a folder that `MUSTER_IMAGES` names.
    pub(crate) async fn load(&self, program: &Path, name: &str, tag: &str) -> Result<()> {
        if let Some(folder) = std::env::var_os("MUSTER_IMAGES") {
            let made = Path::new(&folder).join(format!("{name}.tar"));
            if tag == VERSION && made.exists() {
                return self.node.load(&made).await;
            }
        }
        let dir = self.node.plane.root().join("images");
        std::fs::create_dir_all(&dir).context("cannot create a folder")?;
        let (copy, archive) = (dir.join(name), dir.join("image.tar"));
        std::fs::copy(program, &copy).with_context(|| format!("cannot copy {}", program.display()))?;
        let authorities = Path::new(AUTHORITIES).exists().then_some(Path::new(AUTHORITIES));
        let image =
            Image { name: &format!("{name}:{tag}"), program: &copy, authorities, version: tag, compressed: false };
        write(&archive, &image)?;
        self.node.load(&archive).await
    }

    pub(crate) async fn helm(&self, args: &[&str]) -> Result<String> {
        tools::run(Tool::Helm, Some(&self.kubeconfig), args).await
    }

    /// Installs or upgrades the release, and waits until helm finds it ready. Returns how long that took.
    pub(crate) async fn release(&self, verb: &str, args: &[&str]) -> Result<Duration> {
        let start = tokio::time::Instant::now();
        let release = [verb, "muster", "deploy/chart", "--namespace=muster-system", "--wait", "--timeout=4m"];
        self.helm(&[&release[..], args].concat()).await?;
        Ok(start.elapsed())
    }

    pub(crate) async fn kubectl(&self, args: &[&str]) -> Result<String> {
        tools::run(Tool::Kubectl, Some(&self.kubeconfig), args).await
    }

    /// The same in the namespace of the installation.
    pub(crate) async fn kubectl_here(&self, args: &[&str]) -> Result<String> {
        self.kubectl(&[&["--namespace=muster-system"][..], args].concat()).await
    }

    /// Waits until a Deployment is rolled out, as `kubectl rollout status` says.
    pub(crate) async fn rolled_out(&self, name: &str) -> Result<()> {
        let limit = format!("--timeout={}s", wait::scaled(ROLLOUT).as_secs());
        self.kubectl_here(&["rollout", "status", &format!("deployment/{name}"), &limit]).await.map(drop)
    }

    pub(crate) async fn deployment(&self, name: &str) -> Result<Deployment> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        deployments.get(name).await.with_context(|| format!("cannot read Deployment {name}"))
    }

    /// Pods of a component that are not on their way out.
    pub(crate) async fn pods(&self, component: &str) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let labels = format!("app.kubernetes.io/name=muster,app.kubernetes.io/component={component}");
        let found = pods.list(&ListParams::default().labels(&labels)).await?;
        Ok(found.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
    }

    /// How often the containers of a component were restarted, all pods together.
    pub(crate) async fn restarts(&self, component: &str) -> Result<i32> {
        let pods = self.pods(component).await?;
        let statuses = pods.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref());
        Ok(statuses.flatten().map(|status| status.restart_count).sum())
    }

    pub(crate) fn executors(&self) -> Api<Executor> {
        Api::all(self.client.clone())
    }

    /// Waits until the status of an executor is as `is` wants it.
    pub(crate) async fn status(
        &self,
        name: &str,
        is: impl Fn(&Executor, &ExecutorStatus) -> Result<()>,
    ) -> Result<Executor> {
        wait::within(wait::scaled(ROLLOUT), format!("the status of {name}"), || async {
            let executor = self.executors().get(name).await?;
            let status = executor.status.clone().context("no status")?;
            is(&executor, &status).with_context(|| format!("{status:?}"))?;
            Ok::<_, anyhow::Error>(executor)
        })
        .await
    }

    /// Waits until so many replicas have built the executor as it is now, and `byPod` lists exactly the pods that are.
    pub(crate) async fn all_ready(&self, name: &str, replicas: usize) -> Result<()> {
        self.status(name, |executor, status| {
            let summary = status.replicas.as_ref().map_or("", |replicas| &replicas.summary);
            ensure!(status.observed_generation == executor.metadata.generation, "another generation");
            ensure!(status.succeeded && summary == format!("{replicas}/{replicas}"), "not {replicas}/{replicas}");
            Ok(())
        })
        .await?;
        let mut pods: Vec<_> = self.pods("reconciler").await?.iter().map(ResourceExt::name_any).collect();
        let status = self.executors().get(name).await?.status.context("no status")?;
        let mut listed: Vec<_> = status.by_pod.into_iter().map(|entry| entry.id).collect();
        pods.sort();
        listed.sort();
        ensure!(pods == listed, "byPod lists {listed:?}, the pods are {pods:?}");
        Ok(())
    }

    /// Working set and CPU of each container as the kubelet measures them, a line each.
    pub(crate) async fn figures(&self) -> Result<String> {
        let path = "/api/v1/nodes/node/proxy/stats/summary";
        let answer = self.client.request_text(http::Request::get(path).body(Vec::new())?).await?;
        let summary: Value = serde_json::from_str(&answer)?;
        let mut lines = Vec::new();
        for pod in summary["pods"].as_array().into_iter().flatten() {
            for container in pod["containers"].as_array().into_iter().flatten() {
                let memory = container.pointer("/memory/workingSetBytes").and_then(Value::as_f64).unwrap_or_default();
                let cpu = container.pointer("/cpu/usageNanoCores").and_then(Value::as_f64).unwrap_or_default();
                lines.push(format!(
                    "{}: {:.1} MiB, {:.1} mCPU",
                    pod.pointer("/podRef/name").and_then(Value::as_str).unwrap_or_default(),
                    memory / f64::from(1 << 20),
                    cpu / 1e6
                ));
            }
        }
        lines.sort();
        Ok(lines.join("\n"))
    }

    pub(crate) async fn stop(self) {
        self.node.stop().await;
    }
}

/// A program of this build.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let dir = std::env::var_os("MUSTER_BIN_DIR").context("MUSTER_BIN_DIR is not set: use `cargo xtask test`")?;
    Ok(Path::new(&dir).join(name))
}
