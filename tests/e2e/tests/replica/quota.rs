//! A namespace that takes no more objects: a refusal that time can heal.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, DeleteParams, PostParams};
use muster_lab::installation::NAMESPACE;
use muster_lab::wait;
use serde_json::json;

use crate::stage::{Stage, spec, write_of_replica};

const REPLICAS: u16 = 5;
/// Objects that the namespace may hold.
const COUNTED: &str = "count/executorpodstatuses.config.ratify.dev";

#[tokio::test]
async fn c29_a_full_quota_is_sat_out_out_of_step_and_used_within_one_wait_of_its_lift() -> Result<()> {
    let stage = Stage::ready(REPLICAS, &[]).await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let none = json!({"metadata": {"name": "none"}, "spec": {"hard": {COUNTED: "0"}}});
    quotas.create(&PostParams::default(), &serde_json::from_value(none)?).await?;
    wait::until("the quota to be in force", || async {
        let used = quotas.get("none").await?.status.and_then(|status| status.used);
        ensure!(used.is_some_and(|used| used.contains_key(COUNTED)), "not counted yet");
        Ok::<_, anyhow::Error>(())
    })
    .await?;

    let (audit, mark) = (stage.installation.plane.audit(), stage.installation.plane.audit().mark()?);
    let executor = stage.create("base", spec("base.example.com")).await?;
    let window = Duration::from_secs(if wait::long() { 120 } else { 25 });
    tokio::time::sleep(window).await;
    let mut tries: BTreeMap<String, Vec<Timestamp>> = BTreeMap::new();
    for request in audit.matching(mark, write_of_replica)? {
        ensure!(request.code == 403 && request.on("executorpodstatuses"), "{request}");
        tries.entry(request.name.clone()).or_default().push(request.at.context("a request without a time")?);
    }
    // After 5, 10, 20, … s, each drawn from its lower half.
    let most = if wait::long() { 8 } else { 5 };
    ensure!(tries.len() == usize::from(REPLICAS), "{tries:?}");
    ensure!(tries.values().all(|tries| (3..=most).contains(&tries.len())), "{tries:?}");
    let waits: Vec<i128> = tries.values().map(|tries| tries[1].duration_since(tries[0]).as_millis()).collect();
    let spread = waits.iter().max().zip(waits.iter().min()).map(|(longest, shortest)| longest - shortest);
    ensure!(waits.iter().all(|wait| (2_400..=6_000).contains(wait)), "{waits:?}");
    ensure!(spread.is_some_and(|spread| spread > 100), "all in step: {waits:?}");

    quotas.delete("none", &DeleteParams::default()).await?;
    // The wait that is going on is no longer than all before it together, and one step of the first.
    let one_wait = wait::scaled(window + Duration::from_secs(5));
    stage.reported_within(one_wait, &executor, |report| report.succeeded).await?;
    ensure!(stage.pods().iter().all(|pod| pod.restarts == 0 && pod.ready), "{:?}", stage.pods());
    stage.stop().await;
    Ok(())
}
