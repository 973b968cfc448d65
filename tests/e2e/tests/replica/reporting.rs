//! What a replica reports, and that it stays reported.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use muster_api::{Reason, Serves};
use muster_lab::wait;
use serde_json::json;

use crate::stage::{Stage, spec, write_of_replica};

#[tokio::test]
async fn a_report_is_one_apply_owned_by_its_pod_alone() -> Result<()> {
    let stage = Stage::ready(2, &[]).await?;
    let audit = stage.installation.plane.audit();
    let mark = audit.mark()?;
    let executor = stage.create("a", spec("a.example.com")).await?;
    stage.served(&executor).await?;
    let writes = audit.matching(mark, write_of_replica)?;
    ensure!(writes.len() == 2 && writes.iter().all(|write| write.verb == "patch" && write.code == 201), "{writes:?}");

    let pods = stage.pods();
    for (pod, object) in stage.reports(&executor.uid().context("no UID")?).await? {
        let view = pods.iter().find(|view| view.name == pod).context("a report of an unknown pod")?;
        let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
        ensure!(owners.len() == 1 && owners[0].uid == view.uid && owners[0].kind == "Pod", "{owners:?}");
        ensure!(owners[0].block_owner_deletion.is_none() && object.metadata.finalizers.is_none(), "{object:?}");
        let report = object.status.context("no status")?;
        ensure!(report.reason == Reason::Built && report.error.is_empty(), "{report:?}");
        let manager: Vec<_> = object.metadata.managed_fields.iter().flatten().map(|entry| &entry.manager).collect();
        ensure!(manager == [&Some("muster-reconciler".to_owned())], "{manager:?}");
    }
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_deleted_or_edited_report_is_put_right_and_foreign_marks_are_left_alone() -> Result<()> {
    let stage = Stage::ready(1, &[]).await?;
    let executor = stage.create("a", spec("a.example.com")).await?;
    stage.served(&executor).await?;
    let (uid, statuses) = (executor.uid().context("no UID")?, stage.pod_statuses());
    let read = async || Ok::<_, anyhow::Error>(stage.reports(&uid).await?.into_values().next().context("no report")?);
    let original = read().await?;
    let name = original.name_any();
    let same = async |what: &str| {
        wait::until(what, || async {
            let now = read().await?;
            ensure!(now.status == original.status, "{:?}", now.status);
            ensure!(now.metadata.owner_references == original.metadata.owner_references, "{:?}", now.metadata);
            Ok::<_, anyhow::Error>(now)
        })
        .await
    };

    statuses.delete(&name, &DeleteParams::default()).await?;
    let restored = same("the deleted report to be restored").await?;
    ensure!(restored.uid() != original.uid(), "it was never deleted");

    for (what, patch) in [
        ("an edited error", json!({"status": {"error": "all is lost", "succeeded": false}})),
        ("a removed owner", json!({"metadata": {"ownerReferences": []}})),
        ("an edited time", json!({"status": {"lastTransitionTime": "2020-01-01T00:00:00Z"}})),
    ] {
        let edited = statuses.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        let now = same(what).await?;
        ensure!(now.resource_version() != edited.resource_version(), "{what}: nothing was restored");
    }

    let audit = stage.installation.plane.audit();
    let marks = json!({"metadata": {"annotations": {"who": "webhook"}, "labels": {"seen": "yes"}}});
    statuses.patch(&name, &PatchParams::default(), &Patch::Merge(marks)).await?;
    audit.assert_quiet(Duration::from_secs(3), write_of_replica).await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c05_an_executor_recreated_ten_times_in_five_seconds_is_reported_under_its_last_uid() -> Result<()> {
    let stage = Stage::ready(3, &[]).await?;
    let mut executor = stage.create("a", spec("a.example.com")).await?;
    let mut old = Vec::new();
    let mut pace = tokio::time::interval(Duration::from_millis(500));
    for _ in 0..10 {
        pace.tick().await;
        old.push(executor.uid().context("no UID")?);
        stage.delete("a").await?;
        executor = stage.create("a", spec("a.example.com")).await?;
    }
    stage.served(&executor).await?;
    for uid in old {
        wait::until(format!("no report on {uid}"), || async {
            let reports = stage.reports(&uid).await?;
            ensure!(reports.is_empty(), "{:?}", reports.keys());
            Ok::<_, anyhow::Error>(())
        })
        .await?;
    }
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c67_a_spec_that_can_never_be_built_is_reported_once_and_not_tried_again() -> Result<()> {
    let stage = Stage::ready(2, &["--edit-grace=5s"]).await?;
    let mut broken = spec("a.example.com");
    broken["verifiers"][0]["type"] = json!("crystal-ball");
    let executor = stage.create("a", broken).await?;
    let is_broken = |report: &muster_api::PodReport| {
        report.reason == Reason::InvalidSpec && report.serves == Serves::Nothing && !report.succeeded
    };
    stage.reported(&executor, is_broken).await?;
    let error = stage.reports(&executor.uid().context("no UID")?).await?.into_values().next().and_then(|it| it.status);
    let error = error.context("no report")?.error;
    ensure!(error.contains("spec.verifiers[0].type") && error.contains("crystal-ball"), "{error}");

    let mut before = Vec::new();
    for pod in stage.pods() {
        before.push(stage.builds(&pod).await?);
    }
    let audit = stage.installation.plane.audit();
    let window = if wait::long() { Duration::from_mins(6) } else { Duration::from_secs(12) };
    audit
        .assert_quiet(window, |request| write_of_replica(request) || request.verb == "get" && request.on("executors"))
        .await?;
    for (pod, before) in stage.pods().iter().zip(before) {
        ensure!(stage.builds(pod).await? == before, "{} tried again", pod.name);
    }

    let executor = stage.edit("a", json!({"verifiers": spec("a")["verifiers"]})).await?;
    stage.served(&executor).await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_older_executor_holds_a_scope_until_it_drops_it() -> Result<()> {
    let stage = Stage::ready(2, &[]).await?;
    let mut pair = [
        stage.create("first", spec("shared.example.com")).await?,
        stage.create("second", spec("shared.example.com")).await?,
    ];
    // Creation times are whole seconds, and equal ones are told apart by UID.
    pair.sort_by_key(|executor| (executor.creation_timestamp().map(|time| time.0), executor.uid()));
    let (older, younger) = (&pair[0], &pair[1]);
    stage.served(older).await?;
    let expected = format!("scope \"shared.example.com\" belongs to executor {}, created earlier", older.name_any());
    stage.reported(younger, |report| report.reason == Reason::ScopeConflict && report.error == expected).await?;

    let moved = stage.edit(&older.name_any(), json!({"scopes": ["other.example.com"]})).await?;
    stage.served(&moved).await?;
    stage.served(younger).await?;
    stage.edit(&older.name_any(), json!({"scopes": ["shared.example.com"]})).await?;
    stage.reported(younger, |report| report.reason == Reason::ScopeConflict && report.error == expected).await?;
    stage.delete(&older.name_any()).await?;
    stage.served(younger).await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn what_is_left_of_an_executor_that_went_while_the_replica_was_away_is_deleted() -> Result<()> {
    let stage = Stage::ready(1, &[]).await?;
    let gone = stage.create("gone", spec("gone.example.com")).await?;
    let kept = stage.create("kept", spec("kept.example.com")).await?;
    stage.served(&gone).await?;
    stage.served(&kept).await?;
    let pod = stage.pods().pop().context("no pod")?;
    let kubelet = &stage.installation.kubelet;
    kubelet.signal(&pod, muster_lab::kubelet::Signal::SIGSTOP)?;
    stage.delete("gone").await?;
    let before = stage.reports(&kept.uid().context("no UID")?).await?;
    kubelet.signal(&pod, muster_lab::kubelet::Signal::SIGKILL)?;

    let uid = gone.uid().context("no UID")?;
    wait::until("the leftover to be deleted", || async {
        let reports = stage.reports(&uid).await?;
        ensure!(reports.is_empty(), "{reports:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.served(&kept).await?;
    let after = stage.reports(&kept.uid().context("no UID")?).await?;
    let versions = |reports: &std::collections::BTreeMap<String, muster_api::ExecutorPodStatus>| -> Vec<_> {
        reports.values().map(|object| object.metadata.resource_version.clone()).collect()
    };
    ensure!(versions(&after) == versions(&before), "an equal verdict was written again after a restart in place");
    stage.stop().await;
    Ok(())
}
