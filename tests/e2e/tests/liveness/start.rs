//! The time before a process is ready: however long it takes, it is alive and says what it waits for.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{ListParams, PostParams};
use muster_lab::admin::{counter, page};
use muster_lab::installation::{AGGREGATOR, NAMESPACE};
use muster_lab::kubelet::Signal;
use muster_lab::proxy::{Answer, Asked, Fault, Rule};
use muster_lab::{faulty, wait};
use muster_upstream::{Behaviour, Limit, RetryAfter, Upstream};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::matrix;
use crate::probe::Service;
use crate::stage::{Cast, Stage, notation, spec};
use crate::witness::Witness;

/// Within this the health port answers: the second 1 of the case, with room for a machine that is shared.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Waits until every pod answers probes at all, and goes on asking.
async fn witness(stage: &Stage) -> Result<Witness> {
    let pods = stage.pods();
    for pod in &pods {
        stage.answers(AT_ONCE, pod, Service::Liveness, true).await?;
    }
    Ok(Witness::of(&pods))
}

#[tokio::test]
async fn c41_the_api_server_may_be_away_at_start() -> Result<()> {
    let away = Duration::from_secs(if wait::long() { 90 } else { 10 });
    let stage = Cast::of(2, 2).prepare().await?;
    stage.proxy.close().await?;
    stage.enter().await?;
    let witness = witness(&stage).await?;
    let pods = stage.pods();
    sleep(away).await;
    matrix::FIRST_LIST.holds(&stage).await?;
    let (_, checks) = page(&pods[0], "/readyz?verbose").await?;
    ensure!(checks.contains("the API server refuses connections"), "{checks}");

    // It listens again, but every connection breaks: now the attempts can be counted.
    let broken = stage.proxy.rule(Rule::new(Fault::Cut, |_| true));
    stage.proxy.open().await?;
    sleep(away).await;
    let (attempts, loops) = (broken.struck(), 2 * 4 + 2 * 6); // watches, the identity, the Lease
    ensure!(attempts > 0 && attempts <= loops * away.as_secs(), "{attempts} attempts in {away:?}");

    stage.proxy.clear();
    let back = Instant::now();
    stage.installation.ready().await?;
    ensure!(back.elapsed() < Duration::from_mins(1), "ready after {:?}", back.elapsed());
    witness.ensure_serving(&pods, Service::Liveness)?;
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c52_a_first_list_that_takes_longer_than_the_probes_allow_is_left_alone() -> Result<()> {
    // Pages of 500; the shipped liveness probe gives up after 30 s.
    let (reports, delay) =
        if wait::long() { (20_000, Duration::from_millis(2_250)) } else { (1_100, Duration::from_secs(12)) };
    let stage = Cast::of(0, 1).prepare().await?;
    let api = stage.reports();
    let made = stream::iter(0..reports).map(|number| {
        let api = api.clone();
        async move {
            api.create(&PostParams::default(), &serde_json::from_value(report(number))?)
                .await
                .map(drop)
                .map_err(anyhow::Error::from)
        }
    });
    made.buffer_unordered(16).try_collect::<()>().await.context("cannot create the reports")?;
    let is_page = |asked: &Asked| asked.by(AGGREGATOR) && asked.on("executorpodstatuses") && asked.verb == "list";
    let pages = stage.proxy.rule(Rule::new(Fault::DelayRequest(delay), is_page));
    let began = Instant::now();
    stage.enter().await?;
    let witness = witness(&stage).await?;
    let pods = stage.pods();
    stage.answers(Duration::from_mins(3), &pods[0], Service::Readiness, true).await?;
    let expected = u64::try_from(reports)?.div_ceil(500);
    ensure!(pages.struck() == expected, "{} pages of {expected}", pages.struck());
    ensure!(began.elapsed() > Duration::from_secs(30), "it took only {:?}", began.elapsed());
    witness.ensure_serving(&pods, Service::Liveness)?;
    witness.heard(&pods[0], Service::Readiness, &["NOT_SERVING", "SERVING"]).await?;
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}

/// A report of a replica that is no more.
fn report(number: i32) -> Value {
    json!({
        "apiVersion": "config.ratify.dev/v2alpha1", "kind": "ExecutorPodStatus",
        "metadata": {"name": format!("report-{number}"), "namespace": NAMESPACE},
        "spec": {
            "executor": {"kind": "Executor", "namespace": "", "name": "gone", "uid": "gone"},
            "pod": {"name": "gone", "uid": format!("gone-{number}")},
        },
    })
}

#[tokio::test]
async fn c56_not_synced_is_not_dead() -> Result<()> {
    let stage = Cast::of(1, 1).prepare().await?;
    // Everything is taken and never answered, the question who we are included.
    stage.proxy.rule(Rule::new(Fault::Hang, |_| true));
    stage.enter().await?;
    let witness = witness(&stage).await?;
    let pods = stage.pods();
    sleep(Duration::from_secs(if wait::long() { 120 } else { 35 })).await;
    matrix::FIRST_LIST.holds(&stage).await?;
    witness.ensure_serving(&pods, Service::Liveness)?;
    for pod in &pods {
        ensure!(witness.answers(pod, Service::Readiness) == ["NOT_SERVING"], "{}", pod.name);
    }
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}

/// Token of the Secret `vault`.
const TOKEN: &str = "fft_liveness-token";

#[tokio::test]
async fn c56_rate_limited_is_neither_dead_nor_unready() -> Result<()> {
    let limit = Limit::Bucket { rate: 0.001, burst: 0.0, charged: true, retry_after: RetryAfter::default() };
    let upstream = Upstream::start(Behaviour { limit, ..Behaviour::default() }).await?;
    let stage = Cast::of(2, 0).prepare().await?;
    stage.grant_secret("vault", "token", TOKEN).await?;
    let vault = json!({"ferrvault": {
        "url": upstream.url(), "organization": "o", "project": "p", "vault": "v", "certs": ["ca"],
        "tokenSecretRef": {"name": "vault", "key": "token"},
    }});
    for number in 0..5 {
        stage.create(&format!("e{number}"), notation(&format!("r{number}.example.com"), &vault)).await?;
    }
    stage.enter().await?;
    let pods = stage.pods();
    for pod in &pods {
        stage.answers(wait::patience(), pod, Service::Readiness, true).await?;
    }
    ensure!(upstream.count(TOKEN).refused > 0, "nothing was refused");
    let witness = Witness::of(&pods);
    sleep(Duration::from_secs(if wait::long() { 120 } else { 15 })).await;
    for service in [Service::Liveness, Service::Readiness] {
        witness.ensure_serving(&pods, service)?;
    }
    matrix::UPSTREAM.holds(&stage).await?;

    // Away is no worse than refusing.
    drop(upstream);
    sleep(Duration::from_secs(5)).await;
    matrix::UPSTREAM.holds(&stage).await?;
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn after_a_restart_in_place_a_replica_is_not_ready_until_its_first_verdict() -> Result<()> {
    let program = faulty::program("reconciler")?.display().to_string();
    let cast = Cast::of(1, 0).reconciler_args(&["--delay=build=4s"]);
    let stage = cast.launch(move |_, launch| launch.command[0].clone_from(&program)).ready().await?;
    let executor = stage.create("base", spec("a.example.com")).await?;
    stage.reported(wait::patience(), &executor, true).await?;
    let before = stage.pods().into_iter().next().context("no pod")?;

    stage.installation.kubelet.signal(&before, Signal::SIGKILL)?;
    let restarted = wait::until("a restart in place", || async {
        let now = stage.installation.kubelet.look(&before).context("the pod is gone")?;
        ensure!(now.restarts == 1 && now.pid.is_some() && now.uid == before.uid, "{now:?}");
        Ok::<_, anyhow::Error>(now)
    })
    .await?;
    stage.answers(AT_ONCE, &restarted, Service::Liveness, true).await?;
    matrix::FIRST_VERDICT.holds(&stage).await?;
    // Its old report is still there, and says nothing about the new process.
    stage.answers(wait::patience(), &restarted, Service::Readiness, true).await?;
    let built = counter(&restarted, "muster_builds_total", "").await?;
    ensure!(built == 1, "ready after {built} verdicts");
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c35_a_write_that_is_stored_and_answered_with_503_is_a_success_in_the_end() -> Result<()> {
    let stage = Cast::of(2, 1).ready().await?;
    let lost = || Fault::StoreThen(Answer::status(503));
    let of_replicas = |asked: &Asked| asked.verb == "patch" && asked.on("executorpodstatuses");
    let reports = stage.proxy.rule(Rule::new(lost(), of_replicas).times(2));
    let statuses = stage.proxy.rule(Rule::new(lost(), crate::stage::is_status_write).times(1));
    stage.create("base", spec("a.example.com")).await?;
    stage.succeeded(wait::patience(), "base").await?;
    wait::until("the faults to be used up", || async {
        ensure!((reports.struck(), statuses.struck()) == (2, 1), "{} and {}", reports.struck(), statuses.struck());
        Ok(())
    })
    .await?;
    let executor = stage.succeeded(wait::patience(), "base").await?;
    let status = executor.status.context("no status")?;
    ensure!(status.error.is_empty() && status.brief_error.is_empty(), "{status:?}");
    let made = stage.reports().list(&ListParams::default()).await?;
    ensure!(made.items.len() == 2, "{} reports of 2 replicas", made.items.len());
    let posts = stage.proxy.count(|seen| seen.asked.verb == "create" && seen.asked.on("executorpodstatuses"));
    ensure!(posts == 0, "{posts} reports were made by POST, which a repetition would make twice");
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}
