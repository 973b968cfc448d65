//! The chart: what it renders, what it refuses, and that the kustomizations say the same.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use muster_lab::tools::{repository, run};
use muster_toolbox::Tool;
use serde_json::Value;

use crate::tools::{CHART, differences, kustomize, normalised, render, template, text};

#[tokio::test]
async fn the_chart_and_its_value_sets_pass_lint() -> Result<()> {
    for values in ["values.yaml", "ci/everything-values.yaml", "ci/smallest-values.yaml"] {
        run(Tool::Helm, None, &["lint", "--strict", CHART, "--values", &format!("{CHART}/{values}")]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_the_value_sets_render() -> Result<()> {
    for (name, args) in [
        ("defaults", vec!["--set=crds.enabled=false"]),
        (
            "everything",
            vec![
                "--set=crds.enabled=false",
                "--set=prometheusRule.enabled=false", // both are files of their own, compared elsewhere
                "--set=grafanaDashboard.enabled=false",
                "--values=deploy/chart/ci/everything-values.yaml",
            ],
        ),
        ("smallest", vec!["--values=deploy/chart/ci/smallest-values.yaml"]),
    ] {
        insta::assert_snapshot!(name, template(&args).await?);
    }
    Ok(())
}

#[tokio::test]
async fn chart_and_kustomizations_are_the_same_object_by_object() -> Result<()> {
    for (folder, args) in [
        ("deploy/kustomize", vec![]),
        ("deploy/kustomize/base", vec!["--set=policy.enabled=false"]),
        ("deploy/kustomize/overlays/network-policy", vec!["--set=networkPolicy.enabled=true"]),
        ("deploy/kustomize/overlays/autoscaling", vec!["--set=reconciler.autoscaling.enabled=true"]),
        (
            "deploy/kustomize/overlays/monitoring",
            vec![
                "--set=podMonitor.enabled=true",
                "--set=prometheusRule.enabled=true",
                "--set=grafanaDashboard.enabled=true",
            ],
        ),
    ] {
        let (chart, other) = (normalised(render(&args).await?)?, normalised(kustomize(folder).await?)?);
        let names = |objects: &std::collections::BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        ensure!(names(&chart) == names(&other), "{folder}: {:?}\nchart: {:?}", names(&other), names(&chart));
        for (name, object) in &chart {
            let mut found = Vec::new();
            differences(object, &other[name], "", &mut found);
            ensure!(found.is_empty(), "{folder}: {name} differs, the chart first: {found:#?}");
        }
        ensure!(chart.len() >= 19, "{folder}: {} objects", chart.len());
    }
    Ok(())
}

#[tokio::test]
async fn wrong_values_are_refused_in_the_words_of_the_schema() -> Result<()> {
    for (value, words) in [
        ("--set=reconciler.replicas=3", "at '/reconciler': additional properties 'replicas' not allowed"),
        ("--set-string=reconciler.replicaCount=three", "at '/reconciler/replicaCount': got string, want integer"),
        ("--set=reconciler.replicaCount=-1", "at '/reconciler/replicaCount': minimum: got -1, want 0"),
        ("--set=log.format=yaml", "at '/log/format': value must be one of 'text', 'json'"),
        ("--set=aggregator.image.digest=latest", "at '/aggregator/image/digest': 'latest' does not match pattern"),
        ("--set=aggregator.image.pullPolicy=Sometimes", "at '/aggregator/image/pullPolicy': value must be one of"),
        ("--set=leaderElection.leaseDuration=15", "at '/leaderElection/leaseDuration': got number, want string"),
        ("--set=reconciler.tenantProviders={vault}", "at '/reconciler/tenantProviders/0': value must be one of"),
        ("--set=reconciler.terminationGracePeriodSeconds=5", "minimum: got 5, want 25"),
        ("--set=aggregator.preStopSeconds=9", "aggregator.terminationGracePeriodSeconds is 30, less than"),
        ("--set=reconciler.extraArgs={--grace-period=1m}", "--grace-period and 6 more, 69"),
        (
            "--set=reconciler.autoscaling.enabled=true,reconciler.autoscaling.minReplicas=11",
            "reconciler.autoscaling.minReplicas is 11, above maxReplicas, 10",
        ),
        ("--set=networkPolicy.extraEgress[0].port=80", "additional properties 'port' not allowed"),
        ("--set=serviceMonitor.enabled=true", "additional properties 'serviceMonitor' not allowed"),
        (
            "--set=reconciler.serviceAccount.create=false",
            "reconciler.serviceAccount.name is needed when none is created",
        ),
    ] {
        let error = template(&[value]).await.err().with_context(|| format!("{value} was accepted"))?;
        ensure!(error.to_string().contains(words), "{value}: {error}");
    }
    Ok(())
}

#[tokio::test]
async fn definitions_are_kept_unless_told_otherwise() -> Result<()> {
    for (args, wanted) in [(vec![], Some("keep")), (vec!["--set=crds.keep=false"], None)] {
        let objects = render(&args).await?;
        let crds = objects.iter().filter(|object| object.name_any().ends_with(".config.ratify.dev"));
        let policies: Vec<_> =
            crds.map(|crd| crd.annotations().get("helm.sh/resource-policy").map(String::as_str)).collect();
        ensure!(policies == [wanted; 3], "{args:?}: {policies:?}");
    }
    Ok(())
}

/// What is named in several places must be the same name, whatever the release is called.
#[tokio::test]
async fn a_release_of_another_name_finds_its_own_pods_lease_and_account() -> Result<()> {
    let text_ =
        run(Tool::Helm, None, &["template", "blue", CHART, "--namespace=policies", "--set=nameOverride=roll"]).await?;
    let objects = normalised(muster_lab::manifests::parse(&text_)?)?;
    let aggregator = &objects["Deployment blue-roll-aggregator"];
    let args = aggregator.pointer("/spec/template/spec/containers/0/args").context("no args")?;
    let selector = "--reconciler-selector=app.kubernetes.io/name=roll,app.kubernetes.io/component=reconciler";
    ensure!(*args == serde_json::json!([selector, "--lease-name=blue-roll-aggregator"]), "{args}");
    let labels = &objects["Deployment blue-roll-reconciler"]["spec"]["template"]["metadata"]["labels"];
    ensure!(labels["app.kubernetes.io/name"] == "roll" && labels["app.kubernetes.io/component"] == "reconciler");
    ensure!(objects["Role blue-roll-aggregator"].to_string().contains(r#""resourceNames":["blue-roll-aggregator"]"#));
    let condition =
        text(&objects["ValidatingAdmissionPolicy blue-roll-own-reports"], "/spec/matchConditions/0/expression");
    ensure!(condition.ends_with("'system:serviceaccount:policies:blue-roll-reconciler'"), "{condition}");
    Ok(())
}

#[tokio::test]
async fn notes_name_the_next_commands_and_warn_of_what_is_risky() -> Result<()> {
    let notes = async |args: &[&str]| {
        let install = ["install", "muster", CHART, "--namespace=muster-system", "--dry-run=client"];
        let text = run(Tool::Helm, None, &[&install[..], args].concat()).await?;
        text.split_once("NOTES:").map(|(_, notes)| notes.to_owned()).context("no notes")
    };
    let calm = notes(&[]).await?;
    ensure!(calm.contains("rollout status deployment/muster-reconciler") && !calm.contains("Warning"), "{calm}");
    for file in calm.split_whitespace().filter(|word| word.starts_with("deploy/")) {
        ensure!(repository().join(file).is_file(), "{file} is not there");
    }
    let risky = notes(&["--set=policy.enabled=false,crds.keep=false,reconciler.tenantProviders={files}"]).await?;
    ensure!(risky.matches("Warning").count() == 3, "{risky}");
    Ok(())
}
