//! A status of a thousand replicas fits into its object, and what does not fit is counted.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::ResourceExt;
use muster_api::{Executor, ExecutorStatus, State};
use muster_lab::wait;

use crate::cast::Actor;
use crate::pods::no_replicas;
use crate::stage::{Stage, is_status_write};

const REPLICAS: usize = 1_000;
/// Replicas whose build fails, each with a text of about a kilobyte and one of three reasons.
const FAILING: usize = 900;
/// Reports sent at the same time.
const AT_ONCE: usize = 32;
/// Bytes that `byPod` may take, by default and at most.
const BOUNDS: [usize; 2] = [64 * 1_024, 500 * 1_024];

#[tokio::test]
async fn c65_a_thousand_kilobytes_of_errors_fit_and_the_counts_stay_exact() -> Result<()> {
    let stage = Stage::start(no_replicas()).await?;
    let names: Vec<String> = (0..REPLICAS).map(|number| format!("r{number:04}")).collect();
    let actors = stage.cast(&names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let executor = stage.create("base").await?;
    report(&actors, &executor).await?;
    let written = stage.audit().mark()?;

    let default = fitted(&stage, BOUNDS[0]).await?;
    ensure!(default.by_pod_omitted.is_some(), "nothing is said to be omitted");
    // A successor that may write more does so, without being asked by any change.
    stage.installation.kubelet.customise(|pod, launch| {
        if pod.name_any().starts_with("muster-aggregator-") {
            launch.command.push(format!("--by-pod-max-bytes={}", BOUNDS[1]));
        }
    });
    stage.installation.kubelet.crash(&stage.aggregator()?).await?;
    let most = fitted(&stage, BOUNDS[1]).await?;
    ensure!(most.by_pod.len() > default.by_pod.len(), "{} entries, {} before", most.by_pod.len(), default.by_pod.len());
    let refused = |code: u16| code != 200 && code != 409;
    let bad = stage.audit().matching(written, |request| is_status_write(request) && refused(request.code))?;
    ensure!(bad.is_empty(), "{bad:?}");
    stage.stop().await;
    Ok(())
}

async fn report(actors: &[Actor], executor: &Executor) -> Result<()> {
    let report = |(number, actor): (usize, &Actor)| {
        let (actor, error) = (actor.clone(), format!("{}: {}", number % 3, "no answer, ".repeat(90)));
        async move { actor.report(executor, 1, if number < FAILING { &error } else { "" }).await.map(drop) }
    };
    stream::iter(actors.iter().enumerate()).map(report).buffer_unordered(AT_ONCE).try_collect().await
}

/// Waits until the status counts every replica, and checks that it is as large as it may be and no larger.
async fn fitted(stage: &Stage, bound: usize) -> Result<ExecutorStatus> {
    let executor = stage
        .status(wait::patience().max(Duration::from_mins(1)), "base", |_, status| {
            let counts = status.replicas.as_ref().context("no counts")?;
            let all = REPLICAS as u32;
            ensure!(counts.expected == all && counts.reporting == all && counts.current == all, "{counts:?}");
            ensure!(counts.succeeded as usize == REPLICAS - FAILING, "{} succeeded", counts.succeeded);
            let bytes = serde_json::to_vec(&status.by_pod)?.len();
            ensure!(bytes <= bound && bytes > bound / 2, "byPod has {bytes} bytes, {bound} are allowed");
            Ok(())
        })
        .await?;
    let bytes = serde_json::to_vec(&executor)?.len();
    ensure!(bytes <= bound + 16 * 1_024, "the executor has {bytes} bytes");
    let status = executor.status.context("no status")?;

    let failing = status.by_pod.iter().take_while(|entry| !entry.succeeded).count();
    ensure!(status.by_pod[failing..].iter().all(|entry| entry.succeeded), "failing ones are not first");
    let omitted = status.by_pod_omitted.clone().unwrap_or_default();
    ensure!(status.by_pod.len() + omitted.count as usize == REPLICAS, "{} and {omitted:?}", status.by_pod.len());
    ensure!(omitted.by_state.values().sum::<u32>() == omitted.count, "{omitted:?}");
    ensure!(status.by_pod.iter().all(|entry| entry.state == State::Current), "not all are current");
    let told = format!("{FAILING}/{REPLICAS} replicas unhealthy, 3 reasons");
    ensure!(status.error.contains(&told), "{}", status.error);
    Ok(status)
}
