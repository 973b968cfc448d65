//! From nothing to an installation and back: helm, kustomize, upgrade, rollback, and an end that leaves nothing stuck.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use muster_api::ExecutorPodStatus;
use muster_lab::installation::NAMESPACE;
use muster_lab::wait;

use crate::stage::{SAMPLE, Stage, program};

const NEXT: &str = "0.1.1";

impl Stage {
    async fn sample(&self) -> Result<()> {
        self.kubectl(&["apply", "-f", "deploy/samples/20-cosign.yaml"]).await.map(drop)
    }

    async fn image_of(&self, name: &str) -> Result<String> {
        let template = self.deployment(name).await?.spec.context("no spec")?.template;
        let container = template.spec.context("no pod")?.containers.into_iter().next().context("no container")?;
        container.image.context("no image")
    }

    /// Nothing of ours holds up the end of a namespace, and nothing is left in it.
    async fn namespace_goes(&self) -> Result<()> {
        self.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        wait::within(wait::scaled(wait::patience()), "the namespace to go", || async {
            let left = namespaces.get_opt(NAMESPACE).await?;
            ensure!(left.is_none(), "{:?}", left.and_then(|namespace| namespace.status));
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let reports: Api<ExecutorPodStatus> = Api::all(self.client.clone());
        let left = reports.list(&ListParams::default()).await?.items;
        ensure!(left.is_empty(), "{} reports are left", left.len());
        Ok(())
    }
}

#[tokio::test]
async fn c68_installed_by_helm_upgraded_rolled_back_and_uninstalled_without_a_trace() -> Result<()> {
    let Some(stage) = Stage::start().await? else { return Ok(()) };
    let took = stage.release("install", &[]).await?;
    println!("helm install to all ready: {:.1} s", took.as_secs_f64());
    stage.sample().await?;
    stage.all_ready(SAMPLE, 3).await?;

    // The next version: the chart packed with another version, which asks for another image.
    for name in ["muster-reconciler", "muster-aggregator"] {
        stage.load(&program(name)?, name, NEXT).await?;
    }
    let folder = stage.node.plane.root().join("charts");
    let packed = folder.join(format!("muster-{NEXT}.tgz")).display().to_string();
    let folder = folder.display().to_string();
    let (version, app) = (format!("--version={NEXT}"), format!("--app-version={NEXT}"));
    stage.helm(&["package", "deploy/chart", &version, &app, "--destination", &folder]).await?;
    let start = tokio::time::Instant::now();
    stage.helm(&["upgrade", "muster", &packed, "--namespace=muster-system", "--wait", "--timeout=4m"]).await?;
    println!("helm upgrade to all ready: {:.1} s", start.elapsed().as_secs_f64());
    ensure!(stage.image_of("muster-reconciler").await? == format!("muster-reconciler:{NEXT}"), "not upgraded");
    stage.all_ready(SAMPLE, 3).await?;
    stage.helm(&["rollback", "muster", "1", "--namespace=muster-system", "--wait", "--timeout=4m"]).await?;
    ensure!(stage.image_of("muster-reconciler").await? == "muster-reconciler:0.1.0", "not rolled back");
    stage.all_ready(SAMPLE, 3).await?;

    stage.helm(&["uninstall", "muster", "--namespace=muster-system", "--wait", "--timeout=2m"]).await?;
    stage.executors().get(SAMPLE).await.context("definitions and executors stay")?;
    stage.namespace_goes().await?;

    // Installed again under the same name, it takes up what was kept.
    stage.release("install", &["--create-namespace"]).await?;
    stage.all_ready(SAMPLE, 3).await?;
    stage.helm(&["uninstall", "muster", "--namespace=muster-system", "--wait", "--timeout=2m"]).await?;
    stage.kubectl(&["delete", "crd", "--all", "--timeout=60s"]).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let left = definitions.list(&ListParams::default()).await?.items;
    ensure!(left.is_empty(), "{} definitions are left", left.len());
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c68_installed_by_kustomize_and_deleted_with_its_definitions_while_it_runs() -> Result<()> {
    let Some(stage) = Stage::start().await? else { return Ok(()) };
    stage.kubectl(&["apply", "--server-side", "-k", "deploy/kustomize"]).await?;
    for name in ["muster-reconciler", "muster-aggregator"] {
        stage.rolled_out(name).await?;
    }
    stage.sample().await?;
    stage.all_ready(SAMPLE, 3).await?;
    stage.kubectl(&["apply", "-f", "deploy/samples/90-broken.yaml"]).await?;
    stage
        .status("broken", |_, status| {
            let named = |entry: &muster_api::PodEntry| entry.reason == muster_api::Reason::InvalidSpec;
            ensure!(status.by_pod.len() == 3 && status.by_pod.iter().all(named), "not all say InvalidSpec");
            Ok(())
        })
        .await?;
    println!("at rest:\n{}", stage.figures().await?);

    // Everything at once, definitions included, and the pods still run.
    stage.kubectl(&["delete", "-k", "deploy/kustomize", "--timeout=90s"]).await?;
    let maps: Api<ConfigMap> = Api::all(stage.client.clone());
    let left = maps.list(&ListParams::default()).await?.items.into_iter().filter_map(|map| map.metadata.namespace);
    ensure!(!left.clone().any(|namespace| namespace == NAMESPACE), "the namespace is left");
    stage.stop().await;
    Ok(())
}
