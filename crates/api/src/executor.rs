//! The two kinds that people write. They differ in scope and in nothing else.

use std::fmt::Debug;

use kube::{CustomResource, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{identity::ExecutorKind, spec::ExecutorSpec, status::ExecutorStatus};

/// How artifacts under some scopes are verified: by which verifiers, from which stores, under which policy.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.ratify.dev",
    version = "v2alpha1",
    kind = "NamespacedExecutor",
    namespaced,
    status = "ExecutorStatus",
    doc = "How artifacts of this namespace's workloads are verified. Closes the namespace's fallback to cluster Executors.",
    shortname = "nsexec",
    category = "ratify",
    derive = "PartialEq",
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Replicas", type_ = "string", json_path = ".status.replicas.summary"),
    printcolumn(name = "Current", type_ = "string", json_path = r#".status.conditions[?(@.type=="Current")].status"#),
    printcolumn(name = "Error", type_ = "string", json_path = ".status.briefError"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(transparent)]
pub struct NamespacedExecutorSpec(pub ExecutorSpec);

/// How artifacts under some scopes are verified: by which verifiers, from which stores, under which policy.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.ratify.dev",
    version = "v2alpha1",
    kind = "Executor",
    status = "ExecutorStatus",
    doc = "How artifacts are verified, for every namespace that has no NamespacedExecutor of its own.",
    shortname = "exec",
    category = "ratify",
    derive = "PartialEq",
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Replicas", type_ = "string", json_path = ".status.replicas.summary"),
    printcolumn(name = "Current", type_ = "string", json_path = r#".status.conditions[?(@.type=="Current")].status"#),
    printcolumn(name = "Error", type_ = "string", json_path = ".status.briefError"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(transparent)]
pub struct ClusterExecutorSpec(pub ExecutorSpec);

/// Either executor kind, for code that treats both alike.
pub trait ExecutorLike:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Which of the two it is.
    const KIND: ExecutorKind;
    /// What its author wants.
    fn executor_spec(&self) -> &ExecutorSpec;
    /// What the aggregator concluded, if it has.
    fn executor_status(&self) -> Option<&ExecutorStatus>;
}

impl ExecutorLike for Executor {
    const KIND: ExecutorKind = ExecutorKind::Executor;

    fn executor_spec(&self) -> &ExecutorSpec {
        &self.spec.0
    }

    fn executor_status(&self) -> Option<&ExecutorStatus> {
        self.status.as_ref()
    }
}

impl ExecutorLike for NamespacedExecutor {
    const KIND: ExecutorKind = ExecutorKind::NamespacedExecutor;

    fn executor_spec(&self) -> &ExecutorSpec {
        &self.spec.0
    }

    fn executor_status(&self) -> Option<&ExecutorStatus> {
        self.status.as_ref()
    }
}
