//! The fold against an oracle that shares no code with it, from objects as the API server sends them.

mod oracle;

use anyhow::{Context, Result};
use muster_aggregator::facts::Report;
use muster_aggregator::fold::{BY_POD_BYTES_MAX, FoldInput, Health, Replica, fold};
use muster_aggregator::index::{Change, Index, Object, Source};
use muster_aggregator::observe::{self, Texts};
use muster_api::ExecutorKind;
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: &str = "2026-11-30T12:00:00Z";

fn executor(uid: &str, generation: i64) -> Value {
    json!({
        "apiVersion": "config.ratify.dev/v2alpha1", "kind": "Executor",
        "metadata": {"name": "base", "uid": uid, "resourceVersion": "1", "generation": generation},
        "spec": {"scopes": ["reg.io"], "verifiers": [{"name": "n", "type": "notation"}], "stores": [{"type": "registry-store"}]}
    })
}

fn pods() -> impl Strategy<Value = Vec<Value>> {
    let kind = prop::sample::select(vec![
        "Running",
        "Running",
        "Running",
        "Pending",
        "Failed",
        "Succeeded",
        "Terminating",
        "Unschedulable",
    ]);
    prop::collection::vec(kind, 0..12).prop_map(|kinds| {
        kinds
            .into_iter()
            .enumerate()
            .map(|(index, kind)| {
                let mut pod = json!({
                    "metadata": {"name": format!("muster-{}", index * 7 % 12), "uid": format!("pod-{index}")},
                    "status": {"phase": kind}
                });
                match kind {
                    "Terminating" => {
                        pod["metadata"]["deletionTimestamp"] = json!(NOW);
                        pod["status"]["phase"] = json!("Running");
                    }
                    "Unschedulable" => {
                        pod["status"] = json!({"phase": "Pending", "conditions": [
                            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                        ]});
                    }
                    _ => {}
                }
                pod
            })
            .collect()
    })
}

fn reports() -> impl Strategy<Value = Vec<Value>> {
    let verdict = prop::sample::select(vec![
        ("Built", "Wanted", ""),
        ("Built", "Wanted", ""),
        ("RefreshFailed", "LastGood", "kv: no answer"),
        ("InvalidSpec", "Nothing", "spec.scopes[0] is empty"),
        ("AuthFailed", "Older", "kv: 403"),
        ("TrustExpired", "Nothing", "every certificate has expired"),
        ("OfTomorrow", "Half", "of tomorrow"),
    ]);
    let expiry =
        prop::sample::select(vec![None, None, Some("2026-11-30T11:59:59Z"), Some(NOW), Some("2027-01-01T00:00:00Z")]);
    let uid = prop::sample::select(vec!["exec", "exec", "exec", "older"]);
    let report = (verdict, 1..4i64, expiry, uid, prop::collection::vec(0..12u8, 0..4), 0..8u8);
    // At most one report for each pod, as replicas write them; some of pods that are gone.
    prop::collection::btree_map(0..16usize, report, 0..16).prop_map(|reports| {
        reports
            .into_iter()
            .map(|(pod, ((reason, serves, error), generation, expires, uid, warnings, empty))| {
                let status = json!({
                    "observedGeneration": generation, "succeeded": serves == "Wanted" || serves == "LastGood",
                    "serves": serves, "reason": reason, "error": error, "briefError": error,
                    "lastTransitionTime": NOW, "trustExpiresAt": expires,
                    "warnings": warnings.iter().map(|number| format!("warning {number:02}")).collect::<Vec<_>>()
                });
                json!({
                    "apiVersion": "config.ratify.dev/v2alpha1", "kind": "ExecutorPodStatus",
                    "metadata": {
                        "name": format!("base-{pod}"), "uid": format!("report-{pod}"), "resourceVersion": "1",
                        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": format!("pod-{pod}")}]
                    },
                    "spec": {
                        "executor": {"kind": "Executor", "namespace": "", "name": "base", "uid": uid},
                        "pod": {"name": "x", "uid": format!("pod-{pod}")}
                    },
                    "status": if empty == 0 { Value::Null } else { status }
                })
            })
            .collect()
    })
}

/// What the aggregator makes of the same objects: through observing, indexing and folding.
fn folded(executor: &Value, reports: &[Value], pods: &[Value]) -> Result<Value> {
    let mut index = Index::default();
    let (kind, mut texts) = (Source::Executors(ExecutorKind::Executor), Texts::default());
    let decoded: muster_api::Executor = serde_json::from_value(executor.clone())?;
    index.change(kind, Change::Applied(Object::Executor(observe::executor(&decoded).context("no executor")?)));
    for pod in pods {
        let pod = observe::pod(&serde_json::from_value(pod.clone())?).context("no pod")?;
        index.change(Source::Pods, Change::Applied(Object::Pod(pod)));
    }
    for report in reports {
        let report = observe::report(&serde_json::from_value(report.clone())?, &mut texts).context("no report")?;
        index.change(Source::Reports, Change::Applied(Object::Report(report)));
    }
    let executor = decoded.metadata.uid.as_deref().and_then(|uid| index.executor(uid)).context("not indexed")?;
    let replicas: Vec<Replica<'_>> = index.pods().map(|pod| Replica { pod, health: Health::Serving }).collect();
    let reports: Vec<&Report> = index.reports(&executor.uid).collect();
    let folded = fold(&FoldInput {
        executor_uid: &executor.uid,
        generation: executor.generation,
        replicas: &replicas,
        reports: &reports,
        previous: None,
        now: NOW.parse()?,
        by_pod_max_bytes: BY_POD_BYTES_MAX,
    });
    Ok(serde_json::to_value(&*folded.status)?)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_fold_agrees_with_the_oracle(generation in 1..4i64, pods in pods(), reports in reports()) {
        let executor = executor("exec", generation);
        let expected = oracle::expected_status(&executor, &reports, &pods, NOW);
        let seen = oracle::seen_status(&folded(&executor, &reports, &pods).unwrap());
        prop_assert_eq!(oracle::check(expected, seen), Ok(()));
    }
}

/// A test of the oracle itself: it tells right from wrong.
#[test]
fn the_oracle_notices_a_wrong_status() {
    let executor = executor("exec", 2);
    let pod = json!({"metadata": {"name": "a", "uid": "pod-a"}, "status": {"phase": "Running"}});
    let expected = oracle::expected_status(&executor, &[], std::slice::from_ref(&pod), NOW);
    let right = folded(&executor, &[], &[pod]).unwrap();
    assert_eq!(oracle::check(expected.clone(), oracle::seen_status(&right)), Ok(()));
    for (pointer, value) in [
        ("/succeeded", json!(true)),
        ("/byPod/0/state", json!("Current")),
        ("/byPod", json!([])),
        ("/replicas/expected", json!(2)),
        ("/conditions/0/status", json!("True")),
    ] {
        let mut wrong = right.clone();
        *wrong.pointer_mut(pointer).unwrap() = value;
        assert!(oracle::check(expected.clone(), oracle::seen_status(&wrong)).is_err(), "{pointer}");
    }
}
