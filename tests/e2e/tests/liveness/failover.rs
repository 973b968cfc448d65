//! Leaders that die, leave or fall asleep.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use muster_lab::admin::counter;
use muster_lab::kubelet::{PodView, Signal};
use muster_lab::wait;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::matrix;
use crate::probe::Service;
use crate::stage::{Cast, Stage, is_status_write, spec};

/// The shipped lease duration, and a margin.
const LEASE_AND_MARGIN: Duration = Duration::from_secs(15 + 5);

/// Two aggregators and a replica, with a status to be written.
async fn start() -> Result<Stage> {
    let stage = Cast::of(1, 2).ready().await?;
    stage.create("base", spec("a.example.com")).await?;
    stage.succeeded(wait::patience(), "base").await?;
    Ok(stage)
}

fn status_writes(stage: &Stage, pod: &PodView) -> usize {
    stage.proxy.count(|seen| seen.asked.pod == pod.name && is_status_write(&seen.asked))
}

#[tokio::test]
async fn a_killed_leader_is_replaced_within_the_lease_and_five_seconds() -> Result<()> {
    let stage = start().await?;
    let before = stage.leader().await?;
    stage.installation.kubelet.crash(&before).await?;
    let died = Instant::now();
    stage.edit("base", json!({"concurrency": 7})).await?;
    stage.led_by(LEASE_AND_MARGIN, |leader| leader.uid != before.uid).await?;
    ensure!(died.elapsed() <= wait::scaled(LEASE_AND_MARGIN), "{:?}", died.elapsed());
    stage.succeeded(wait::patience(), "base").await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_leader_that_is_told_to_go_hands_over_within_two_seconds() -> Result<()> {
    let stage = start().await?;
    let before = stage.leader().await?;
    stage.installation.kubelet.signal(&before, Signal::SIGTERM)?;
    let asked = Instant::now();
    stage.led_by(Duration::from_secs(2), |leader| leader.uid != before.uid).await?;
    ensure!(asked.elapsed() <= wait::scaled(Duration::from_secs(2)), "{:?}", asked.elapsed());
    stage.edit("base", json!({"concurrency": 7})).await?;
    stage.succeeded(wait::patience(), "base").await?;
    wait::until("the old leader to end in order", || async {
        let log = before.log_text()?;
        ensure!(log.contains("drained"), "{log}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_frozen_leader_is_replaced_and_writes_nothing_when_it_wakes() -> Result<()> {
    let stage = start().await?;
    let before = stage.leader().await?;
    stage.installation.kubelet.signal(&before, Signal::SIGSTOP)?;
    stage.edit("base", json!({"concurrency": 7})).await?;
    matrix::FROZEN.holds_of(std::slice::from_ref(&before)).await?;
    let after = stage.led_by(LEASE_AND_MARGIN, |leader| leader.uid != before.uid).await?;
    stage.succeeded(wait::patience(), "base").await?;

    let written = status_writes(&stage, &before);
    stage.installation.kubelet.signal(&before, Signal::SIGCONT)?;
    for concurrency in 10..20 {
        stage.edit("base", json!({ "concurrency": concurrency })).await?;
        sleep(Duration::from_millis(300)).await;
    }
    stage.succeeded(wait::patience(), "base").await?;
    ensure!(status_writes(&stage, &before) == written, "{} woke up and wrote", before.name);
    let awake = stage.installation.kubelet.look(&before).context("the frozen pod is gone")?;
    ensure!(awake.restarts == 0, "it was restarted, so this test has shown nothing");
    stage.answers(wait::patience(), &before, Service::Liveness, true).await?;
    ensure!(counter(&before, "muster_leader", "").await? == 0 && stage.leader().await?.uid == after.uid);
    stage.stop().await;
    Ok(())
}
