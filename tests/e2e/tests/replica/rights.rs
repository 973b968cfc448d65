//! Every right that we ship is used, and missed by its name: take one away, and the replica names exactly that one, in its
//! log and in readiness.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{Api, Patch, PatchParams, PostParams};
use muster_api::NamespacedExecutor;
use muster_lab::admin::page;
use muster_lab::rights::{named, rights};
use muster_lab::wait;
use serde_json::json;

use crate::stage::{Stage, spec};

/// Does everything that makes a replica use each of its rights.
async fn provoke(stage: &Stage, round: usize) -> Result<()> {
    stage.create(&format!("new-{}", round + 1), spec(&format!("new-{}.example.com", round + 1))).await?;
    stage.edit("edited", json!({"concurrency": round + 4})).await?;
    let tenants: Api<NamespacedExecutor> = Api::namespaced(stage.client.clone(), "default");
    let patch = Patch::Merge(json!({"spec": {"concurrency": round + 4}}));
    tenants.patch("tenant", &PatchParams::default(), &patch).await?;
    stage.delete(&format!("new-{round}")).await
}

#[tokio::test]
async fn each_right_that_is_taken_away_is_named_in_log_and_readiness() -> Result<()> {
    let stage = Stage::ready(1, &[]).await?;
    stage.create("edited", spec("edited.example.com")).await?;
    stage.create("new-0", spec("new-0.example.com")).await?;
    let tenant = json!({
        "apiVersion": "config.ratify.dev/v2alpha1", "kind": "NamespacedExecutor",
        "metadata": {"name": "tenant", "namespace": "default"}, "spec": spec("tenant.example.com"),
    });
    let tenants: Api<NamespacedExecutor> = Api::namespaced(stage.client.clone(), "default");
    tenants.create(&PostParams::default(), &serde_json::from_value(tenant)?).await?;

    let rights = rights("reconciler")?;
    ensure!(rights.len() > 10, "{} rights", rights.len());
    for (round, right) in rights.iter().enumerate() {
        // What the round before left undone is done first.
        let last = stage.executors().get(&format!("new-{round}")).await?;
        stage.served(&last).await?;
        right.take(&stage.client).await?;
        let pod = stage.pods().pop().context("no replica")?;
        stage.installation.kubelet.crash(&pod).await?;
        let reads = ["get", "list", "watch"].contains(&right.verb.as_str());
        if !reads {
            // A write is missed by a replica that has been ready as well; a deletion only by one that has seen the object.
            wait::until("the replica to be ready again", || async {
                let pod = stage.pods().pop().context("no replica")?;
                ensure!(page(&pod, "/readyz").await?.0 == 200, "not yet");
                anyhow::Ok(())
            })
            .await?;
        }
        provoke(&stage, round).await?;
        let wanted = format!("{} {}", right.verb, right.resource);
        wait::within(wait::scaled(Duration::from_secs(45)), format!("{wanted} to be missed"), || async {
            let pod = stage.pods().pop().context("no replica")?;
            for text in [pod.log_text()?, page(&pod, "/readyz?verbose").await?.1] {
                let named = named(&text);
                ensure!(named == BTreeSet::from([wanted.clone()]), "named: {named:?}");
            }
            anyhow::Ok(())
        })
        .await
        .with_context(|| format!("{right:?}"))?;
        right.give_back(&stage.client).await?;
    }
    stage.stop().await;
    Ok(())
}
