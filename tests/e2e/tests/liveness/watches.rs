//! Watches that are refused, dropped in silence or expired: each is noticed, taken up again, and nothing is missed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use muster_api::State;
use muster_lab::admin::counter;
use muster_lab::installation::{AGGREGATOR, RECONCILER};
use muster_lab::proxy::{Answer, Asked, Fault, Interrupt, Rule};
use muster_lab::wait;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::probe::Service;
use crate::stage::{Cast, Stage, spec};
use crate::witness::Witness;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn c33_pushback_on_every_list_and_watch_is_sat_out_and_nothing_is_missed() -> Result<()> {
    let window = Duration::from_secs(if wait::long() { 60 } else { 20 });
    let stage = Cast::of(2, 2).ready().await?;
    stage.create("base", spec("a.example.com")).await?;
    stage.succeeded(SOON, "base").await?;
    let pods = stage.pods();
    let witness = Witness::of(&pods);

    // Half of the refusals say when to come back; none has a body that could be decoded.
    let refusal = Answer::too_many_requests();
    let refused = stage.proxy.rule(Rule::new(Fault::Answer(refusal.clone()), Asked::is_read_of_many));
    let turn = AtomicU64::new(0);
    let every_other =
        move |asked: &Asked| asked.is_read_of_many() && turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
    let told = stage.proxy.rule(Rule::new(Fault::Answer(refusal.retry_after("2")), every_other));
    let cut = stage.proxy.interrupt(Interrupt::Cut, |asked| asked.verb == "watch");
    ensure!(cut >= 10, "{cut} watches of 2 replicas and 2 aggregators were running");
    let began = Instant::now();
    stage.edit("base", json!({"concurrency": 7})).await?;
    stage.create("new", spec("b.example.com")).await?;
    sleep(window.saturating_sub(began.elapsed())).await;
    ensure!(told.struck() >= 4 && refused.struck() >= 4, "{} and {} were refused", told.struck(), refused.struck());
    stage.proxy.clear();

    for name in ["base", "new"] {
        stage.succeeded(SOON, name).await?;
    }
    witness.ensure_serving(&pods, Service::Liveness)?;
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c37_a_watch_that_is_dropped_in_silence_is_noticed_and_the_edit_is_seen() -> Result<()> {
    // Above the 15 s for which idle connections are kept, as every balancer's limit is.
    let (idle, watch, quiet) = if wait::long() {
        (Duration::from_secs(20), "--watch-timeout=50s", Duration::from_mins(2))
    } else {
        (Duration::from_secs(16), "--watch-timeout=20s", Duration::from_secs(18))
    };
    let stage = Cast::of(1, 1).args(&[watch]).ready().await?;
    stage.create("base", spec("a.example.com")).await?;
    stage.succeeded(SOON, "base").await?;
    let pods = stage.pods();
    let witness = Witness::of(&pods);

    stage.proxy.forget_idle(Some(idle));
    sleep(quiet).await;
    stage.edit("base", json!({"concurrency": 7})).await?;
    stage.succeeded(Duration::from_mins(1), "base").await?;
    for pod in &pods {
        wait::within(wait::scaled(Duration::from_mins(1)), format!("{} to tell of it", pod.name), || async {
            let silent = counter(pod, "muster_watch_starts_total", r#"reason="silent""#).await?;
            ensure!(silent > 0, "no watch was taken up after it fell silent");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
    }
    witness.ensure_serving(&pods, Service::Liveness)?;
    witness.ensure_serving(&stage.installation.reconcilers(), Service::Readiness)?;
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c38_an_expired_watch_is_listed_again_and_a_deletion_in_the_gap_is_seen() -> Result<()> {
    let stage = Cast::of(2, 1).ready().await?;
    stage.create("base", spec("a.example.com")).await?;
    stage.succeeded(SOON, "base").await?;
    let [victim, _] = stage.installation.reconcilers().try_into().map_err(|pods| anyhow::anyhow!("{pods:?}"))?;

    // The victim cannot put its report back, and the list that follows the expiry waits until the report is deleted.
    let name = victim.name.clone();
    stage
        .proxy
        .rule(Rule::new(Fault::Answer(Answer::status(503)), move |asked| asked.verb == "patch" && asked.pod == name));
    let by_aggregator = |asked: &Asked| asked.by(AGGREGATOR) && asked.on("executorpodstatuses");
    let gap = Fault::DelayRequest(Duration::from_secs(3));
    let lists = stage.proxy.rule(Rule::new(gap, move |asked| by_aggregator(asked) && asked.is_read_of_many()));
    let expired = stage.proxy.interrupt(Interrupt::Expired, |asked| by_aggregator(asked) && asked.verb == "watch");
    ensure!(expired == 1, "{expired} watches of reports");
    let reports = stage.reports().list(&ListParams::default()).await?;
    for report in reports.iter().filter(|report| report.spec.pod.uid == victim.uid) {
        stage.reports().delete(&report.name_any(), &DeleteParams::default()).await?;
    }
    entry(&stage, &victim.name, |state| *state == State::Pending).await?;
    ensure!(lists.struck() <= 4, "{} lists and watches after one expiry", lists.struck());

    stage.proxy.clear();
    entry(&stage, &victim.name, |state| *state == State::Current).await?;
    stage.ensure_no_restarts()?;
    ensure!(stage.installation.kubelet.pods_of("muster-system", RECONCILER).len() == 2);
    stage.stop().await;
    Ok(())
}

/// Waits until the state of a replica's entry is one that `is` accepts.
async fn entry(stage: &Stage, replica: &str, is: impl Fn(&State) -> bool) -> Result<()> {
    let found = stage.status(Duration::from_mins(1), "base", |_, status| {
        let entry = status.by_pod.iter().find(|entry| entry.id == replica);
        ensure!(entry.is_some_and(|entry| is(&entry.state)), "{entry:?}");
        Ok(())
    });
    found.await.map(drop)
}
