//! The fold as data: `cases.yaml` holds what is given and what has to come out.

use std::sync::Arc;

use muster_api::{ExecutorStatus, Reason, Serves};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::facts::{Life, Outcome, Version};

/// One case: `expect` is a part of the status. Objects are compared key by key, lists whole.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    given: Given,
    expect: Value,
    #[serde(default)]
    flags: Flags,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(default = "one")]
    generation: i64,
    #[serde(default)]
    pods: Vec<GivenPod>,
    #[serde(default)]
    reports: Vec<GivenReport>,
    #[serde(default)]
    previous: Option<ExecutorStatus>,
    #[serde(default = "noon")]
    now: Timestamp,
    #[serde(default = "by_pod_bytes")]
    by_pod_bytes: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenPod {
    name: String,
    /// The UID is `<name>-uid` unless another one is given.
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    life: GivenLife,
    #[serde(default)]
    health: GivenHealth,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum GivenLife {
    #[default]
    Expected,
    Unschedulable,
    Over,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum GivenHealth {
    #[default]
    Serving,
    NotServing,
    Silent,
    NoPort,
    Doubtful,
    Unheard,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenReport {
    pod: String,
    #[serde(default)]
    pod_uid: Option<String>,
    #[serde(default = "exec")]
    executor_uid: String,
    #[serde(default = "one")]
    generation: i64,
    #[serde(default)]
    error: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    serves: Option<String>,
    #[serde(default)]
    expires: Option<Timestamp>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    foreign: bool,
    /// An object without a status.
    #[serde(default)]
    empty: bool,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flags {
    settled: Option<bool>,
    permanent_failure: Option<bool>,
    ahead: Option<bool>,
    look_again: Option<Timestamp>,
}

fn one() -> i64 {
    1
}

fn exec() -> String {
    "exec".to_owned()
}

fn noon() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

fn by_pod_bytes() -> usize {
    BY_POD_BYTES
}

impl GivenPod {
    fn pod(&self) -> Pod {
        Pod {
            name: self.name.as_str().into(),
            uid: self.uid.clone().unwrap_or_else(|| format!("{}-uid", self.name)).into(),
            life: match self.life {
                GivenLife::Expected => Life::Expected,
                GivenLife::Unschedulable => Life::Unschedulable,
                GivenLife::Over => Life::Over,
            },
            ip: None,
            health_port: Some(8086),
        }
    }

    fn health(&self) -> Health {
        match self.health {
            GivenHealth::Serving => Health::Serving,
            GivenHealth::NotServing => Health::NotServing,
            GivenHealth::Silent => Health::Silent,
            GivenHealth::NoPort => Health::NoPort,
            GivenHealth::Doubtful => Health::Doubtful,
            GivenHealth::Unheard => Health::Unheard,
        }
    }
}

impl GivenReport {
    fn report(&self, index: usize) -> Report {
        let failed = !self.error.is_empty() && self.reason.as_deref() != Some("RefreshFailed");
        let reason = self.reason.as_deref().unwrap_or(if failed { "Unreachable" } else { "Built" });
        let serves = self.serves.as_deref().unwrap_or(if failed { "Nothing" } else { "Wanted" });
        Report {
            name: format!("report-{index}").into(),
            uid: format!("report-{index}-uid").into(),
            version: Version::new("1"),
            executor: crate::facts::named("base"),
            executor_uid: self.executor_uid.as_str().into(),
            pod_name: self.pod.as_str().into(),
            pod_uid: self.pod_uid.clone().unwrap_or_else(|| format!("{}-uid", self.pod)).into(),
            owner: if self.foreign { Owner::Foreign } else { Owner::ItsPod },
            outcome: (!self.empty).then(|| Outcome {
                generation: self.generation,
                succeeded: !failed,
                serves: Serves::from(serves),
                reason: Reason::from(reason),
                error: self.error.as_str().into(),
                trust_expires_at: self.expires,
                warnings: self.warnings.iter().map(|warning| Arc::from(warning.as_str())).collect(),
            }),
        }
    }
}

/// Folds what is given.
fn folded(given: &Given) -> Folded {
    let pods: Vec<(Pod, Health)> = given.pods.iter().map(|pod| (pod.pod(), pod.health())).collect();
    let replicas: Vec<Replica<'_>> = pods.iter().map(|(pod, health)| Replica { pod, health: *health }).collect();
    let reports: Vec<Report> = given.reports.iter().enumerate().map(|(index, report)| report.report(index)).collect();
    fold(&FoldInput {
        executor_uid: "exec",
        generation: given.generation,
        replicas: &replicas,
        reports: &reports.iter().collect::<Vec<_>>(),
        previous: given.previous.as_ref(),
        now: given.now,
        by_pod_max_bytes: given.by_pod_bytes,
    })
}

/// Where `expected` is not a part of `actual`.
fn differences(path: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (key, value) in expected {
                differences(&format!("{path}.{key}"), value, actual.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                differences(&format!("{path}[{index}]"), expected, actual, found);
            }
        }
        _ if expected == actual => {}
        _ => found.push(format!("{path}: expected {expected}, got {actual}")),
    }
}

fn check(case: &Case) -> Vec<String> {
    let folded = folded(&case.given);
    let mut found = Vec::new();
    differences("status", &case.expect, &serde_json::to_value(&*folded.status).unwrap(), &mut found);
    let mut flag = |name: &str, expected: Option<bool>, actual: bool| {
        if expected.is_some_and(|expected| expected != actual) {
            found.push(format!("{name}: got {actual}"));
        }
    };
    flag("settled", case.flags.settled, folded.settled);
    flag("permanent_failure", case.flags.permanent_failure, folded.permanent_failure);
    flag("ahead", case.flags.ahead, folded.ahead);
    if case.flags.look_again.is_some() && case.flags.look_again != folded.look_again {
        found.push(format!("look_again: got {:?}", folded.look_again));
    }
    found
}

#[test]
fn cases() {
    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("cases.yaml")).unwrap();
    assert!(cases.len() > 20);
    let failed: Vec<String> = cases
        .iter()
        .flat_map(|case| check(case).into_iter().map(|difference| format!("{}: {difference}", case.name)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The whole shape once, as it goes over the wire.
#[test]
fn the_whole_status_of_three_replicas() {
    let given: Given = serde_saphyr::from_str(
        "
generation: 7
pods: [{name: m-b}, {name: m-a}, {name: m-c, health: Silent}]
reports:
  - {pod: m-a, generation: 7, expires: 2027-02-14T00:00:00Z, warnings: [unknown parameter x]}
  - {pod: m-b, generation: 6, serves: Wanted}
  - {pod: m-c, generation: 7, error: 'certificate \"r\" at kv: 403', reason: AuthFailed}
",
    )
    .unwrap();
    insta::assert_yaml_snapshot!(*folded(&given).status);
}

fn given() -> impl Strategy<Value = Given> {
    let words = prop::sample::select(vec![
        "",
        "",
        "",
        "403",
        "no answer",
        "a longer text \"quoted\" with ünïcödé and a \\ in it",
    ]);
    let life = prop::sample::select(vec![
        GivenLife::Expected,
        GivenLife::Expected,
        GivenLife::Expected,
        GivenLife::Unschedulable,
        GivenLife::Over,
    ]);
    let health = prop::sample::select(vec![
        GivenHealth::Serving,
        GivenHealth::Serving,
        GivenHealth::NotServing,
        GivenHealth::Silent,
        GivenHealth::NoPort,
        GivenHealth::Doubtful,
        GivenHealth::Unheard,
    ]);
    let reasons = prop::sample::select(vec!["Built", "InvalidSpec", "AuthFailed", "RateLimited", "Of Tomorrow"]);
    let pods = prop::collection::btree_map(0..40u8, (life, health), 0..30);
    let report =
        (0..50u8, 1..4i64, words, reasons, any::<bool>(), prop::sample::select(vec!["exec", "exec", "exec", "older"]));
    (pods, prop::collection::vec(report, 0..40), 1..4i64, 100..20_000usize).prop_map(
        |(pods, reports, generation, bytes)| Given {
            generation,
            pods: pods
                .into_iter()
                .map(|(name, (life, health))| GivenPod { name: format!("pod-{name}"), uid: None, life, health })
                .collect(),
            reports: reports
                .into_iter()
                .map(|(pod, generation, error, reason, empty, executor_uid)| GivenReport {
                    pod: format!("pod-{pod}"),
                    pod_uid: None,
                    executor_uid: executor_uid.to_owned(),
                    generation,
                    error: error.repeat(usize::from(pod) % 40),
                    reason: Some(reason.to_owned()),
                    serves: None,
                    expires: None,
                    warnings: vec![format!("warning {}", pod % 10)],
                    foreign: pod % 7 == 0,
                    empty,
                })
                .collect(),
            previous: None,
            now: noon(),
            by_pod_bytes: bytes,
        },
    )
}

proptest! {
    /// C12: the fold of its own result, whenever that is, changes nothing, so nothing is written.
    #[test]
    fn c12_folding_again_changes_nothing(given in given(), later in 0..100_000i64) {
        let first = folded(&given).status;
        // As the API server hands it back.
        let read: ExecutorStatus = serde_json::from_value(serde_json::to_value(&*first).unwrap()).unwrap();
        let now = Timestamp::from_second(noon().as_second() + later).unwrap();
        let again = folded(&Given { previous: Some(read), now, ..given });
        prop_assert_eq!(first, again.status);
    }

    #[test]
    fn order_does_not_matter(mut given in given(), seed in any::<u64>()) {
        let first = folded(&given);
        let rotate = |len: usize| if len == 0 { 0 } else { usize::try_from(seed).unwrap_or(7) % len };
        // Report names are given by position, so they have to move with their reports: take them out of the game.
        let mut seen = std::collections::BTreeSet::new();
        given.reports.retain(|report| seen.insert((report.pod.clone(), report.executor_uid.clone())));
        let unique = folded(&given);
        let (pods, reports) = (rotate(given.pods.len()), rotate(given.reports.len()));
        given.pods.rotate_left(pods);
        given.reports.rotate_left(reports);
        given.pods.reverse();
        prop_assert_eq!(&unique, &folded(&given));
        let expected = |folded: &Folded| folded.status.replicas.as_ref().unwrap().expected;
        prop_assert_eq!(expected(&first), expected(&unique));
    }

    /// C65: `byPod` keeps to its bytes, nothing is lost from the counts, and what is listed is unique and in order.
    #[test]
    fn c65_bytes_bounded_and_counts_exact(given in given()) {
        let status = folded(&given).status;
        prop_assert!(serde_json::to_vec(&status.by_pod).unwrap().len() <= given.by_pod_bytes);
        let omitted = status.by_pod_omitted.clone().unwrap_or_default();
        prop_assert_eq!(omitted.by_state.values().sum::<u32>(), omitted.count);
        let expected = given.pods.iter().filter(|pod| !matches!(pod.life, GivenLife::Over)).count();
        let replicas = status.replicas.clone().unwrap();
        prop_assert_eq!(status.by_pod.len() + omitted.count as usize, expected);
        prop_assert_eq!(replicas.expected as usize, expected);
        let keys: Vec<_> = status.by_pod.iter().map(|entry| (entry.state == muster_api::State::Current && entry.succeeded, &entry.id)).collect();
        prop_assert!(keys.is_sorted());
        let ids: std::collections::BTreeSet<_> = status.by_pod.iter().map(|entry| &entry.pod_uid).collect();
        prop_assert_eq!(ids.len(), status.by_pod.len());
    }

    /// What the schema bounds by characters is bounded by bytes here, and is one line.
    #[test]
    fn texts_are_bounded(given in given()) {
        let status = folded(&given).status;
        prop_assert!(status.error.len() <= 1_024 && status.brief_error.len() <= 120);
        prop_assert!(status.error.starts_with(status.brief_error.trim_end_matches("...")));
        for entry in &status.by_pod {
            prop_assert!(entry.error.len() <= 1_024 && entry.brief_error.len() <= 120);
        }
        for condition in &status.conditions {
            prop_assert!(!condition.reason.contains(' ') && !condition.reason.is_empty(), "{}", condition.reason);
            prop_assert!(condition.message.len() <= 1_024);
        }
        prop_assert!(status.warnings.len() <= 8);
    }
}
