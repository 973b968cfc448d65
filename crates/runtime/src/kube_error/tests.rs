//! Answers of a real API server, word for word, and what each asks for.

use serde_json::json;

use super::*;

fn check(code: u16, reason: &str, message: &str, expected: Retry, says: &str) {
    let status = json!({"kind": "Status", "code": code, "reason": reason, "message": message});
    check_status(status, expected, says);
}

fn check_status(status: serde_json::Value, expected: Retry, says: &str) {
    let status: Status = serde_json::from_value(status).unwrap();
    let verdict = classify(&kube::Error::Api(Box::new(status)));
    assert_eq!(verdict.retry, expected, "{verdict}");
    assert!(verdict.sentence.contains(says), "{:?} does not say {says:?}", verdict.sentence);
    assert!(verdict.sentence.len() <= MAX_SENTENCE && !verdict.sentence.contains('\n'));
}

#[test]
fn two_500s_are_permanent_and_others_are_not() {
    let outdated = "failed to create typed patch object (muster-system/x; config.ratify.dev/v2alpha1, Kind=ExecutorPodStatus): \
                    .status.bogus: field not declared in schema";
    check(500, "", outdated, Retry::SchemaOutdated, "CRD is older than this program");
    let duplicate = "failed to create typed patch object (/s; config.ratify.dev/v2alpha1, Kind=Executor): \
                     .status.byPod: duplicate entries for key [id=\"p1\"]";
    check(500, "", duplicate, Retry::Invalid, "duplicate entries");
    check(500, "", "etcdserver: request is too large", Retry::TooLarge, "too large");
    let grpc =
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2900344 vs. 2097152)";
    check(500, "", grpc, Retry::TooLarge, "too large");
    check(413, "RequestEntityTooLarge", "limit is 3145728", Retry::TooLarge, "3145728");
    check(500, "InternalError", "etcdserver: leader changed", Retry::ServerError, "leader changed");
}

#[test]
fn c50_the_four_kinds_of_403_are_told_apart_and_rbac_names_verb_and_resource() {
    let user = "system:serviceaccount:muster-system:muster-aggregator";
    let lease = format!(
        "leases.coordination.k8s.io \"muster-aggregator\" is forbidden: User \"{user}\" cannot get resource \"leases\" \
         in API group \"coordination.k8s.io\" in the namespace \"muster-system\""
    );
    check(403, "Forbidden", &lease, Retry::Forbidden, "get leases in namespace muster-system");
    let cluster = format!(
        "executors.config.ratify.dev is forbidden: User \"{user}\" cannot list resource \"executors\" \
         in API group \"config.ratify.dev\" at the cluster scope"
    );
    check(403, "Forbidden", &cluster, Retry::Forbidden, "RBAC does not allow to list executors; grant it");
    let policy = "executorpodstatuses.config.ratify.dev \"v1\" is forbidden: ValidatingAdmissionPolicy 'N' with binding 'B' \
                  denied request: token is not bound to a pod";
    check(403, "Forbidden", policy, Retry::Denied, "admission policy");
    check(422, "Invalid", policy, Retry::Denied, "token is not bound to a pod");
    let webhook = "admission webhook \"x.example.com\" denied the request: no";
    check(400, "BadRequest", webhook, Retry::Denied, "webhook");
    let quota = "executorpodstatuses.config.ratify.dev \"x\" is forbidden: exceeded quota: q, requested: \
                 count/executorpodstatuses.config.ratify.dev=1, used: 1, limited: 1";
    check(403, "Forbidden", quota, Retry::QuotaExceeded, "ResourceQuota");
    let going = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "unable to create new content",
        "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace a is being terminated"}]}});
    check_status(going, Retry::NamespaceTerminating, "being deleted");
}

#[test]
fn three_kinds_of_409() {
    let stale = "Operation cannot be fulfilled on executors.config.ratify.dev \"s\": the object has been modified; \
                 please apply your changes to the latest version and try again";
    check(409, "Conflict", stale, Retry::Conflict, "has been modified");
    check(409, "AlreadyExists", "x already exists", Retry::AlreadyExists, "exists");
    let owned = json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": "Apply failed with 1 conflict",
        "details": {"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"kubectl\"", "field": ".status.error"}]}});
    check_status(owned, Retry::FieldOwned, "another field manager");
}

#[test]
fn a_missing_kind_is_not_a_missing_object() {
    check(404, "NotFound", "executors.config.ratify.dev \"b\" not found", Retry::NotFound, "not found");
    // What kube makes of the plain text `404 page not found`.
    check(404, "Failed to parse error data", "404 page not found", Retry::KindMissing, "apply Muster's CRDs");
}

#[test]
fn pushback_carries_its_wait() {
    let loading = json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "storage is (re)initializing",
        "details": {"retryAfterSeconds": 1}});
    check_status(loading, Retry::Throttled { retry_after: Some(Duration::from_secs(1)) }, "still loading");
    let absurd =
        json!({"kind": "Status", "code": 429, "message": "m", "details": {"retryAfterSeconds": 4_000_000_000_u32}});
    check_status(absurd, Retry::Throttled { retry_after: Some(muster_core::retry_after::MAX) }, "slow down");
    check(503, "ServiceUnavailable", "starting", Retry::ServerError, "503");
    let told = json!({"kind": "Status", "code": 503, "message": "m", "details": {"retryAfterSeconds": 3}});
    check_status(told, Retry::Throttled { retry_after: Some(Duration::from_secs(3)) }, "not available");
    check(504, "Timeout", "Too large resource version: 9", Retry::Timeout, "504");
}

#[test]
fn the_rest() {
    check(401, "Unauthorized", "Unauthorized", Retry::Unauthorized, "credential");
    check(410, "Expired", "too old resource version: 1 (1012)", Retry::Gone, "expired");
    check(422, "Invalid", "spec: Invalid value: spec is immutable", Retry::Invalid, "immutable");
    check(400, "BadRequest", "metadata.managedFields must be nil", Retry::Invalid, "managedFields");
}

#[test]
fn an_error_inside_a_watch_is_classed_like_an_answer() {
    let status: Status =
        serde_json::from_value(json!({"code": 410, "reason": "Expired", "message": "too old"})).unwrap();
    let error = kube::runtime::watcher::Error::WatchError(Box::new(status));
    assert_eq!(classify_watch(&error).category(), "Gone");
    assert_eq!(classify_watch(&kube::runtime::watcher::Error::NoResourceVersion).retry, Retry::ServerError);
}
