//! What is kept of objects as the API server sends them.

use muster_api::{Reason, Serves};
use serde_json::json;

use super::*;

fn given_pod(extra: &serde_json::Value) -> Pod {
    let mut object = json!({
        "metadata": {"name": "a", "uid": "a-uid"},
        "spec": {"containers": [
            {"name": "proxy", "ports": [{"containerPort": 1}]},
            {"name": "reconciler", "ports": [{"name": "admin", "containerPort": 8080}, {"name": "health", "containerPort": 8086}]}
        ]},
        "status": {"phase": "Running", "podIP": "fd00::7"}
    });
    for (key, value) in extra.as_object().unwrap() {
        object[key].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
    }
    pod(&serde_json::from_value(object).unwrap()).unwrap()
}

#[test]
fn c08_a_pod_is_expected_unless_it_ends_or_has_ended() {
    let life = |extra| given_pod(&extra).life;
    assert_eq!(life(json!({})), Life::Expected);
    assert_eq!(life(json!({"status": {"phase": "Pending"}})), Life::Expected);
    assert_eq!(life(json!({"status": {"phase": "Unknown"}})), Life::Expected);
    assert_eq!(life(json!({"metadata": {"deletionTimestamp": "2026-11-30T12:00:00Z"}})), Life::Over);
    assert_eq!(life(json!({"status": {"phase": "Failed", "reason": "Evicted"}})), Life::Over);
    assert_eq!(life(json!({"status": {"phase": "Succeeded"}})), Life::Over);
    let unschedulable = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    assert_eq!(life(json!({"status": {"phase": "Pending", "conditions": [unschedulable]}})), Life::Unschedulable);
    let gated = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"});
    assert_eq!(life(json!({"status": {"phase": "Pending", "conditions": [gated]}})), Life::Expected);
}

#[test]
fn the_health_port_is_found_by_its_name_and_ipv6_is_an_address() {
    let pod = given_pod(&json!({}));
    assert_eq!((pod.health_port, pod.ip), (Some(8086), Some("fd00::7".parse().unwrap())));
    let without = given_pod(&json!({"spec": {"containers": [{"name": "reconciler"}]}, "status": {"podIP": ""}}));
    assert_eq!((without.health_port, without.ip), (None, None));
}

fn given_report(owners: &serde_json::Value, status: &serde_json::Value) -> Report {
    let object = json!({
        "apiVersion": "config.ratify.dev/v2alpha1",
        "kind": "ExecutorPodStatus",
        "metadata": {"name": "base-a", "uid": "r", "resourceVersion": "7", "ownerReferences": owners},
        "spec": {
            "executor": {"kind": "Executor", "namespace": "", "name": "base", "uid": "e"},
            "pod": {"name": "a", "uid": "a-uid"}
        },
        "status": status
    });
    report(&serde_json::from_value(object).unwrap(), &mut Texts::default()).unwrap()
}

fn owner(kind: &str, uid: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": kind, "name": "a", "uid": uid})
}

#[test]
fn a_report_belongs_to_its_pod_alone() {
    let owned = |owners| given_report(&owners, &json!(null)).owner;
    assert_eq!(owned(json!([owner("Pod", "a-uid")])), Owner::ItsPod);
    assert_eq!(owned(json!([])), Owner::Nobody);
    assert_eq!(owned(json!([owner("Pod", "b-uid")])), Owner::Foreign);
    assert_eq!(owned(json!([owner("Executor", "a-uid")])), Owner::Foreign);
    assert_eq!(owned(json!([owner("Pod", "a-uid"), owner("Executor", "e")])), Owner::Foreign);
}

#[test]
fn texts_of_a_report_are_one_line_bounded_in_bytes_and_words_of_tomorrow_are_kept() {
    let status = json!({
        "observedGeneration": 3, "succeeded": false, "serves": "Half", "reason": "OfTomorrow",
        "error": format!("first\nsecond \u{1b}[31m {}", "ä".repeat(2_000)),
        "briefError": "", "lastTransitionTime": "2026-11-30T12:00:00Z", "trustExpiresAt": "2026-12-01T00:00:00.75Z",
        "warnings": ["a\tb"]
    });
    let outcome = given_report(&json!([]), &status).outcome.unwrap();
    assert!(outcome.error.starts_with("first second \\u{1b}[31m ä") && outcome.error.len() <= 1_024);
    assert_eq!((outcome.serves, outcome.reason), (Serves::from("Half"), Reason::from("OfTomorrow")));
    assert_eq!(outcome.trust_expires_at, Some("2026-12-01T00:00:00Z".parse().unwrap()));
    assert_eq!(&*outcome.warnings[0], "a b");
}

#[test]
fn equal_texts_are_held_once_and_dropped_when_nobody_holds_them() {
    let mut texts = Texts::default();
    let (a, b) = (texts.share("the same"), texts.share("the same"));
    assert!(Arc::ptr_eq(&a, &b));
    for number in 0..10_000 {
        texts.share(&number.to_string());
    }
    assert!(texts.held.len() < 3_000, "{}", texts.held.len());
    assert!(Arc::ptr_eq(&a, &texts.share("the same")));
}
