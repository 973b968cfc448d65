//! Replicas that are frozen, crash or are cut off show as what they are, and are back at once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use muster_api::{Reason, State};
use muster_lab::kubelet::{PodView, Signal};
use muster_lab::proxy::{Fault, Proxy, Rule};
use muster_lab::wait;

use crate::pods::no_replicas;
use crate::stage::{Stage, condition};

/// Waits until the entry of `pod` has this state, at most so long; says how long it took.
async fn state(stage: &Stage, limit: Duration, pod: &PodView, state: State) -> Result<Duration> {
    let begun = Instant::now();
    stage
        .status(limit, "base", |_, status| {
            let entry = status.by_pod.iter().find(|entry| entry.id == pod.name).context("not listed")?;
            ensure!(entry.state == state, "{}", entry.state);
            Ok(())
        })
        .await?;
    Ok(begun.elapsed())
}

#[tokio::test]
async fn c10_a_frozen_replica_is_stale_and_back_at_once_also_under_another_aggregator() -> Result<()> {
    let stage = Stage::ready(3, 1, &[]).await?;
    stage.create("base").await?;
    stage.succeeded("base", 3).await?;
    let victim = stage.installation.reconcilers().into_iter().next().context("no replica")?;
    for restart in [false, true] {
        stage.installation.kubelet.signal(&victim, Signal::SIGSTOP)?;
        state(&stage, Duration::from_secs(12), &victim, State::Stale).await?;
        let executor = stage.executors().get("base").await?;
        let status = executor.status.context("no status")?;
        let replicas = status.replicas.clone().context("no counts")?;
        ensure!(replicas.expected == 3 && replicas.current == 2 && replicas.stale == 1, "{replicas:?}");
        ensure!(status.by_pod[0].reason == Reason::ReplicaUnreachable && condition(&status, "Ready") == "False");
        if restart {
            // What its successor finds stands until it has heard from the replica itself.
            let before = stage.aggregator()?;
            stage.installation.kubelet.signal(&before, Signal::SIGKILL)?;
            wait::until("another aggregator", || async {
                ensure!(stage.aggregator()?.restarts > before.restarts, "not restarted");
                Ok::<_, anyhow::Error>(())
            })
            .await?;
            stage.installation.ready().await.ok();
        }
        stage.installation.kubelet.signal(&victim, Signal::SIGCONT)?;
        let limit = if restart { wait::patience() } else { Duration::from_secs(2) };
        state(&stage, limit, &victim, State::Current).await?;
    }
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_replica_without_a_health_port_is_said_and_asked_no_more() -> Result<()> {
    let mut settings = no_replicas();
    settings.aggregator_args.clear();
    let stage = Stage::start(settings).await?;
    let actor = stage.act_without_port("a").await?;
    let executor = stage.create("base").await?;
    actor.report(&executor, 1, "").await?;
    stage
        .status(wait::patience(), "base", |_, status| {
            let entry = status.by_pod.first().context("not listed")?;
            ensure!(
                entry.state == State::Stale && entry.reason == Reason::NoHealthPort,
                "{} {}",
                entry.state,
                entry.reason
            );
            Ok(())
        })
        .await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn an_aggregator_cut_off_from_the_api_server_is_not_ready_and_catches_up() -> Result<()> {
    let stage = Stage::ready(2, 1, &[]).await?;
    let proxy = Proxy::start(&stage.installation.plane).await?;
    let url = proxy.url();
    stage.installation.kubelet.customise(move |pod, launch| {
        if pod.metadata.name.as_deref().is_some_and(|name| name.starts_with("muster-aggregator-")) {
            launch.api_server.clone_from(&url);
        }
    });
    let before = stage.aggregator()?;
    stage.installation.kubelet.crash(&before).await?;
    stage.create("base").await?;
    stage.succeeded("base", 2).await?;
    let cut = proxy.rule(Rule::new(Fault::Cut, |_| true));
    proxy.interrupt(muster_lab::proxy::Interrupt::Cut, |_| true);
    wait::within(wait::scaled(Duration::from_secs(90)), "the aggregator to be not ready", || async {
        ensure!(!stage.aggregator()?.ready, "ready");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.edit("base", 8).await?;
    cut.remove();
    stage.succeeded("base", 2).await?;
    let after = stage.aggregator()?;
    ensure!(after.restarts == 0, "it was restarted");
    stage.stop().await;
    Ok(())
}
