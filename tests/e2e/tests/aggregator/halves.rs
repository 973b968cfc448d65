//! Replicas of which only half can be seen: reports without health, health without reports, a process without a verdict;
//! and the aggregator restarted in the middle.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use muster_api::{Executor, ExecutorStatus, PodEntry, Reason, State};
use muster_lab::installation::{NAMESPACE, RECONCILER, Settings, deploy, rolled_out};
use muster_lab::kubelet::{PodView, Signal};
use muster_lab::proxy::{Interrupt, Proxy};
use muster_lab::{manifests, wait};
use muster_upstream::{Behaviour, Fault, Rule, Upstream, authority_pem, ferrvault};
use serde_json::json;
use tokio::time::Instant;

use crate::stage::{Stage, condition, spec, summary};
use crate::valve::Valve;

/// Where a replica answers whose own health port belongs to a valve.
const INNER_PORT: u16 = 18_086;

fn entry<'a>(status: &'a ExecutorStatus, pod: &PodView) -> Result<&'a PodEntry> {
    status.by_pod.iter().find(|entry| entry.id == pod.name).context("not listed")
}

/// Kills the aggregator; its successor has acted once an edit shows.
async fn aggregator_restarted(stage: &Stage, concurrency: i32, victim: &PodView, state: &State) -> Result<Executor> {
    stage.kill_aggregator()?;
    let edited = stage.edit("base", concurrency).await?;
    stage
        .status(Duration::from_mins(1), "base", |executor, status| {
            let entry = entry(status, victim)?;
            ensure!(!status.succeeded && condition(status, "Current") != "True", "called healthy");
            ensure!(status.observed_generation == edited.metadata.generation, "not acted yet");
            ensure!(entry.state == *state && summary(status) == "2/3", "{} {}", entry.state, summary(status));
            ensure!(executor.metadata.generation == edited.metadata.generation, "another edit");
            Ok(())
        })
        .await
}

#[tokio::test]
async fn a_replica_that_reports_and_cannot_be_reached_is_stale_also_for_the_next_aggregator() -> Result<()> {
    let (valve, victim) = (Valve::open(), OnceLock::new());
    let behind = valve.clone();
    let customise = move |pod: &k8s_openapi::api::core::v1::Pod, launch: &mut muster_lab::kubelet::Launch| {
        let (Some(name), Some(uid)) = (&pod.metadata.name, &pod.metadata.uid) else { return };
        if !name.starts_with(RECONCILER) || victim.get_or_init(|| uid.clone()) != uid {
            return;
        }
        let (outer, inner) = (SocketAddr::from((launch.ip, 8086)), SocketAddr::from((launch.ip, INNER_PORT)));
        launch.env.push(("MUSTER_HEALTH_ADDR".to_owned(), inner.to_string()));
        // At a restart in place the relay is there already.
        behind.connect(outer, inner);
    };
    let stage = Stage::start(Settings { customise: Some(Box::new(customise)), ..Settings::default() }).await?;
    stage.installation.ready().await?;
    stage.create("base").await?;
    stage.succeeded("base", 3).await?;
    let unreachable = |status: &ExecutorStatus| {
        let mut stale = status.by_pod.iter().filter(|entry| entry.state == State::Stale);
        let entry = stale.next().context("nobody is stale")?;
        ensure!(stale.next().is_none() && entry.reason == Reason::ReplicaUnreachable, "{}", entry.reason);
        Ok::<_, anyhow::Error>(entry.clone())
    };

    valve.set(false);
    let shut = stage.status(Duration::from_secs(12), "base", |_, status| unreachable(status).map(drop)).await?;
    let stale = unreachable(&shut.status.context("no status")?)?.id;
    let victim = stage.installation.reconcilers().into_iter().find(|pod| pod.name == stale).context("not a replica")?;
    // Its reports still come, and are not enough.
    let edited = stage.edit("base", 6).await?;
    stage
        .status(wait::patience(), "base", |_, status| {
            let entry = entry(status, &victim)?;
            ensure!(Some(entry.observed_generation) == edited.metadata.generation, "not reported yet");
            ensure!(entry.state == State::Stale && !status.succeeded && summary(status) == "2/3", "{}", entry.state);
            Ok(())
        })
        .await?;
    aggregator_restarted(&stage, 7, &victim, &State::Stale).await?;

    valve.set(true);
    stage.succeeded("base", 3).await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_replica_that_answers_and_cannot_report_is_outdated_also_for_the_next_aggregator() -> Result<()> {
    let stage = Stage::ready(2, 1, &[]).await?;
    let proxy = Proxy::start(&stage.installation.plane).await?;
    let url = proxy.url();
    stage.installation.kubelet.customise(move |pod, launch| {
        if pod.metadata.name.as_deref().is_some_and(|name| name.starts_with(RECONCILER)) {
            launch.api_server.clone_from(&url);
        }
    });
    let before: Vec<String> = stage.installation.reconcilers().into_iter().map(|pod| pod.name).collect();
    stage.installation.scale(RECONCILER, 3).await?;
    rolled_out(&stage.client, RECONCILER).await?;
    let mut pods = stage.installation.reconcilers().into_iter();
    let victim = pods.find(|pod| !before.contains(&pod.name)).context("no third replica")?;
    stage.create("base").await?;
    stage.succeeded("base", 3).await?;
    ensure!(proxy.running(|asked| asked.verb == "watch") > 0, "its watches do not pass the proxy");

    proxy.interrupt(Interrupt::Silence, |_| true);
    proxy.close().await?;
    let edited = stage.edit("base", 6).await?;
    let outdated = |status: &ExecutorStatus, generation: Option<i64>| {
        let entry = entry(status, &victim)?;
        ensure!(status.observed_generation == generation && summary(status) == "2/3", "not yet");
        ensure!(entry.state == State::Outdated && entry.reason == Reason::GenerationBehind, "{}", entry.state);
        ensure!(!status.succeeded && condition(status, "Current") == "False", "called healthy");
        Ok(())
    };
    stage.status(wait::patience(), "base", |_, status| outdated(status, edited.metadata.generation)).await?;
    aggregator_restarted(&stage, 7, &victim, &State::Outdated).await?;
    ensure!(stage.installation.kubelet.look(&victim).is_some_and(|pod| pod.ready && pod.restarts == 0), "it suffered");

    proxy.open().await?;
    stage.succeeded("base", 3).await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_container_restarted_in_place_counts_no_more_until_its_first_verdict() -> Result<()> {
    let content = ferrvault::Content { any_value: Some(authority_pem("Test")?), ..ferrvault::Content::default() };
    let upstream = Upstream::start(Behaviour { ferrvault: content, ..Behaviour::default() }).await?;
    let stage = Stage::ready(2, 1, &[]).await?;
    manifests::apply_path(&stage.client, &deploy("kustomize/components/trust-secrets")).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "muster-vault", "namespace": NAMESPACE},
        "stringData": {"token": "fft_e2e"},
    });
    manifests::apply(&stage.client, &secret.to_string()).await?;
    let certificates = json!([{"ferrvault": {
        "url": upstream.url(), "organization": "o", "project": "p", "vault": "v", "certs": ["ca"],
        "tokenSecretRef": {"name": "muster-vault", "key": "token"},
    }}]);
    let mut spec = spec("base.example.com");
    spec["verifiers"] = json!([{"name": "notation", "type": "notation", "parameters": {"certificates": certificates}}]);
    spec["policyEnforcer"]["parameters"]["policy"]["rules"] = json!([{"verifierName": "notation"}]);
    stage.create_with("base", spec).await?;
    stage.succeeded("base", 2).await?;

    upstream.change(|behaviour| behaviour.rules = vec![Rule::on("reveal", Fault::Hang)]);
    let victim = stage.installation.reconcilers().into_iter().next().context("no replica")?;
    let killed = Instant::now();
    stage.installation.kubelet.signal(&victim, Signal::SIGKILL)?;
    let counts = |status: &ExecutorStatus| {
        let entry = entry(status, &victim)?;
        let replicas = status.replicas.as_ref().context("no counts")?;
        Ok::<_, anyhow::Error>(status.succeeded || replicas.succeeded > 1 || entry.state == State::Current)
    };
    stage
        .status(Duration::from_secs(12), "base", |_, status| {
            ensure!(!counts(status)?, "it still counts");
            Ok(())
        })
        .await?;
    // Until the call is given up, which is its first verdict, its old report stands and is not believed.
    let report_stands = async || {
        let reports = stage.reports().list(&kube::api::ListParams::default()).await?.items;
        let mut of_victim = reports.iter().filter(|report| report.spec.pod.uid == victim.uid);
        Ok::<_, anyhow::Error>(of_victim.any(|report| report.status.as_ref().is_some_and(|status| status.succeeded)))
    };
    let mut not_serving = false;
    while report_stands().await? {
        let status = stage.executors().get("base").await?.status.context("no status")?;
        not_serving |= entry(&status, &victim)?.reason == Reason::NotServing;
        // Read again: a verdict may have come between the two reads.
        ensure!(!counts(&status)? || !report_stands().await?, "counts {:?} after the kill", killed.elapsed());
        ensure!(killed.elapsed() < wait::scaled(Duration::from_mins(1)), "no verdict");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ensure!(not_serving, "the new process was never seen answering that it is not ready");
    upstream.change(|behaviour| behaviour.rules.clear());
    stage.succeeded("base", 2).await?;
    ensure!(stage.installation.kubelet.look(&victim).is_some_and(|pod| pod.restarts == 1), "not restarted in place");
    stage.stop().await;
    Ok(())
}
