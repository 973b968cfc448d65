//! What one replica says about one executor: an object of its own, with one writer, the replica.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::{
    identity::{ExecutorRef, PodRef},
    reason::Reason,
    status::Serves,
};

/// Whose outcome this is. Immutable: another executor or another pod is another object.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "config.ratify.dev",
    version = "v2alpha1",
    kind = "ExecutorPodStatus",
    namespaced,
    status = "PodReport",
    doc = "What one replica says about one executor. Written by that replica alone; folded by the aggregator into the executor's status.",
    shortname = "eps",
    category = "ratify",
    derive = "PartialEq",
    selectable = ".spec.executor.uid",
    selectable = ".spec.pod.uid",
    printcolumn(name = "Executor", type_ = "string", json_path = ".spec.executor.name"),
    printcolumn(name = "Pod", type_ = "string", json_path = ".spec.pod.name"),
    printcolumn(name = "Generation", type_ = "integer", json_path = ".status.observedGeneration"),
    printcolumn(name = "Succeeded", type_ = "boolean", json_path = ".status.succeeded"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
#[x_kube(validation = Rule::new("self == oldSelf").message("spec is immutable"))]
pub struct ExecutorPodStatusSpec {
    /// The executor that the outcome is about.
    pub executor: ExecutorRef,
    /// The pod whose outcome it is.
    pub pod: PodRef,
}

/// The outcome. Every field is always sent, and it is written whole: one writer, and less for the API server to note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct PodReport {
    /// The generation that the verdict is about, good or bad.
    pub observed_generation: i64,
    /// The replica built that generation.
    pub succeeded: bool,
    /// What the replica serves now.
    pub serves: Serves,
    /// Why the outcome is what it is.
    pub reason: Reason,
    /// What is wrong, at most 1,024 bytes; empty when nothing is.
    #[schemars(length(max = 1024))]
    pub error: String,
    /// The beginning of `error`, at most 120 bytes.
    #[schemars(length(max = 120))]
    pub brief_error: String,
    /// When the outcome last changed, by the replica's clock (UTC, whole seconds).
    pub last_transition_time: Time,
    /// When the first certificate that this executor relies on expires (UTC); null when none does.
    #[schemars(schema_with = "nullable_time")]
    pub trust_expires_at: Option<Time>,
    /// What works but is not as its author may think.
    #[schemars(length(max = 8), inner(length(max = 200)))]
    pub warnings: Vec<String>,
}

/// A time that is sent as `null` rather than left out.
fn nullable_time(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "string", "format": "date-time", "nullable": true })
}
