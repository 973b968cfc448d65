//! What a replica does not do: build, read or write because of what others write.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use muster_lab::audit::{Request, Tally};
use muster_lab::wait;
use serde_json::json;

use crate::stage::{Stage, by_replica, spec, write_of_replica};

/// A read of one executor: what every build begins with.
fn get_of_replica(request: &Request) -> bool {
    by_replica(request)
        && request.verb == "get"
        && matches!(request.resource.as_str(), "executors" | "namespacedexecutors")
}

#[tokio::test]
async fn c06_a_hundred_status_writes_of_others_cause_no_build_and_one_edit_exactly_one() -> Result<()> {
    let stage = Stage::ready(2, &[]).await?;
    let executor = stage.create("a", spec("a.example.com")).await?;
    stage.served(&executor).await?;
    let pods = stage.pods();
    let mut before = Vec::new();
    for pod in &pods {
        before.push(stage.builds(pod).await?);
    }

    let audit = stage.installation.plane.audit();
    let mark = audit.mark()?;
    for round in 0..120 {
        let status = json!({"status": {"succeeded": round % 2 == 0, "error": format!("round {round}")}});
        stage.executors().patch_status("a", &PatchParams::default(), &Patch::Merge(status)).await?;
        if round % 4 == 0 {
            let label = json!({"metadata": {"labels": {"round": round.to_string()}}});
            stage.executors().patch("a", &PatchParams::default(), &Patch::Merge(label)).await?;
        }
    }
    let edited = stage.edit("a", json!({"concurrency": 7})).await?;
    stage.served(&edited).await?;
    audit.await_quiet(Duration::from_secs(2), by_replica).await?;

    for (pod, before) in pods.iter().zip(before) {
        let now = stage.builds(pod).await?;
        ensure!(now == before + 1, "{}: {before} builds before, {now} after", pod.name);
    }
    let seen = audit.matching(mark, |request| get_of_replica(request) || write_of_replica(request))?;
    ensure!(seen.iter().filter(|request| get_of_replica(request)).count() == pods.len(), "{}", Tally::of(&seen));
    ensure!(seen.iter().filter(|request| write_of_replica(request)).count() == pods.len(), "{}", Tally::of(&seen));
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c14_a_replica_reads_each_executor_once_and_hears_nothing_of_other_replicas() -> Result<()> {
    let stage = Stage::start(10, &[]).await?;
    let mut executors = Vec::new();
    for index in 0..50 {
        executors.push(stage.create(&format!("e-{index}"), spec(&format!("r{index}.example.com"))).await?);
    }
    muster_lab::installation::rolled_out(&stage.client, muster_lab::installation::RECONCILER).await?;
    for executor in &executors {
        stage.served(executor).await?;
    }
    let audit = stage.installation.plane.audit();
    let pods = stage.pods();
    for pod in &pods {
        let builds = stage.builds(pod).await?;
        ensure!(builds == 50, "{} built {builds} times", pod.name);
    }
    let seen = audit.matching(muster_lab::audit::Audit::START, by_replica)?;
    let gets = seen.iter().filter(|request| get_of_replica(request)).count();
    ensure!(gets == 500, "{gets} reads of 50 executors by 10 replicas");
    let foreign: Vec<_> = seen
        .iter()
        .filter(|request| request.on("executorpodstatuses") && matches!(request.verb.as_str(), "list" | "watch"))
        .filter(|request| !pods.iter().any(|pod| request.uri.contains(&pod.uid)))
        .collect();
    ensure!(foreign.is_empty(), "replicas look at each other's reports:\n{}", Tally::of(foreign));

    // What one replica says, others neither read nor answer.
    let object =
        stage.reports(&executors[0].uid().context("no UID")?).await?.into_values().next().context("no report")?;
    let mark = audit.mark()?;
    for round in 0..20 {
        let marks = json!({"metadata": {"annotations": {"round": round.to_string()}}});
        stage.pod_statuses().patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(marks)).await?;
    }
    audit.assert_quiet(Duration::from_secs(3), |request| get_of_replica(request) || write_of_replica(request)).await?;
    let seen = audit.matching(mark, |request| get_of_replica(request) || write_of_replica(request))?;
    ensure!(seen.is_empty(), "{}", Tally::of(&seen));
    for pod in &pods {
        ensure!(stage.builds(pod).await? == 50, "{} built again", pod.name);
    }
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c12_150_executors_converge_and_then_nothing_is_written_until_somebody_edits_one() -> Result<()> {
    let stage = Stage::faulty(2, &["--delay=build=20ms", "--build-workers=1", "--watch-timeout=10s"]).await?;
    let mut executors = Vec::new();
    for index in 0..150 {
        executors.push(stage.create(&format!("e-{index:03}"), spec(&format!("r{index}.example.com"))).await?);
    }
    for executor in &executors {
        stage.served(executor).await?;
    }
    let audit = stage.installation.plane.audit();
    audit.await_quiet(Duration::from_secs(2), write_of_replica).await?;
    let window = if wait::long() { Duration::from_mins(2) } else { Duration::from_secs(30) };
    audit
        .assert_quiet(window, |request| {
            write_of_replica(request) || get_of_replica(request) || request.is_list() && by_replica(request)
        })
        .await?;

    let mark = audit.mark()?;
    let edited = stage.edit("e-077", json!({"concurrency": 7})).await?;
    stage.served(&edited).await?;
    audit.await_quiet(Duration::from_secs(2), write_of_replica).await?;
    let writes = audit.matching(mark, write_of_replica)?;
    ensure!(writes.len() == 2, "{}", Tally::of(&writes));
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c40_the_last_of_three_edits_is_seen_whatever_else_is_being_built() -> Result<()> {
    let stage = Stage::faulty(1, &["--delay=build=20ms", "--build-workers=1"]).await?;
    let a = stage.create("a", spec("a.example.com")).await?;
    let b = stage.create("b", spec("b.example.com")).await?;
    stage.served(&a).await?;
    stage.served(&b).await?;
    let rounds = if wait::long() { 200 } else { 60 };
    for round in 0..rounds {
        let a = stage.edit("a", json!({"concurrency": 1 + round})).await?;
        let mut last = b.clone();
        for edit in 0..3 {
            last = stage.edit("b", json!({"concurrency": 1 + 3 * round + edit})).await?;
        }
        for executor in [&a, &last] {
            stage
                .reported_within(wait::scaled(Duration::from_secs(5)), executor, |report| report.succeeded)
                .await
                .with_context(|| format!("round {round}"))?;
        }
    }
    stage.stop().await;
    Ok(())
}
