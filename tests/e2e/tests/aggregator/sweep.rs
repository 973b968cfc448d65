//! Leftovers vanish without the garbage collector, and nothing else does.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use muster_lab::audit::Request;
use muster_lab::control_plane::{Controllers, Options};
use muster_lab::wait;
use serde_json::json;

use crate::pods::no_replicas;
use crate::stage::{Stage, by_aggregator};

#[tokio::test]
async fn leftovers_are_swept_and_live_reports_stay_also_after_a_restart() -> Result<()> {
    let mut settings = no_replicas();
    settings.aggregator_args.push("--sweep-grace=3s".to_owned());
    settings.plane = Options { controllers: Controllers::WithoutGarbageCollector, ..Options::default() };
    let stage = Stage::start(settings).await?;
    let (base, gone) = (stage.create("base").await?, stage.create("gone").await?);
    let [live, crashed, hidden, orphan] = ["live", "crashed", "hidden", "orphan"];
    let actors = stage.cast(&[live, crashed, hidden, orphan]).await?;
    let mut names = Vec::new();
    for actor in &actors {
        names.push(actor.report(&base, 1, "").await?.name_any());
    }
    let of_gone = actors[0].report(&gone, 1, "").await?.name_any();
    stage.succeeded("base", 4).await?;

    // A pod that our selector does not select any more is alive all the same.
    let unlabel = Patch::Merge(json!({"metadata": {"labels": {"app.kubernetes.io/component": null}}}));
    stage.pods().patch(hidden, &PatchParams::default(), &unlabel).await?;
    let disown = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    stage.reports().patch(&names[3], &PatchParams::default(), &disown).await?;
    stage.remove_pod(crashed).await?;
    stage.delete("gone").await?;

    let expected: BTreeSet<String> = [names[0].clone(), names[2].clone()].into();
    let left = async || {
        let reports = stage.reports().list(&ListParams::default()).await?;
        Ok::<BTreeSet<String>, anyhow::Error>(reports.items.iter().map(ResourceExt::name_any).collect())
    };
    wait::within(wait::scaled(Duration::from_secs(40)), "the leftovers to be swept", || async {
        let left = left().await?;
        ensure!(left == expected, "{left:?}, expected {expected:?}; {of_gone} is of an executor that is gone");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    // Longer than the grace: whatever else would be swept is swept now.
    let is_sweep = |request: &Request| by_aggregator(request) && request.verb == "delete";
    stage.audit().assert_quiet(Duration::from_secs(8), is_sweep).await?;
    ensure!(left().await? == expected, "a live report was swept");

    // What became a leftover while nobody was looking is found by the next aggregator.
    stage.kill_aggregator()?;
    stage.leftover("late").await?;
    wait::within(wait::scaled(Duration::from_mins(1)), "the late leftover to be swept", || async {
        let left = left().await?;
        ensure!(left == expected, "{left:?}, expected {expected:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.stop().await;
    Ok(())
}
