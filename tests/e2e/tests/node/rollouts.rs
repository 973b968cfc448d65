//! Scaled, rolled and drained: `byPod` follows, and never claims too much.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use muster_api::State;
use muster_lab::{manifests, wait};

use crate::stage::{SAMPLE, Stage};
use crate::witness::Witness;

/// Deadlines so short that a threshold of 15 s is allowed: several pass while a test looks on.
const QUICK: &str = "extraArgs={--watch-timeout=2s,--request-timeout=2s,--list-timeout=2s,--stall-threshold=15s}";

#[tokio::test]
async fn replicas_are_scaled_restarted_broken_and_drained_and_the_status_follows() -> Result<()> {
    let Some(stage) = Stage::start().await? else { return Ok(()) };
    stage.release("install", &["--set", &format!("aggregator.{QUICK}")]).await?;
    stage.kubectl(&["apply", "-f", "deploy/samples/20-cosign.yaml"]).await?;
    stage.all_ready(SAMPLE, 3).await?;

    follows_scaling_and_a_restart(&stage).await.context("scaling")?;
    names_who_cannot_start(&stage).await.context("a bad image")?;
    names_a_bad_spec_on_each(&stage).await.context("a bad spec")?;
    a_drain_is_held_and_finished(&stage).await.context("a drain")?;
    standbys_are_left_alone(&stage).await.context("standbys")?;
    stage.stop().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "figures, for whoever reads the run")]
async fn follows_scaling_and_a_restart(stage: &Stage) -> Result<()> {
    let witness = Witness::of(stage, SAMPLE);
    for replicas in [6, 2] {
        stage.kubectl_here(&["scale", "deployment/muster-reconciler", &format!("--replicas={replicas}")]).await?;
        stage.rolled_out("muster-reconciler").await?;
        stage.all_ready(SAMPLE, replicas).await?;
    }
    stage.kubectl_here(&["scale", "deployment/muster-reconciler", "--replicas=6"]).await?;
    stage.rolled_out("muster-reconciler").await?;
    stage.all_ready(SAMPLE, 6).await?;
    if wait::long() {
        with_a_hundred_executors(stage).await.context("a hundred executors")?;
    }
    let start = tokio::time::Instant::now();
    stage.kubectl_here(&["rollout", "restart", "deployment/muster-reconciler"]).await?;
    stage.rolled_out("muster-reconciler").await?;
    println!("rollout of 6 replicas: {:.1} s", start.elapsed().as_secs_f64());
    stage.all_ready(SAMPLE, 6).await?;
    stage.kubectl_here(&["scale", "deployment/muster-reconciler", "--replicas=2"]).await?;
    stage.all_ready(SAMPLE, 2).await?;
    let changes = witness.saw_no_wrong_claim(2, 8)?;
    println!("status changes seen while scaling 3, 6, 2, 6, restart, 2: {changes}");
    ensure!(stage.restarts("reconciler").await? == 0, "a replica was restarted");
    Ok(())
}

/// Prints what each container then takes; asserts only that all is ready.
#[expect(clippy::print_stdout, reason = "figures, for whoever reads the run")]
async fn with_a_hundred_executors(stage: &Stage) -> Result<()> {
    let sample = stage.executors().get(SAMPLE).await?;
    let executors = (0..100).map(|number| {
        let mut spec = serde_json::json!(sample.spec);
        spec["scopes"] = serde_json::json!([format!("e{number}.example.com")]);
        let name = format!("e{number}");
        serde_json::json!({
            "apiVersion": "config.ratify.dev/v2alpha1", "kind": "Executor", "metadata": {"name": name}, "spec": spec,
        })
    });
    let all: Vec<_> = executors.map(|executor| executor.to_string()).collect();
    manifests::apply(&stage.client, &all.join("\n---\n")).await?;
    stage.all_ready("e99", 6).await?;
    // The kubelet measures every ten seconds or so; what is printed should be of now.
    let seen = stage.figures().await?;
    let later = wait::within(Duration::from_mins(1), "the next measurement", || async {
        let now = stage.figures().await?;
        ensure!(now != seen, "none yet");
        Ok::<_, anyhow::Error>(now)
    });
    println!("100 executors on 6 replicas:\n{}", later.await?);
    let kept = format!("--field-selector=metadata.name!={SAMPLE}");
    stage.kubectl(&["delete", "executors", &kept, "--wait=false"]).await.map(drop)
}

async fn names_who_cannot_start(stage: &Stage) -> Result<()> {
    let image = ["set", "image", "deployment/muster-reconciler", "reconciler=muster-reconciler:absent"];
    stage.kubectl_here(&image).await?;
    let executor = stage
        .status(SAMPLE, |_, status| {
            let behind: Vec<_> = status.by_pod.iter().filter(|entry| entry.state != State::Current).collect();
            ensure!(status.by_pod.len() == 3 && behind.len() == 1, "not one of three is behind");
            ensure!(!status.succeeded && behind[0].state == State::Pending, "it is not pending");
            Ok(())
        })
        .await?;
    let waiting = |pod: &k8s_openapi::api::core::v1::Pod| {
        let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        containers.into_iter().flatten().any(|container| !container.ready)
    };
    let pods = stage.pods("reconciler").await?;
    let culprit: Vec<_> = pods.iter().filter(|pod| waiting(pod)).map(kube::ResourceExt::name_any).collect();
    let entries = executor.status.context("no status")?.by_pod;
    let named: Vec<_> = entries.iter().filter(|entry| entry.state == State::Pending).map(|entry| &entry.id).collect();
    ensure!(named == culprit.iter().collect::<Vec<_>>(), "{named:?} is named, {culprit:?} cannot start");
    stage.kubectl_here(&["rollout", "undo", "deployment/muster-reconciler"]).await?;
    stage.rolled_out("muster-reconciler").await?;
    stage.all_ready(SAMPLE, 2).await
}

async fn names_a_bad_spec_on_each(stage: &Stage) -> Result<()> {
    let good = stage.executors().get(SAMPLE).await?.spec;
    let bad = r#"{"spec":{"scopes":["not a scope"]}}"#;
    stage.kubectl(&["patch", "executor", SAMPLE, "--type=merge", "--patch", bad]).await?;
    stage
        .status(SAMPLE, |executor, status| {
            let wrong = status.by_pod.iter().filter(|entry| !entry.succeeded && entry.error.contains("spec.scopes[0]"));
            ensure!(status.observed_generation == executor.metadata.generation, "another generation");
            ensure!(wrong.count() == 2 && !status.succeeded, "not both replicas name the field");
            Ok(())
        })
        .await?;
    let back = serde_json::json!({"spec": {"scopes": good.0.scopes}}).to_string();
    stage.kubectl(&["patch", "executor", SAMPLE, "--type=merge", "--patch", &back]).await?;
    stage.all_ready(SAMPLE, 2).await
}

/// With one node, what is evicted finds no other place: the budget holds the drain after the first pod.
async fn a_drain_is_held_and_finished(stage: &Stage) -> Result<()> {
    let drain = ["drain", "node", "--ignore-daemonsets", "--pod-selector=app.kubernetes.io/component=reconciler"];
    let held =
        stage.kubectl(&[&drain[..], &["--timeout=15s"]].concat()).await.err().context("nothing held the drain")?;
    ensure!(held.to_string().contains("disruption budget"), "{held}");
    let ready = stage.deployment("muster-reconciler").await?.status.and_then(|status| status.ready_replicas);
    ensure!(ready == Some(1), "{ready:?} replicas are left");
    let status = stage.executors().get(SAMPLE).await?.status.context("no status")?;
    ensure!(!status.succeeded, "all ready is claimed: {status:?}");
    stage.kubectl(&["uncordon", "node"]).await?;
    stage.rolled_out("muster-reconciler").await?;
    stage.all_ready(SAMPLE, 2).await?;

    // It is finished as soon as what was evicted runs elsewhere, which here is the same node, made schedulable again.
    let relieved = async {
        wait::within(wait::scaled(Duration::from_mins(1)), "the first pod to be evicted", || async {
            let ready = stage.deployment("muster-reconciler").await?.status.and_then(|status| status.ready_replicas);
            ensure!(ready == Some(1), "{ready:?} replicas are ready");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        stage.kubectl(&["uncordon", "node"]).await
    };
    let drained = [&drain[..], &["--timeout=3m"]].concat();
    let (drained, relieved) = tokio::join!(stage.kubectl(&drained), relieved);
    relieved?;
    drained.context("the drain was not finished")?;
    stage.rolled_out("muster-reconciler").await?;
    stage.all_ready(SAMPLE, 2).await
}

/// C42, C51: a standby has nothing to do and is healthy, for longer than the threshold by which a loop is judged.
async fn standbys_are_left_alone(stage: &Stage) -> Result<()> {
    stage.kubectl_here(&["scale", "deployment/muster-aggregator", "--replicas=3"]).await?;
    stage.rolled_out("muster-aggregator").await?;
    let names = async || -> Result<Vec<String>> {
        Ok(stage.pods("aggregator").await?.iter().map(kube::ResourceExt::name_any).collect())
    };
    let before = names().await?;
    let window = Duration::from_secs(if wait::long() { 120 } else { 50 });
    let quiet = wait::within(window, "a restart", || async {
        ensure!(stage.restarts("aggregator").await? > 0, "none");
        Ok::<_, anyhow::Error>(())
    });
    ensure!(quiet.await.is_err(), "an aggregator was restarted");
    ensure!(before.len() == 3 && before == names().await?, "other pods than before");
    stage.rolled_out("muster-aggregator").await
}
