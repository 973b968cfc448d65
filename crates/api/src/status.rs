//! What the aggregator concludes: `Executor.status`, and one entry of it for each replica.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{open_enum::open_enum, reason::Reason};

/// Condition: every expected replica serves the current generation; equal to `succeeded`.
pub const CONDITION_READY: &str = "Ready";
/// Condition: every expected replica's verdict is about the current generation and fresh.
pub const CONDITION_CURRENT: &str = "Current";
/// Condition: no expected replica's trust material has expired; Unknown without a report.
pub const CONDITION_TRUST_VALID: &str = "TrustValid";

/// The status of an executor, written by the leading aggregator alone, and always whole.
// Atomic: otherwise what the API server notes about who owns which field of it would be half of the event that every
// replica receives for each write of a status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ExecutorStatus {
    /// True when at least one replica is expected and every expected one has built and serves the current generation.
    pub succeeded: bool,
    /// What is wrong, in one sentence: `2/5 replicas unhealthy: <first error>`; empty when nothing is.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub error: String,
    /// The beginning of `error`, at most 120 bytes.
    #[serde(default)]
    #[schemars(length(max = 120))]
    pub brief_error: String,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many replicas are expected and how they do. Exact also where `byPod` is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<ReplicaCounts>,
    /// One entry for each expected replica, failing ones first, then by pod name. Written whole by one writer.
    #[serde(default)]
    #[schemars(length(max = 5000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub by_pod: Vec<PodEntry>,
    /// What `byPod` leaves out when it would grow past its limit in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_pod_omitted: Option<Omitted>,
    /// What works but is not as its author may think, from all replicas, without duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 200)))]
    pub warnings: Vec<String>,
    /// When the first certificate that any replica relies on expires (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_expires_at: Option<Time>,
    /// `Ready`, `Current` and `TrustValid`, in this order. Written whole by one writer.
    #[serde(default)]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub conditions: Vec<Condition>,
}

/// Counts of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaCounts {
    /// Pods of the reconciler that should serve: neither terminating nor finished.
    pub expected: u32,
    /// Expected replicas that have reported on this executor.
    pub reporting: u32,
    /// Expected replicas with a fresh verdict on the current generation.
    pub current: u32,
    /// Expected replicas that are current and succeeded.
    pub succeeded: u32,
    /// Expected replicas that are silent or not ready.
    pub stale: u32,
    /// `succeeded/expected`, for the printer column.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub summary: String,
}

/// What one replica says of this executor, and how much its word is worth now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodEntry {
    /// Name of the pod.
    #[schemars(length(max = 253))]
    pub id: String,
    /// UID of the pod.
    #[serde(rename = "podUID")]
    #[schemars(length(max = 64))]
    pub pod_uid: String,
    /// The generation that the verdict is about, good or bad; 0 before the first verdict.
    #[serde(default)]
    pub observed_generation: i64,
    /// The replica built that generation.
    #[serde(default)]
    pub succeeded: bool,
    /// What is wrong; empty when nothing is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub error: String,
    /// The beginning of `error`, at most 120 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 120))]
    pub brief_error: String,
    /// When state, succeeded, serves, reason or generation last changed, by the aggregator's clock (UTC, whole seconds).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// How much the entry is worth now.
    pub state: State,
    /// Why the entry is as it is.
    pub reason: Reason,
    /// What the replica serves.
    pub serves: Serves,
}

/// What `byPod` leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Omitted {
    /// How many entries were left out.
    pub count: u32,
    /// The same by state.
    #[serde(default)]
    pub by_state: std::collections::BTreeMap<String, u32>,
}

open_enum! {
    /// How much a replica's word is worth now; the first that applies.
    pub enum State {
        /// No report of this pod on this executor's UID.
        Pending,
        /// The aggregator has just lost all replicas at once: more likely its own network than theirs.
        Unknown,
        /// The replica is unreachable or says that it is not ready.
        Stale,
        /// The verdict is about an older generation.
        Outdated,
        /// The verdict is about the current generation, and the replica answers.
        Current,
    }
}

open_enum! {
    /// What a replica serves for an executor.
    pub enum Serves {
        /// The wanted generation.
        Wanted,
        /// The generation before an edit that is still being loaded, within the edit grace.
        Older,
        /// The wanted generation with trust material of an earlier refresh.
        LastGood,
        /// Nothing: lookups for its scopes find no executor.
        Nothing,
        /// Not known.
        Unknown,
    }
}
