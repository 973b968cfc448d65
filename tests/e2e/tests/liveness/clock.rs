//! The wall clock is stepped under processes that run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use muster_lab::admin::counter;
use muster_lab::installation::{AGGREGATOR, deploy};
use muster_lab::wait;
use serde_json::json;
use tokio::time::sleep;

use crate::matrix;
use crate::probe::Service;
use crate::stage::{Cast, Stage, authority, notation};
use crate::witness::Witness;

const STEP: SignedDuration = SignedDuration::from_mins(10);

/// A library that shifts the wall clock of whoever preloads it. What libfaketime does, without having to install it: the
/// compiler is there, the project cannot be built without one.
fn wall_clock(folder: &Path) -> Result<PathBuf> {
    let library = folder.join("wall_clock.so");
    let source = deploy("../tests/e2e/tests/liveness/wall_clock.c");
    let status =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).arg("-ldl").status();
    ensure!(status.context("cannot run cc")?.success(), "cannot compile {}", source.display());
    Ok(library)
}

/// How far the time in the Lease is ahead of the machine's.
async fn ahead(stage: &Stage) -> Result<SignedDuration> {
    let lease = stage.leases().get(AGGREGATOR).await?;
    let renewed = lease.spec.and_then(|spec| spec.renew_time).context("never renewed")?;
    Ok(now().duration_until(renewed.0))
}

#[expect(clippy::disallowed_methods, reason = "the machine's clock is what a stepped one is held against")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[tokio::test]
async fn c54_a_wall_clock_that_steps_by_ten_minutes_changes_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("ca.pem"), authority()?)?;
    let (library, shift) = (wall_clock(folder.path())?, folder.path().join("shift"));
    let preloads = [("LD_PRELOAD", library.display().to_string()), ("WALL_CLOCK_SHIFT", shift.display().to_string())];
    let trust_dir = format!("--trust-dir={}", folder.path().display());
    let stage = Cast::of(1, 2)
        .launch(move |pod, launch| {
            launch.env.extend(preloads.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            if pod.metadata.name.as_deref().is_some_and(|name| name.starts_with("muster-reconciler-")) {
                launch.command.push(trust_dir.clone());
            }
        })
        .ready()
        .await?;
    // Due again in an hour, whatever the wall clock says.
    stage.create("base", notation("a.example.com", &json!({"type": "ca", "files": ["ca.pem"]}))).await?;
    stage.succeeded(wait::patience(), "base").await?;
    let (pods, leader) = (stage.pods(), stage.leader().await?);
    let witness = Witness::of(&pods);
    let changes = counter(&leader, "muster_leader_changes_total", "").await?;
    for (concurrency, step) in [(7, STEP), (8, -STEP), (9, SignedDuration::ZERO)] {
        std::fs::write(&shift, step.as_secs().to_string())?;
        wait::until(format!("the clock to be {step:#} ahead"), || async {
            let ahead = ahead(&stage).await?;
            ensure!((ahead - step).abs() < SignedDuration::from_secs(60), "it is {ahead:#} ahead");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let builds = counter(&pods[0], "muster_builds_total", "").await?;
        sleep(Duration::from_secs(if wait::long() { 40 } else { 8 })).await;
        ensure!(counter(&pods[0], "muster_builds_total", "").await? == builds, "a step of the clock made it build");
        stage.edit("base", json!({ "concurrency": concurrency })).await?;
        stage.succeeded(Duration::from_secs(10), "base").await?;
        matrix::STEPPED_CLOCK.holds(&stage).await?;
    }
    ensure!(stage.leader().await?.uid == leader.uid);
    ensure!(counter(&leader, "muster_leader_changes_total", "").await? == changes, "the leader stepped down");
    for service in [Service::Liveness, Service::Readiness] {
        witness.ensure_serving(&pods, service)?;
    }
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}
