//! What a live scrape of both programs holds: nothing that the documentation does not list, and all that the alerts and the
//! dashboard ask for, with the labels they ask by.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use muster_api::{Reason, Serves};
use muster_lab::installation::{AGGREGATOR, rolled_out};
use muster_lab::{admin, wait};
use muster_upstream::{Limit, RetryAfter};

use crate::alerts::{Documented, documented, expressions};
use crate::behind::Behind;
use crate::stage::spec;

/// Labels that belong to the format, not to the metric.
const OF_THE_FORMAT: [&str; 2] = ["le", "quantile"];
/// Labels that a scrape adds.
const OF_THE_TARGET: [&str; 4] = ["job", "namespace", "pod", "instance"];

/// Names of the labels of each series name, and its type.
type Families = BTreeMap<String, BTreeSet<String>>;

#[tokio::test]
async fn a_live_scrape_holds_what_alerts_and_dashboard_ask_for_and_nothing_undocumented() -> Result<()> {
    let retry_after = RetryAfter::Raw(vec!["3600".into()]);
    let limit = Limit::Bucket { rate: 0.000_1, burst: 1.0, charged: false, retry_after };
    let behind = Behind::start(1, limit, &[]).await?;
    let stage = &behind.stage;
    stage.installation.scale(AGGREGATOR, 1).await?;
    rolled_out(&stage.client, AGGREGATOR).await?;

    // One that is served, one that waits at the gate, one that is wrong, and one that is tried again and again.
    let served = stage.create("served", behind.spec("served.example.com")).await?;
    stage.reported(&served, |report| report.serves == Serves::Wanted).await?;
    let waits = stage.create("waits", behind.spec("waits.example.com")).await?;
    stage.reported(&waits, |report| report.reason == Reason::RateLimited).await?;
    let wrong = stage.create("wrong", spec("not a scope")).await?;
    stage.reported(&wrong, |report| report.reason == Reason::InvalidSpec).await?;
    let mut nowhere = behind.spec("nowhere.example.com");
    nowhere["verifiers"][0]["parameters"]["certificates"][0]["ferrvault"]["url"] = "http://127.0.0.1:9".into();
    let nowhere = stage.create("nowhere", nowhere).await?;
    stage.reported(&nowhere, |report| report.reason == Reason::Unreachable).await?;

    let (documented, asked) = (documented()?, asked()?);
    wait::until("the scrapes to hold all that is asked for", || async {
        let mut scraped = Families::new();
        for pod in stage.pods().iter().chain(&stage.installation.aggregators()) {
            for (name, labels) in scrape(&admin::get(pod, "/metrics").await?, &documented)? {
                scraped.entry(name).or_default().extend(labels);
            }
        }
        for (name, labels) in &asked {
            let has = scraped.get(name).with_context(|| format!("{name} is in no scrape"))?;
            let missing: Vec<_> = labels.iter().filter(|label| !OF_THE_TARGET.contains(&label.as_str())).collect();
            ensure!(missing.iter().all(|label| has.contains(*label)), "{name} has {has:?}, not all of {missing:?}");
        }
        anyhow::Ok(())
    })
    .await?;
    behind.stage.stop().await;
    Ok(())
}

/// The series of our own in a scrape; an error if one is not as documented.
fn scrape(text: &str, documented: &BTreeMap<String, Documented>) -> Result<Families> {
    let mut families = Families::new();
    let types: BTreeMap<_, _> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    for line in text.lines().filter(|line| line.starts_with("muster_")) {
        let (series, labels) = series(line);
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| series.strip_suffix(suffix).filter(|family| types.contains_key(family)))
            .unwrap_or(series);
        let is = documented.get(family).with_context(|| format!("{family} is not documented"))?;
        let kind = *types.get(family).with_context(|| format!("{family} has no type"))?;
        ensure!(kind == is.kind, "{family} is a {kind}, documented as a {}", is.kind);
        let own: BTreeSet<_> =
            labels.iter().filter(|label| !OF_THE_FORMAT.contains(&label.as_str())).cloned().collect();
        ensure!(own == is.labels, "{family} has labels {own:?}, documented {:?}", is.labels);
        families.entry(series.to_owned()).or_default().extend(labels);
    }
    Ok(families)
}

/// Series that the alerts and the dashboard name, and the labels by which they choose among them.
fn asked() -> Result<Families> {
    let mut asked = Families::new();
    for expression in expressions()? {
        for (start, _) in expression.match_indices("muster_") {
            let (name, labels) = series(&expression[start..]);
            asked.entry(name.to_owned()).or_default().extend(labels);
        }
    }
    ensure!(asked.len() > 20, "{asked:?}");
    Ok(asked)
}

/// The name at the beginning of `text`, and the names of the labels in the braces that follow it.
fn series(text: &str) -> (&str, BTreeSet<String>) {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let mut labels = BTreeSet::new();
    if let Some(inner) = rest.strip_prefix('{') {
        // Outside quotes: label, operator, comma, and at last the brace.
        for outside in inner.split('"').step_by(2) {
            let (label, over) = outside.split_once('}').map_or((outside, false), |(before, _)| (before, true));
            let label = label.trim_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            labels.extend((!label.is_empty()).then(|| label.to_owned()));
            if over {
                break;
            }
        }
    }
    (name, labels)
}

#[test]
fn a_series_is_read_with_its_labels_and_no_others() {
    let labels = |text| series(text).1.into_iter().collect::<Vec<_>>();
    assert_eq!(series("muster_live 1"), ("muster_live", BTreeSet::new()));
    assert_eq!(labels(r#"muster_x_total{reason!~"a|b}",le="+Inf"} 3"#), ["le", "reason"]);
    assert_eq!(labels(r#"muster_x) / on (pod) muster_y{job="z"}"#), [""; 0]);
}

#[test]
fn a_scrape_that_is_not_as_documented_is_noticed() -> Result<()> {
    let documented = documented()?;
    let good = "# TYPE muster_builds_total counter\nmuster_builds_total{kind=\"Executor\",reason=\"Built\"} 1\n";
    assert!(scrape(good, &documented).is_ok());
    for (from, to) in [("muster_builds", "muster_built"), ("counter", "gauge"), ("kind=", "pod=")] {
        assert!(scrape(&good.replace(from, to), &documented).is_err(), "{from} as {to}");
    }
    Ok(())
}
