//! Many executors on one token: all arrive, with few calls, and then there is silence.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use muster_api::{Reason, Serves};
use muster_lab::admin::get;
use muster_lab::audit::Tally;
use muster_lab::wait;
use muster_upstream::{Limit, RetryAfter};

use crate::behind::{Behind, TOKEN};
use crate::stage::write_of_replica;

#[tokio::test]
async fn c18_29_executors_on_one_token_are_all_served_and_then_nothing_is_sent() -> Result<()> {
    let behind = Behind::start(1, Limit::bucket(1.0, 10.0, true), &[]).await?;
    let audit = behind.stage.installation.plane.audit();
    let mark = audit.mark()?;
    let mut executors = Vec::new();
    for n in 0..29 {
        executors.push(behind.stage.create(&format!("e{n}"), behind.spec(&format!("e{n}.example.com"))).await?);
    }
    let begun = tokio::time::Instant::now();
    let limit = wait::scaled(Duration::from_secs(90));
    for executor in &executors {
        behind.stage.reported_within(limit, executor, |report| report.serves == Serves::Wanted).await?;
    }
    let (took, counts) = (begun.elapsed(), behind.upstream.count(TOKEN));
    ensure!(counts.admitted == 29 && counts.sent <= 45, "{took:?} {counts:?}");
    // `gate.md`'s bound, and what a loaded machine adds to 29 executors that are made one after the other.
    ensure!(took <= wait::scaled(Duration::from_secs(45)), "{took:?} {counts:?}");
    // Each says at most that it waits and that it is built.
    let writes = audit.matching(mark, write_of_replica)?;
    ensure!(writes.len() <= 2 * 29, "{}", Tally::of(&writes));
    let window = if wait::long() { Duration::from_mins(5) } else { Duration::from_secs(5) };
    ensure!(behind.is_quiet(window).await, "{:?}", behind.upstream.log());
    behind.stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn three_replicas_that_share_a_token_all_converge_and_stay_ready() -> Result<()> {
    let behind = Behind::start(3, Limit::bucket(2.0, 10.0, false), &[]).await?;
    let mut executors = Vec::new();
    for n in 0..10 {
        executors.push(behind.stage.create(&format!("e{n}"), behind.spec(&format!("e{n}.example.com"))).await?);
    }
    for executor in &executors {
        let limit = wait::scaled(Duration::from_mins(2));
        behind.stage.reported_within(limit, executor, |report| report.serves == Serves::Wanted).await?;
        for pod in behind.stage.pods() {
            ensure!(
                get(&pod, "/readyz").await?.contains("ok") && get(&pod, "/healthz").await?.contains("ok"),
                "{}",
                pod.name
            );
        }
    }
    ensure!(behind.upstream.count(TOKEN).admitted == 30, "{:?}", behind.upstream.count(TOKEN));
    behind.stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn an_executor_deleted_while_throttled_is_gone_at_once_and_metrics_told_of_its_wait() -> Result<()> {
    let retry_after = RetryAfter::Raw(vec!["3600".into()]);
    let closed = Limit::Bucket { rate: 0.000_1, burst: 0.0, charged: false, retry_after };
    let behind = Behind::start(1, closed, &[]).await?;
    let executor = behind.stage.create("a", behind.spec("a.example.com")).await?;
    behind.stage.reported(&executor, |report| report.reason == Reason::RateLimited).await?;
    let pod = behind.stage.pods().pop().context("no pod")?;
    let metric =
        async |line: &str| Ok::<_, anyhow::Error>(get(&pod, "/metrics").await?.lines().any(|found| found == line));
    for line in ["muster_gates 1", "muster_gate_waiting{line=\"urgent\"} 1", "muster_gate_refusals_total 1"] {
        ensure!(metric(line).await?, "{line} not in {}", get(&pod, "/metrics").await?);
    }

    behind.stage.delete("a").await?;
    let uid = executor.uid().context("no UID")?;
    wait::within(wait::scaled(Duration::from_secs(10)), "its report to be gone", || async {
        ensure!(behind.stage.reports(&uid).await?.is_empty(), "still there");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    wait::until("its gate to end", || async {
        ensure!(metric("muster_gates 0").await?, "still there");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    ensure!(behind.calls() == 1, "{:?}", behind.upstream.log());
    behind.stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c30_after_a_restart_of_all_replicas_the_upstream_sees_no_more_than_its_pace() -> Result<()> {
    let behind = Behind::start(2, Limit::bucket(2.0, 4.0, false), &[]).await?;
    let mut executors = Vec::new();
    for n in 0..10 {
        executors.push(behind.stage.create(&format!("e{n}"), behind.spec(&format!("e{n}.example.com"))).await?);
    }
    let served = async || {
        for executor in &executors {
            let limit = wait::scaled(Duration::from_mins(2));
            behind.stage.reported_within(limit, executor, |report| report.serves == Serves::Wanted).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    served().await?;
    behind.upstream.forget_calls();
    let restarted = behind.upstream.now().as_secs();
    for pod in behind.stage.pods() {
        behind.stage.installation.kubelet.crash(&pod).await?;
    }
    ensure!(behind.upstream.wait_for(wait::patience(), |calls| calls.len() >= 20).await, "{:?}", behind.upstream.log());
    served().await?;
    let peaks = behind.upstream.per_second(TOKEN);
    // Two gates that know nothing of each other yet, each with its window of one, in the second of the start.
    let peak = peaks.iter().filter(|(second, _)| **second > restarted + 3).map(|(_, calls)| *calls).max();
    ensure!(peak.unwrap_or_default() <= 8, "{peaks:?}");
    ensure!(behind.upstream.count(TOKEN).admitted == 20, "{:?}", behind.upstream.count(TOKEN));
    behind.stage.stop().await;
    Ok(())
}
