//! How often a status is written, and that no write is lost, whoever else writes.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use muster_lab::installation::{AGGREGATOR, NAMESPACE, RECONCILER, Settings};
use muster_lab::kubelet::Signal;
use muster_lab::proxy::{Fault, Proxy, Rule};
use muster_lab::wait;
use serde_json::json;

use crate::pods::no_replicas;
use crate::stage::{Stage, by_aggregator, conflicts, disturbs, is_status_write, status_writes};

#[tokio::test]
async fn c17_conflicts_lose_nothing() -> Result<()> {
    let stage = Stage::ready(2, 1, &[]).await?;
    stage.create("base").await?;
    stage.succeeded("base", 2).await?;
    let (audit, mark) = (stage.audit(), stage.audit().mark()?);
    // Labels race with every status write until at least one has lost.
    let deadline = tokio::time::Instant::now() + wait::scaled(Duration::from_mins(2));
    let mut edits = 5;
    while conflicts(&audit, mark)? == 0 {
        ensure!(tokio::time::Instant::now() < deadline, "no conflict in {edits} edits");
        edits += 1;
        stage.edit("base", edits).await?;
        for value in 0..60 {
            stage.label("base", &format!("{edits}-{value}")).await?;
        }
    }
    stage.edit("base", edits + 1).await?;
    let edited = tokio::time::Instant::now();
    stage.succeeded("base", 2).await?;
    ensure!(edited.elapsed() < wait::scaled(Duration::from_secs(10)), "it took {:?}", edited.elapsed());
    let log = stage.aggregator()?.log_text()?;
    ensure!(!log.contains("ERROR"), "{log}");
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c15_a_watch_that_lags_behind_two_quick_edits() -> Result<()> {
    let stage = Stage::ready(2, 1, &[]).await?;
    let proxy = Proxy::start(&stage.installation.plane).await?;
    let url = proxy.url();
    stage.installation.kubelet.customise(move |pod, launch| {
        if pod.metadata.name.as_deref().is_some_and(|name| name.starts_with("muster-aggregator-")) {
            launch.api_server.clone_from(&url);
        }
    });
    let lag = proxy.rule(Rule::new(Fault::Lag(Duration::from_secs(2)), |asked| {
        asked.verb == "watch" && asked.resource == "executors"
    }));
    let before = stage.aggregator()?;
    stage.installation.kubelet.crash(&before).await?;
    stage.create("base").await?;
    stage.succeeded("base", 2).await?;
    ensure!(lag.struck() > 0, "the watch does not lag");

    let mark = stage.audit().mark()?;
    stage.edit("base", 6).await?;
    stage.edit("base", 7).await?;
    stage.succeeded("base", 2).await?;
    let retries = conflicts(&stage.audit(), mark)?;
    ensure!(retries <= 5, "{retries} conflicts");
    let log = stage.aggregator()?.log_text()?;
    ensure!(!log.contains("ERROR"), "{log}");
    stage.is_right("base").await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c12_a_quiet_cluster_is_left_alone() -> Result<()> {
    // Watches end several times within the window: that must cost no list either.
    let watches = vec!["--watch-timeout=10s".to_owned()];
    let stage =
        Stage::start(Settings { reconciler_args: watches.clone(), aggregator_args: watches, ..Settings::default() })
            .await?;
    stage.installation.ready().await?;
    let executors = if wait::long() { 150 } else { 40 };
    let names: Vec<String> = (0..executors).map(|number| format!("e{number}")).collect();
    for name in &names {
        stage.create(name).await?;
    }
    for name in &names {
        stage.succeeded(name, 3).await?;
    }
    let audit = stage.audit();
    audit.await_quiet(Duration::from_secs(5), disturbs).await?;
    let mark = audit.mark()?;
    let window = Duration::from_secs(if wait::long() { 120 } else { 30 });
    audit.assert_quiet(window, disturbs).await?;
    for (account, whose) in [(RECONCILER, "replicas"), (AGGREGATOR, "aggregator")] {
        let watches = audit.count(mark, |request| request.by(NAMESPACE, account) && request.verb == "watch")?;
        ensure!(watches > 0, "no watch of the {whose} ended in {window:?}: the window shows too little");
    }

    // Both are still at work.
    let mark = audit.mark()?;
    stage.edit("e7", 9).await?;
    stage.succeeded("e7", 3).await?;
    audit.await_quiet(Duration::from_secs(3), disturbs).await?;
    let writes = status_writes(&audit, mark)?;
    ensure!((1..=3).contains(&writes), "{writes} status writes for one edit");
    let reports = audit.count(mark, |request| request.by(NAMESPACE, RECONCILER) && request.is_write())?;
    ensure!(reports == 3, "{reports} reports of 3 replicas");
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn every_write_is_a_guarded_put_of_the_status() -> Result<()> {
    let stage = Stage::ready(2, 1, &[]).await?;
    let mark = stage.audit().mark()?;
    stage.create("base").await?;
    stage.succeeded("base", 2).await?;
    for write in
        stage.audit().matching(mark, |request| by_aggregator(request) && request.is_write() && !request.is_lease())?
    {
        let is_put = write.verb == "update" && write.on_status_of("executors");
        let is_event = write.verb == "create" && write.on("events");
        ensure!(is_put || is_event, "{write}");
        ensure!(!is_put || write.uri.contains("fieldManager=muster-aggregator.muster-system"), "{}", write.uri);
    }
    let log = stage.aggregator()?.log_text()?;
    ensure!(!log.contains("older than this program"), "something of a status was not stored: {log}");
    wait::until("the Event of the verdict", || async {
        let events = stage.events("base").await?;
        let is_told =
            |(reason, note): &(String, String)| reason == "Built" && note == "2/2 replicas serve generation 1";
        ensure!(events.iter().any(is_told), "{events:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_status_written_by_hand_is_put_right_once() -> Result<()> {
    let stage = Stage::ready(2, 1, &[]).await?;
    stage.create("base").await?;
    // A change of ours first, so that what is written by hand is a rewrite.
    stage.edit("base", 4).await?;
    stage.succeeded("base", 2).await?;
    let (audit, mark) = (stage.audit(), stage.audit().mark()?);
    let wrong = json!({"status": {"succeeded": false, "error": "by hand", "byPod": [], "replicas": null}});
    let params = PatchParams { field_manager: Some("a-person".to_owned()), ..PatchParams::default() };
    stage.executors().patch_status("base", &params, &Patch::Merge(wrong)).await?;
    stage
        .status(Duration::from_secs(5), "base", |_, status| {
            ensure!(status.succeeded && status.error.is_empty() && status.by_pod.len() == 2, "still wrong");
            Ok(())
        })
        .await?;
    audit.await_quiet(Duration::from_secs(3), is_status_write).await?;
    let writes = status_writes(&audit, mark)?;
    ensure!(writes == 1, "{writes} writes");
    stage.is_right("base").await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_status_that_somebody_keeps_writing_is_not_fought_over() -> Result<()> {
    let stage = Stage::ready(1, 1, &[]).await?;
    stage.create("base").await?;
    stage.edit("base", 4).await?;
    stage.succeeded("base", 1).await?;
    let (audit, mark) = (stage.audit(), stage.audit().mark()?);
    let params = PatchParams { field_manager: Some("ratify".to_owned()), ..PatchParams::default() };
    let rewrite = async |error: &str| {
        let wrong = Patch::Merge(json!({"status": {"succeeded": false, "error": error}}));
        stage.executors().patch_status("base", &params, &wrong).await.map(drop)
    };
    for round in 0..2 {
        rewrite(&format!("by ratify, {round}")).await?;
        stage
            .status(Duration::from_secs(15), "base", |_, status| {
                ensure!(status.error.is_empty(), "still wrong");
                Ok(())
            })
            .await?;
    }
    rewrite("by ratify, once more").await?;
    wait::until("an Event that names the other writer", || async {
        let events = stage.events("base").await?;
        let said =
            events.iter().filter(|(reason, note)| reason == "ForeignWriter" && note.contains("\"ratify\"")).count();
        ensure!(said == 1, "{events:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    rewrite("by ratify, again").await?;
    audit.assert_quiet(Duration::from_secs(5), is_status_write).await?;
    let writes = status_writes(&audit, mark)?;
    ensure!(writes == 2, "{writes} writes");
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_report_ahead_of_the_executor_is_waited_for_and_not_for_ever() -> Result<()> {
    let stage = Stage::start(no_replicas()).await?;
    let actor = stage.act("a").await?;
    let executor = stage.create("base").await?;
    actor.report(&executor, 7, "").await?;
    stage
        .status(Duration::from_secs(10), "base", |_, status| {
            ensure!(status.by_pod.len() == 1 && !status.succeeded, "not listed");
            Ok(())
        })
        .await?;
    actor.report(&executor, 1, "").await?;
    stage.succeeded("base", 1).await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_crash_of_the_aggregator_in_the_middle_of_a_rollout_loses_nothing() -> Result<()> {
    let stage = Stage::ready(2, 1, &[]).await?;
    stage.create("base").await?;
    stage.succeeded("base", 2).await?;
    let before = stage.aggregator()?;
    stage.edit("base", 10).await?;
    stage.installation.kubelet.signal(&before, Signal::SIGKILL)?;
    stage.edit("base", 11).await?;
    stage.succeeded("base", 2).await?;
    stage.is_right("base").await?;
    stage.stop().await;
    Ok(())
}
