//! Every right that we ship is used, and missed by its name: take one away, and the process names exactly that one.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use muster_api::NamespacedExecutor;
use muster_lab::admin::get;
use muster_lab::installation::NAMESPACE;
use muster_lab::rights::{named, rights};
use muster_lab::wait;
use serde_json::json;

use crate::cast::Actor;
use crate::pods::no_replicas;
use crate::stage::{Stage, spec};

/// Does everything that makes an aggregator use each of its rights.
async fn provoke(stage: &Stage, actor: &Actor, round: usize) -> Result<()> {
    let number = i32::try_from(round)? + 4;
    let base = stage.edit("base", number).await?;
    actor.report(&base, 1_000, "").await?;
    let said = stage.edit("said", number).await?;
    let generation = said.metadata.generation.unwrap_or_default();
    actor.report(&said, generation, "kv: no answer").await?;
    let tenants: Api<NamespacedExecutor> = Api::namespaced(stage.client.clone(), "default");
    let patch = Patch::Merge(json!({"spec": {"concurrency": number}}));
    let tenant = tenants.patch("tenant", &PatchParams::default(), &patch).await?;
    actor.report_on_tenant(&tenant, 1_000).await?;
    stage.leftover(&format!("leftover-{round}")).await
}

#[tokio::test]
async fn each_right_that_is_taken_away_is_named() -> Result<()> {
    let mut settings = no_replicas();
    settings.aggregator_args.push("--sweep-grace=1s".to_owned());
    let stage = Stage::start(settings).await?;
    let actor = stage.act("a").await?;
    stage.create("base").await?;
    stage.create("said").await?;
    let tenant = json!({
        "apiVersion": "config.ratify.dev/v2alpha1", "kind": "NamespacedExecutor",
        "metadata": {"name": "tenant", "namespace": "default"}, "spec": spec("tenant.example.com"),
    });
    let tenants: Api<NamespacedExecutor> = Api::namespaced(stage.client.clone(), "default");
    tenants.create(&PostParams::default(), &serde_json::from_value(tenant)?).await?;
    stage.installation.ready().await?;

    let rights = rights("aggregator")?;
    ensure!(rights.len() > 15, "{} rights", rights.len());
    for (round, right) in rights.iter().enumerate() {
        right.take(&stage.client).await?;
        let leases: Api<Lease> = Api::namespaced(stage.client.clone(), NAMESPACE);
        let before = stage.aggregator()?;
        stage.installation.kubelet.crash(&before).await?;
        leases.delete("muster-aggregator", &DeleteParams::default()).await.ok();
        provoke(&stage, &actor, round).await?;
        let wanted = format!("{} {}", right.verb, right.resource);
        wait::within(wait::scaled(Duration::from_secs(45)), format!("{wanted} to be missed"), || async {
            let pod = stage.aggregator()?;
            for text in [pod.log_text()?, get(&pod, "/readyz?verbose").await?] {
                let named = named(&text);
                ensure!(named == BTreeSet::from([wanted.clone()]), "named: {named:?}");
            }
            Ok::<_, anyhow::Error>(())
        })
        .await
        .with_context(|| format!("{right:?}"))?;
        right.give_back(&stage.client).await?;
    }
    stage.stop().await;
    Ok(())
}
