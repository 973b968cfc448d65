//! Processes that have nothing to do, and must not be killed for it.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_lab::admin::counter;
use muster_lab::wait;
use serde_json::json;
use tokio::time::sleep;

use crate::matrix;
use crate::probe::Service;
use crate::stage::{Cast, notation, spec};
use crate::witness::Witness;

/// The shortest threshold there can be: a watch is given up 5 s after its end at the earliest, and a threshold below twice
/// the longest deadline is refused.
pub(crate) const THRESHOLD: Duration = Duration::from_secs(13);
/// Flags for it.
pub(crate) const IMPATIENT: [&str; 4] =
    ["--stall-threshold=13s", "--watch-timeout=1s", "--request-timeout=2s", "--list-timeout=3s"];

/// Flags for it that only replicas have.
pub(crate) const IMPATIENT_BUILDS: [&str; 2] = ["--build-deadline=3s", "--upstream-timeout=3s"];

/// Several thresholds.
fn window() -> Duration {
    if wait::long() { Duration::from_mins(3) } else { THRESHOLD * 3 }
}

#[tokio::test]
async fn c42_standbys_are_alive_and_ready_and_say_who_they_are() -> Result<()> {
    let stage = Cast::of(0, 3).args(&IMPATIENT).ready().await?;
    let pods = stage.pods();
    let witness = Witness::of(&pods);
    sleep(window()).await;
    witness.ensure_serving(&pods, Service::Liveness)?;
    witness.ensure_serving(&pods, Service::Readiness)?;
    stage.ensure_no_restarts()?;
    matrix::STANDBY.holds(&stage).await?;
    let leader = stage.leader().await?;
    for pod in &pods {
        let leads = counter(pod, "muster_leader", "").await?;
        ensure!(leads == u64::from(pod.uid == leader.uid), "{}: {leads}, and {} leads", pod.name, leader.name);
    }
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c43_objects_due_in_an_hour_are_no_stall_and_a_corrected_one_acts_at_once() -> Result<()> {
    let trust = tempfile::tempdir()?;
    std::fs::write(trust.path().join("ca.pem"), crate::stage::authority()?)?;
    let flag = format!("--trust-dir={}", trust.path().display());
    let cast = Cast::of(2, 1).args(&IMPATIENT).reconciler_args(&IMPATIENT_BUILDS);
    let stage = cast
        .launch(move |pod, launch| {
            if pod.metadata.name.as_deref().is_some_and(|name| name.starts_with("muster-reconciler-")) {
                launch.command.push(flag.clone());
            }
        })
        .ready()
        .await?;
    // One is due again in an hour, one never: a verifier's name is mistyped where it is referred to.
    let mut hourly = notation("a.example.com", &json!({"type": "ca", "files": ["ca.pem"]}));
    hourly["refreshInterval"] = json!("1h");
    stage.create("hourly", hourly).await?;
    let mut mistyped = spec("b.example.com");
    mistyped["policyEnforcer"]["parameters"]["policy"]["rules"] = json!([{"verifierName": "cosgin"}]);
    let mistyped = stage.create("mistyped", mistyped).await?;
    stage.succeeded(wait::patience(), "hourly").await?;
    stage.reported(wait::patience(), &mistyped, false).await?;

    let pods = stage.pods();
    let witness = Witness::of(&pods);
    sleep(window()).await;
    let corrected = stage.edit("mistyped", spec("b.example.com")).await?;
    stage.reported(Duration::from_secs(5), &corrected, true).await?;
    witness.ensure_serving(&pods, Service::Liveness)?;
    witness.ensure_serving(&pods, Service::Readiness)?;
    matrix::QUIET.holds(&stage).await?;
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}
