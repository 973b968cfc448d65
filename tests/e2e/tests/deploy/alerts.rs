//! The alert rules and the dashboard: they fire and are silent when they should, lead to a runbook that exists, and use
//! metrics that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use muster_lab::tools::{repository, run};
use muster_toolbox::Tool;
use serde_json::Value;

use crate::tools::text;

const FOLDER: &str = "deploy/kustomize/components/monitoring";
/// Cases for promtool, beside this file.
const CASES: &str = "tests/e2e/tests/deploy/alerts.test.yaml";
/// Metrics of others: the scrape itself, kube-state-metrics, and the kubelet's container metrics.
const FOREIGN: [&str; 3] = [
    "kube_pod_container_status_restarts_total",
    "container_memory_working_set_bytes",
    "container_cpu_usage_seconds_total",
];

fn yaml(path: &str) -> Result<Value> {
    let text = fs::read_to_string(repository().join(path)).with_context(|| path.to_owned())?;
    serde_saphyr::from_str(&text).with_context(|| path.to_owned())
}

fn rules() -> Result<Vec<Value>> {
    let rule = yaml(&format!("{FOLDER}/prometheus-rule.yaml"))?;
    rule["spec"]["groups"][0]["rules"].as_array().cloned().context("no rules")
}

fn panels() -> Result<Vec<Value>> {
    let dashboard = fs::read_to_string(repository().join(FOLDER).join("muster.json"))?;
    let dashboard: Value = serde_json::from_str(&dashboard)?;
    let panels = dashboard["panels"].as_array().cloned().context("no panels")?;
    Ok(panels.into_iter().filter(|panel| panel["type"] != "row").collect())
}

/// Names in an expression that look like metrics: a word with an underscore that is neither a label nor a function.
fn metrics(expression: &str) -> BTreeSet<String> {
    let quoted = expression.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
    let words = quoted.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let prefixes = ["muster_", "kube_", "container_"];
    words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix))).map(str::to_owned).collect()
}

/// A metric as the documentation has it.
#[derive(Debug)]
pub(crate) struct Documented {
    pub(crate) kind: String,
    pub(crate) labels: BTreeSet<String>,
}

/// What the documentation of metrics lists; it is generated from the catalogue of the code.
pub(crate) fn documented() -> Result<BTreeMap<String, Documented>> {
    let page = fs::read_to_string(repository().join("docs/metrics.md"))?;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let named = rows.filter_map(|row| {
        let (name, rest) = row.split_once("` | ")?;
        let cells: Vec<_> = rest.split(" | ").collect();
        let labels = cells.get(2)?.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        Some((name.to_owned(), Documented { kind: cells[0].to_owned(), labels }))
    });
    Ok(named.collect())
}

/// What the alerts and the dashboard ask.
pub(crate) fn expressions() -> Result<Vec<String>> {
    let rules = rules()?.into_iter().map(|rule| text(&rule, "/expr").to_owned());
    let targets = panels()?.into_iter().flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    Ok(rules.chain(targets.map(|target| text(&target, "/expr").to_owned())).collect())
}

fn exists(metric: &str, documented: &BTreeMap<String, Documented>) -> bool {
    let of_histogram = ["_bucket", "_sum", "_count"].iter().filter_map(|suffix| metric.strip_suffix(suffix));
    FOREIGN.contains(&metric)
        || documented.contains_key(metric)
        || of_histogram.into_iter().any(|name| documented.get(name).is_some_and(|is| is.kind == "histogram"))
}

/// Anchors of a page, as they are made from its headings.
fn anchors(path: &str) -> Result<BTreeSet<String>> {
    let page = fs::read_to_string(repository().join(path)).with_context(|| path.to_owned())?;
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    Ok(headings.map(|heading| heading.to_lowercase().replace(' ', "-")).collect())
}

#[tokio::test]
async fn each_alert_fires_when_it_should_and_is_silent_otherwise() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let spec = yaml(&format!("{FOLDER}/prometheus-rule.yaml"))?["spec"].clone();
    let rules_file = dir.path().join("rules.yaml");
    fs::write(&rules_file, spec.to_string())?;
    let cases = dir.path().join("cases.yaml");
    fs::copy(repository().join(CASES), &cases)?;
    run(Tool::Promtool, None, &["check", "rules", "--lint=all", "--lint-fatal", &rules_file.to_string_lossy()]).await?;
    run(Tool::Promtool, None, &["test", "rules", &cases.to_string_lossy()]).await?;
    Ok(())
}

#[test]
fn each_alert_has_a_case_that_fires_at_each_severity_and_one_that_is_silent() -> Result<()> {
    let cases = yaml(CASES)?;
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for test in cases["tests"]
        .as_array()
        .context("no cases")?
        .iter()
        .filter_map(|case| case["promql_expr_test"].as_array())
        .flatten()
    {
        let alert = text(test, "/expr").split('"').nth(1).context("no alert")?.to_owned();
        let samples = test["exp_samples"].as_array().context("no samples")?;
        if samples.is_empty() {
            silent.insert(alert.clone());
        }
        for sample in samples {
            let severity = text(sample, "/labels").split("severity=\"").nth(1).and_then(|rest| rest.split('"').next());
            fires.insert((alert.clone(), severity.unwrap_or_default().to_owned()));
        }
    }
    let rules = rules()?;
    for rule in &rules {
        let (alert, severity) = (text(rule, "/alert").to_owned(), text(rule, "/labels/severity").to_owned());
        ensure!(silent.contains(&alert), "{alert}: no silent case");
        ensure!(fires.contains(&(alert.clone(), severity.clone())), "{alert}: no case that fires as {severity}");
    }
    ensure!(rules.len() >= 18, "{} rules", rules.len());
    Ok(())
}

#[test]
fn each_alert_says_what_to_do_and_its_runbook_is_there() -> Result<()> {
    let anchors = anchors("docs/alerts.md")?;
    for rule in rules()? {
        let alert = text(&rule, "/alert");
        let url = text(&rule, "/annotations/runbook_url");
        let anchor = url.strip_prefix("https://github.com/muster/muster/blob/main/docs/alerts.md#");
        ensure!(anchor.is_some_and(|anchor| anchors.contains(anchor)), "{alert}: {url}");
        ensure!(!text(&rule, "/annotations/summary").is_empty() && text(&rule, "/annotations/description").len() > 40);
        ensure!(["critical", "warning", "info"].contains(&text(&rule, "/labels/severity")), "{alert}");
    }
    Ok(())
}

#[test]
fn alerts_and_panels_use_metrics_that_exist() -> Result<()> {
    for panel in panels()? {
        ensure!(!metrics(text(&panel, "/targets/0/expr")).is_empty(), "{panel}");
        ensure!(text(&panel, "/description").len() > 10, "{panel}");
    }
    let documented = documented()?;
    let used: BTreeSet<_> = expressions()?.iter().flat_map(|expression| metrics(expression)).collect();
    let absent: Vec<_> = used.iter().filter(|metric| !exists(metric, &documented)).collect();
    ensure!(absent.is_empty(), "not in the catalogue: {absent:?}");
    ensure!(used.len() > 25, "{} metrics", used.len());
    Ok(())
}

#[test]
fn a_metric_that_does_not_exist_is_noticed() -> Result<()> {
    let documented = documented()?;
    let used = metrics("sum by (muster) (rate(muster_builds_totals{reason=\"muster_x\"}[5m])) > muster_live");
    assert_eq!(used, ["muster_builds_totals", "muster_live"].map(str::to_owned).into());
    assert!(!exists("muster_builds_totals", &documented) && exists("muster_live", &documented));
    assert!(exists("muster_reconcile_time_seconds_bucket", &documented) && !exists("muster_live_bucket", &documented));
    Ok(())
}
