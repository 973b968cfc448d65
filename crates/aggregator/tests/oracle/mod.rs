//! What the status of an executor has to say, worked out from the objects in the API server in the most obvious way: for
//! each pod, look for its report, again and again, with no index and no order but sorting at the end. It shares no code
//! with the fold, works on plain JSON, and leaves out times and sentences.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// `executor`, all ExecutorPodStatus objects and all reconciler pods, as the API server holds them; `now` in RFC 3339,
/// UTC. Replicas are taken to answer their health port. All of `byPod` is expected, as if it had no bound.
pub fn expected_status(executor: &Value, reports: &[Value], pods: &[Value], now: &str) -> Value {
    let generation = executor["metadata"]["generation"].as_i64();
    let uid = &executor["metadata"]["uid"];
    let mut failing = BTreeMap::new();
    let mut healthy = BTreeMap::new();
    let (mut reporting, mut current, mut settled_warnings) = (0, 0, Vec::new());
    let (mut expired, mut earliest): (bool, Option<String>) = (false, None);
    let mut reasons = Vec::new();
    for pod in pods {
        if is_over(pod) {
            continue;
        }
        let id = text(&pod["metadata"]["name"]);
        let pod_uid = &pod["metadata"]["uid"];
        let mine = reports.iter().find(|report| {
            report["spec"]["executor"]["uid"] == *uid
                && report["spec"]["pod"]["uid"] == *pod_uid
                && !report["status"].is_null()
        });
        let Some(report) = mine.map(|report| &report["status"]) else {
            let reason = if is_unschedulable(pod) { "Unscheduled" } else { "NotReported" };
            reasons.push(reason.to_owned());
            failing.insert(
                id.clone(),
                json!({"id": id, "podUID": pod_uid, "observedGeneration": 0, "succeeded": false,
                       "state": "Pending", "reason": reason, "serves": "Unknown"}),
            );
            continue;
        };
        reporting += 1;
        if let Some(at) = report["trustExpiresAt"].as_str() {
            // RFC 3339 in UTC without fractions sorts as text.
            expired |= at <= now;
            earliest = Some(earliest.map_or(at.to_owned(), |before| before.min(at.to_owned())));
        }
        expired |= report["reason"] == "TrustExpired";
        let about = report["observedGeneration"].as_i64();
        let mut entry =
            json!({"id": id, "podUID": pod_uid, "observedGeneration": about, "succeeded": report["succeeded"]});
        if about != generation {
            entry["state"] = json!("Outdated");
            entry["reason"] = json!("GenerationBehind");
            let old = report["serves"] == "Wanted" || report["serves"] == "LastGood";
            entry["serves"] = if old { json!("Older") } else { report["serves"].clone() };
            reasons.push("GenerationBehind".to_owned());
            failing.insert(id, entry);
            continue;
        }
        current += 1;
        entry["state"] = json!("Current");
        entry["reason"] = report["reason"].clone();
        entry["serves"] = report["serves"].clone();
        for warning in report["warnings"].as_array().into_iter().flatten() {
            settled_warnings.push(text(warning));
        }
        if report["succeeded"] == true {
            healthy.insert(id, entry);
        } else {
            reasons.push(text(&report["reason"]));
            failing.insert(id, entry);
        }
    }
    let (good, total) = (healthy.len(), healthy.len() + failing.len());
    let ready = total > 0 && failing.is_empty();
    settled_warnings.sort();
    settled_warnings.dedup();
    settled_warnings.truncate(8);
    let trust = match (total, reporting) {
        (0, _) | (_, 0) => "Unknown",
        _ if expired => "False",
        _ => "True",
    };
    json!({
        "succeeded": ready,
        "observedGeneration": generation,
        "replicas": {"expected": total, "reporting": reporting, "current": current, "succeeded": good, "stale": 0,
                     "summary": format!("{good}/{total}")},
        "byPod": failing.into_values().chain(healthy.into_values()).collect::<Vec<_>>(),
        "warnings": settled_warnings,
        "trustExpiresAt": earliest,
        "unhealthy": total - good,
        "reasons": reasons,
        "conditions": {"Ready": truth(ready), "Current": truth(total > 0 && current == total), "TrustValid": trust},
    })
}

/// The same view of a status that an aggregator wrote.
pub fn seen_status(status: &Value) -> Value {
    let entries: Vec<Value> = status["byPod"].as_array().into_iter().flatten().map(without_texts).collect();
    let error = status["error"].as_str().unwrap_or_default();
    let unhealthy: usize = error.split_once('/').and_then(|(count, _)| count.parse().ok()).unwrap_or(0);
    let reasons: Vec<Value> = entries
        .iter()
        .filter(|entry| entry["state"] != "Current" || entry["succeeded"] != true)
        .map(|entry| entry["reason"].clone())
        .collect();
    let conditions: BTreeMap<String, Value> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|condition| {
            assert_eq!(condition["observedGeneration"], status["observedGeneration"], "{condition}");
            (text(&condition["type"]), condition["status"].clone())
        })
        .collect();
    json!({
        "succeeded": status["succeeded"],
        "observedGeneration": status["observedGeneration"],
        "replicas": status["replicas"],
        "byPod": entries,
        "warnings": status.get("warnings").cloned().unwrap_or(json!([])),
        "trustExpiresAt": status["trustExpiresAt"],
        "unhealthy": unhealthy,
        "reasons": reasons,
        "conditions": conditions,
    })
}

/// Says where the two views differ; equal reasons in another order are equal.
pub fn check(mut expected: Value, mut seen: Value) -> Result<(), String> {
    for view in [&mut expected, &mut seen] {
        let mut reasons: Vec<String> = view["reasons"].as_array().into_iter().flatten().map(text).collect();
        reasons.sort();
        view["reasons"] = json!(reasons);
    }
    for (key, value) in expected.as_object().into_iter().flatten() {
        if seen[key] != *value {
            return Err(format!("{key}: expected {value}, got {}", seen[key]));
        }
    }
    Ok(())
}

fn without_texts(entry: &Value) -> Value {
    let keys = ["id", "podUID", "observedGeneration", "succeeded", "state", "reason", "serves"];
    keys.iter().map(|key| ((*key).to_owned(), entry[*key].clone())).collect::<serde_json::Map<_, _>>().into()
}

/// What is no text is a mistake of the caller's, and shows as a difference.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or("not a text").to_owned()
}

fn truth(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

fn is_over(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
        || pod["status"]["phase"] == "Failed"
        || pod["status"]["phase"] == "Succeeded"
}

fn is_unschedulable(pod: &Value) -> bool {
    pod["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
        condition["type"] == "PodScheduled" && condition["status"] == "False" && condition["reason"] == "Unschedulable"
    })
}
