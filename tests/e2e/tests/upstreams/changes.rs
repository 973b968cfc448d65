//! What acts at once, what does not, and what is served meanwhile.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use muster_api::{Executor, ExecutorPodStatus, Reason, Serves};
use muster_lab::installation::{AGGREGATOR, NAMESPACE, rolled_out};
use muster_lab::wait;
use muster_upstream::{Fault, Limit, RetryAfter, Rule};
use serde_json::json;

use crate::behind::{Behind, TOKEN, notation};
use crate::stage::authority;

/// Refuses every call, for an hour.
fn closed() -> Limit {
    let retry_after = RetryAfter::Raw(vec!["3600".into()]);
    Limit::Bucket { rate: 0.000_1, burst: 0.0, charged: false, retry_after }
}

#[tokio::test]
async fn c21_nothing_but_a_new_spec_or_token_ends_a_wait() -> Result<()> {
    let behind = Behind::start(1, Limit::Unlimited, &[]).await?;
    behind.upstream.change(|behaviour| {
        behaviour.limits.insert(TOKEN.into(), closed());
    });
    let executor = behind.stage.create("a", behind.spec("a.example.com")).await?;
    behind.stage.reported(&executor, |report| report.reason == Reason::RateLimited).await?;
    ensure!(behind.calls() == 1, "{:?}", behind.upstream.log());

    let uid = executor.uid().context("no UID")?;
    let statuses: Api<ExecutorPodStatus> = behind.stage.pod_statuses();
    let own = behind.stage.reports(&uid).await?.into_values().next().context("no report")?.name_any();
    for round in 0..20 {
        let label = Patch::Merge(json!({"metadata": {"labels": {"round": round.to_string()}}}));
        let status = Patch::Merge(json!({"status": {"succeeded": false, "error": format!("round {round}")}}));
        behind.stage.executors().patch("a", &PatchParams::default(), &label).await?;
        behind.stage.executors().patch_status("a", &PatchParams::default(), &status).await?;
        statuses.patch(&own, &PatchParams::default(), &label).await?;
        behind.patch_secret("vault", &label).await?;
    }
    ensure!(behind.is_quiet(wait::scaled(Duration::from_secs(2))).await, "{:?}", behind.upstream.log());

    // Another token is another credential, and used at once, once.
    behind.put("vault", &json!({"token": "fft_another-token"})).await?;
    behind.stage.served(&executor).await?;
    let counts = behind.upstream.count("fft_another-token");
    ensure!(counts.sent == 1 && behind.calls() == 0, "{:?}", behind.upstream.log());
    behind.stage.stop().await;
    Ok(())
}

/// Waits until the one entry of `byPod` is about this generation, waits at a gate and serves this.
async fn by_pod_says(behind: &Behind, executor: &Executor, serves: &Serves) -> Result<()> {
    let generation = executor.metadata.generation;
    wait::until(format!("byPod to say {serves}"), || async {
        let status = behind.stage.executors().get(&executor.name_any()).await?.status.context("no status")?;
        let [entry] = status.by_pod.as_slice() else { bail!("{:?}", status.by_pod) };
        let says = entry.reason == Reason::RateLimited && entry.serves == *serves && !entry.succeeded;
        ensure!(says && Some(entry.observed_generation) == generation, "{entry:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

#[tokio::test]
async fn an_edit_that_waits_serves_the_older_generation_for_the_grace_then_nothing_and_by_pod_says_so() -> Result<()> {
    let behind = Behind::start(1, Limit::Unlimited, &["--edit-grace=6s"]).await?;
    behind.stage.installation.scale(AGGREGATOR, 1).await?;
    rolled_out(&behind.stage.client, AGGREGATOR).await?;
    let executor = behind.stage.create("a", behind.spec("a.example.com")).await?;
    behind.stage.served(&executor).await?;
    behind.upstream.change(|behaviour| behaviour.limit = closed());
    let edited = behind.stage.edit("a", json!({"concurrency": 7})).await?;
    let waits = |serves: Serves| {
        move |report: &muster_api::PodReport| {
            report.reason == Reason::RateLimited && report.serves == serves && !report.succeeded
        }
    };
    behind.stage.reported(&edited, waits(Serves::Older)).await?;
    by_pod_says(&behind, &edited, &Serves::Older).await?;
    behind.stage.reported(&edited, waits(Serves::Nothing)).await?;
    by_pod_says(&behind, &edited, &Serves::Nothing).await?;
    ensure!(behind.calls() == 2, "{:?}", behind.upstream.log());
    behind.stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c24_a_missing_item_is_told_with_its_name_and_a_spec_change_looks_again_at_once() -> Result<()> {
    let behind = Behind::start(1, Limit::Unlimited, &[]).await?;
    behind.upstream.change(|behaviour| behaviour.ferrvault.any_value = None);
    behind.upstream.change(|behaviour| {
        behaviour.ferrvault.vaults.insert("p/v".into(), [("other".to_owned(), String::new())].into());
    });
    let executor = behind.stage.create("a", behind.spec("a.example.com")).await?;
    let missing = |report: &muster_api::PodReport| {
        report.reason == Reason::MissingKeys && report.error.ends_with(r#"127.0.0.1 has no "ca" in vault "v""#)
    };
    behind.stage.reported(&executor, missing).await?;
    // Waits of at least 2.5, 5 and 10 s.
    let window = wait::scaled(Duration::from_secs(15));
    let more = behind.upstream.wait_for(window, |calls| calls.len() > 4).await;
    ensure!(!more, "{:?}", behind.upstream.log());
    let pem = authority()?;
    behind.upstream.change(|behaviour| behaviour.ferrvault.any_value = Some(pem));
    let edited = behind.stage.edit("a", json!({"concurrency": 7})).await?;
    behind.stage.reported_within(wait::scaled(Duration::from_secs(4)), &edited, |report| report.succeeded).await?;
    behind.stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_refresh_that_fails_keeps_the_last_good_material_and_says_so() -> Result<()> {
    let behind = Behind::start(1, Limit::Unlimited, &[]).await?;
    let mut spec = behind.spec("a.example.com");
    spec["refreshInterval"] = json!("2s");
    let executor = behind.stage.create("a", spec).await?;
    behind.stage.served(&executor).await?;
    ensure!(behind.upstream.wait_for(wait::patience(), |calls| calls.len() >= 3).await, "it is refreshed");
    behind.upstream.change(|behaviour| {
        behaviour.rules = vec![Rule::on("reveal", Fault::Status { code: 500, retry_after: None })];
    });
    let kept = |report: &muster_api::PodReport| {
        report.succeeded && report.serves == Serves::LastGood && report.reason == Reason::RefreshFailed
    };
    behind.stage.reported(&executor, kept).await?;
    behind.upstream.change(|behaviour| behaviour.rules.clear());
    behind.stage.served(&executor).await?;
    behind.stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_secret_that_appears_changes_or_goes_acts_at_once() -> Result<()> {
    let behind = Behind::start(2, Limit::Unlimited, &[]).await?;
    let provider = json!({"kubernetesSecret": {"name": "trust", "certs": ["ca.crt"]}});
    let executor = behind.stage.create("a", notation("a.example.com", &provider)).await?;
    let soon = wait::scaled(Duration::from_secs(4));
    let missing = |report: &muster_api::PodReport| report.error.ends_with(r#"has no Secret "trust""#);
    behind.stage.reported(&executor, |report| report.reason == Reason::MissingKeys && missing(report)).await?;
    behind.put("trust", &json!({"ca.crt": authority()?})).await?;
    behind.stage.reported_within(soon, &executor, |report| report.serves == Serves::Wanted).await?;

    behind.put("trust", &json!({"ca.crt": "-----BEGIN CERTIFICATE-----"})).await?;
    let bad = |report: &muster_api::PodReport| {
        report.serves == Serves::LastGood && report.error.contains(r#"key "ca.crt" block 1 has no line"#)
    };
    behind.stage.reported_within(soon, &executor, bad).await?;
    behind.put("trust", &json!({"ca.crt": authority()?})).await?;
    behind.stage.reported_within(soon, &executor, |report| report.serves == Serves::Wanted).await?;

    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(behind.stage.client.clone(), NAMESPACE);
    secrets.delete("trust", &kube::api::DeleteParams::default()).await?;
    let lost = |report: &muster_api::PodReport| report.serves == Serves::LastGood && missing(report);
    behind.stage.reported_within(soon, &executor, lost).await?;
    ensure!(behind.upstream.log().is_empty());
    behind.stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_secret_that_may_not_be_read_is_told_as_that_and_disturbs_nobody() -> Result<()> {
    let behind = Behind::start(1, Limit::Unlimited, &[]).await?;
    let provider = json!({"kubernetesSecret": {"name": "others", "certs": ["ca.crt"]}});
    let executor = behind.stage.create("a", notation("a.example.com", &provider)).await?;
    let told = |report: &muster_api::PodReport| {
        report.reason == Reason::AuthFailed
            && report.error.ends_with(r#"Secret "others" may not be read by this replica"#)
    };
    behind.stage.reported(&executor, told).await?;
    let other = behind.stage.create("b", behind.spec("b.example.com")).await?;
    behind.stage.served(&other).await?;
    behind.stage.stop().await;
    Ok(())
}
