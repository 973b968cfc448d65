//! Which pods count: rollouts, scaling, evictions, and executors that come back under their name.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use muster_api::State;
use muster_lab::installation::{RECONCILER, Settings, rolled_out};
use muster_lab::kubelet::Signal;
use muster_lab::{deployments, wait};
use serde_json::json;

use crate::stage::{Stage, condition, summary};

/// Aggregators that do not ask pretended replicas for their health.
pub(crate) fn no_replicas() -> Settings {
    Settings { reconcilers: 0, aggregator_args: vec!["--watch-health=false".to_owned()], ..Settings::default() }
}

#[tokio::test]
async fn c01_after_rollouts_and_crashes_only_the_living_are_listed() -> Result<()> {
    let stage = Stage::ready(3, 1, &[]).await?;
    stage.create("base").await?;
    stage.succeeded("base", 3).await?;
    for round in 0..5 {
        if round == 2 {
            let victim = stage.installation.reconcilers().into_iter().next().context("no replica")?;
            stage.installation.kubelet.crash(&victim).await?;
        } else {
            deployments::restart(&stage.client, "muster-system", RECONCILER, &format!("round-{round}")).await?;
        }
        rolled_out(&stage.client, RECONCILER).await?;
    }
    wait::within(wait::scaled(Duration::from_mins(1)), "three entries and three reports", || async {
        let mut alive: Vec<_> = stage.installation.reconcilers().into_iter().map(|pod| pod.name).collect();
        alive.sort();
        let mut listed = stage.listed("base").await?;
        listed.sort();
        ensure!(alive.len() == 3 && listed == alive, "listed {listed:?}, alive {alive:?}");
        let reports = stage.reports().list(&ListParams::default()).await?.items;
        ensure!(reports.len() == 3, "{} reports", reports.len());
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.succeeded("base", 3).await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c09_never_all_current_before_each_replica_has_a_verdict_on_the_new_generation() -> Result<()> {
    let stage = Stage::ready(3, 1, &[]).await?;
    stage.create("base").await?;
    stage.succeeded("base", 3).await?;
    let paused = stage.installation.reconcilers().into_iter().next().context("no replica")?;
    stage.installation.kubelet.signal(&paused, Signal::SIGSTOP)?;
    let edited = stage.edit("base", 5).await?;
    let generation = edited.metadata.generation;
    stage
        .status(Duration::from_secs(15), "base", |_, status| {
            ensure!(status.observed_generation == generation, "another generation");
            ensure!(condition(status, "Current") != "True" && condition(status, "Ready") != "True", "too early");
            ensure!(!status.succeeded && summary(status) == "2/3", "not 2/3");
            let current = status.replicas.as_ref().map(|replicas| replicas.current);
            ensure!(current == Some(2), "{current:?} current");
            let behind: Vec<_> =
                status.by_pod.iter().filter(|entry| Some(entry.observed_generation) != generation).collect();
            ensure!(behind.len() == 1 && behind[0].id == paused.name, "{behind:?} behind");
            Ok(())
        })
        .await?;
    stage.installation.kubelet.signal(&paused, Signal::SIGCONT)?;
    stage.succeeded("base", 3).await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c08_a_terminating_pod_leaves_the_count_at_once() -> Result<()> {
    let stage = Stage::start(no_replicas()).await?;
    let actors = stage.cast(&["a", "b", "c"]).await?;
    let executor = stage.create("base").await?;
    for actor in &actors {
        actor.report(&executor, 1, "").await?;
    }
    stage.succeeded("base", 3).await?;
    // Its node never answers, so it stays terminating, with its report.
    stage.pods().delete("b", &DeleteParams::default().grace_period(60)).await?;
    stage
        .status(Duration::from_secs(5), "base", |_, status| {
            let replicas = status.replicas.clone().context("no counts")?;
            ensure!(replicas.succeeded <= replicas.expected, "more succeeded than expected");
            ensure!(status.succeeded && replicas.expected == 2 && replicas.summary == "2/2", "not 2/2");
            Ok(())
        })
        .await?;
    ensure!(stage.pods().get("b").await?.metadata.deletion_timestamp.is_some(), "the pod should still be there");
    ensure!(stage.listed("base").await? == ["a", "c"]);
    stage.is_right("base").await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn evicted_unschedulable_and_surplus_pods_count_as_what_they_are() -> Result<()> {
    let stage = Stage::start(no_replicas()).await?;
    let actors = stage.cast(&["a", "b", "c"]).await?;
    let executor = stage.create("base").await?;
    for actor in &actors {
        actor.report(&executor, 1, "").await?;
    }
    stage.succeeded("base", 3).await?;

    // An evicted pod stays for ever, and so does its report.
    stage.set_pod_status("a", json!({"phase": "Failed", "reason": "Evicted"})).await?;
    stage.succeeded("base", 2).await?;
    ensure!(stage.listed("base").await? == ["b", "c"]);

    // A surge counts before anything is taken away.
    let surge = stage.act("d").await?;
    stage
        .status(wait::patience(), "base", |_, status| {
            ensure!(!status.succeeded && summary(status) == "2/3", "not 2/3");
            ensure!(
                status.by_pod[0].id == "d" && status.by_pod[0].state == State::Pending,
                "the silent one is not first"
            );
            ensure!(status.error == "1/3 replicas unhealthy: no report yet", "{}", status.error);
            Ok(())
        })
        .await?;
    let no_place = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    stage.set_pod_status("d", json!({"phase": "Pending", "conditions": [no_place]})).await?;
    stage
        .status(wait::patience(), "base", |_, status| {
            ensure!(status.by_pod[0].reason == muster_api::Reason::Unscheduled, "not Unscheduled");
            ensure!(condition(status, "Ready") == "False", "ready");
            Ok(())
        })
        .await?;
    stage.set_pod_status("d", json!({"phase": "Running", "conditions": []})).await?;
    surge.report(&executor, 1, "").await?;
    stage.succeeded("base", 3).await?;
    stage.is_right("base").await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn scaled_to_zero_and_back_also_while_the_aggregator_is_restarted() -> Result<()> {
    let stage = Stage::ready(3, 1, &[]).await?;
    stage.create("base").await?;
    stage.succeeded("base", 3).await?;
    for restart in [false, true] {
        stage.installation.scale(RECONCILER, 0).await?;
        if restart {
            stage.kill_aggregator()?;
        }
        stage
            .status(wait::patience(), "base", |_, status| {
                ensure!(!status.succeeded && status.by_pod.is_empty() && summary(status) == "0/0", "ghosts");
                ensure!(status.error == "no replica is expected: nobody serves", "{}", status.error);
                Ok(())
            })
            .await?;
        stage.installation.scale(RECONCILER, 3).await?;
        if restart {
            stage.kill_aggregator()?;
        }
        stage.succeeded("base", 3).await?;
    }
    stage.is_right("base").await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c05_an_executor_deleted_and_recreated_while_replicas_report_and_the_aggregator_is_restarted() -> Result<()> {
    let stage = Stage::ready(3, 1, &[]).await?;
    for round in 0..10 {
        stage.create("base").await?;
        if round == 5 {
            stage.kill_aggregator()?;
        }
        stage.delete("base").await?;
    }
    let last = stage.create("base").await?;
    let uid = last.uid().context("no UID")?;
    stage.succeeded("base", 3).await?;
    wait::until("reports on the last executor only", || async {
        let reports = stage.reports().list(&ListParams::default()).await?.items;
        let mine = reports.iter().filter(|report| report.spec.executor.uid == uid).count();
        ensure!(reports.len() == 3 && mine == 3, "{} reports, {mine} on the last executor", reports.len());
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.is_right("base").await?;
    stage.stop().await;
    Ok(())
}
