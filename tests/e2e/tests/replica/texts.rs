//! Names and texts as long and as odd as the API server lets them be.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use muster_api::Reason;
use muster_lab::installation::{NAMESPACE, RECONCILER};
use muster_lab::wait;
use serde_json::json;

use crate::stage::{Stage, spec};

#[tokio::test]
async fn c61_pods_and_executors_with_names_of_253_characters_are_reported() -> Result<()> {
    let stage = Stage::start(0, &[]).await?;
    let long = |end: &str| format!("{}{end}", "a.".repeat(126));
    // A bare pod, since a Deployment's pods have short names; two that differ in the last character only.
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let template = deployments.get(RECONCILER).await?.spec.context("no spec")?.template;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), NAMESPACE);
    for name in [long("x"), long("y")] {
        let mut pod = Pod { spec: template.spec.clone(), ..Pod::default() };
        pod.metadata.name = Some(name);
        pods.create(&PostParams::default(), &pod).await?;
    }
    let mut uids = Vec::new();
    for (index, end) in ["p", "q"].into_iter().enumerate() {
        let executor = stage.create(&long(end), spec(&format!("r{index}.example.com"))).await?;
        uids.push(executor.metadata.uid.context("no UID")?);
    }
    wait::until("both pods to report on both executors", || async {
        let mut names = Vec::new();
        for uid in &uids {
            for (pod, object) in stage.reports(uid).await? {
                ensure!(object.status.as_ref().is_some_and(|report| report.succeeded), "{pod}: {:?}", object.status);
                let labels = object.metadata.labels.unwrap_or_default();
                ensure!(labels.values().all(|value| value.len() <= 63), "{labels:?}");
                names.push(object.metadata.name.context("no name")?);
            }
        }
        names.sort();
        names.dedup();
        ensure!(names.len() == 4 && names.iter().all(|name| name.len() <= 230), "{names:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c63_a_huge_error_is_cut_between_characters_and_told_once() -> Result<()> {
    let stage = Stage::ready(1, &[]).await?;
    for (index, odd) in ["schlüssel", "鍵", "🔑", "a🔑"].into_iter().enumerate() {
        let mut broken = spec(&format!("r{index}.example.com"));
        broken["stores"][0]["parameters"]["credential"]["provider"] = json!(odd.repeat(100 * 1024 / odd.len()));
        let executor = stage.create(&format!("e-{index}"), broken).await?;
        stage.reported(&executor, |report| report.reason == Reason::InvalidSpec).await?;
        let uid = executor.metadata.uid.context("no UID")?;
        let report = stage.reports(&uid).await?.into_values().next().and_then(|object| object.status);
        let report = report.context("no report")?;
        ensure!(report.error.len() <= 1_024 && report.error.contains("..."), "{report:?}");
        ensure!(report.brief_error.len() <= 120 && report.brief_error.ends_with("..."), "{report:?}");
        ensure!(report.error.contains(odd) && !report.error.contains(char::REPLACEMENT_CHARACTER), "{report:?}");
        let log = stage.pods()[0].log_text()?;
        ensure!(log.matches(&format!("Executor e-{index}")).count() == 1, "{log}");
    }
    stage.stop().await;
    Ok(())
}
