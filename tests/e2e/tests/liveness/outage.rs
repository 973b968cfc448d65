//! The API server goes away and comes back.

use std::time::Duration;

use anyhow::Result;
use muster_lab::wait;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::matrix;
use crate::probe::Service;
use crate::stage::{Cast, spec};
use crate::witness::Witness;

#[tokio::test]
async fn an_outage_of_the_api_server_restarts_nobody_and_is_over_within_ten_seconds() -> Result<()> {
    let away = if wait::long() { Duration::from_mins(3) } else { Duration::from_secs(40) };
    let stage = Cast::of(2, 2).ready().await?;
    stage.create("base", spec("a.example.com")).await?;
    stage.succeeded(wait::patience(), "base").await?;
    let pods = stage.pods();
    let witness = Witness::of(&pods);

    let plane = &stage.installation.plane;
    plane.api_server().kill().await;
    sleep(away).await;
    matrix::OUTAGE.holds(&stage).await?;
    plane.start_api_server().await?;
    let back = Instant::now();
    for pod in &pods {
        stage.answers(Duration::from_secs(10), pod, Service::Readiness, true).await?;
    }
    stage.edit("base", json!({"concurrency": 7})).await?;
    let left = wait::scaled(Duration::from_secs(10)).saturating_sub(back.elapsed());
    stage.succeeded(left, "base").await?;

    witness.ensure_serving(&pods, Service::Liveness)?;
    witness.ensure_serving(&stage.installation.reconcilers(), Service::Readiness)?;
    for pod in stage.installation.aggregators() {
        witness.heard(&pod, Service::Readiness, &["SERVING", "NOT_SERVING", "SERVING"]).await?;
    }
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}
