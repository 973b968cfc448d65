//! Who is meant: an executor and a pod, each by name for people and by UID for programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The two kinds that hold an executor spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ExecutorKind {
    /// Cluster-scoped; serves every namespace that has no executor of its own.
    Executor,
    /// Serves its own namespace only, and closes that namespace's fallback to cluster executors.
    NamespacedExecutor,
}

impl ExecutorKind {
    /// The kind's name as it stands in `kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executor => "Executor",
            Self::NamespacedExecutor => "NamespacedExecutor",
        }
    }

    /// The kind's plural as it stands in request paths and roles.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Executor => "executors",
            Self::NamespacedExecutor => "namespacedexecutors",
        }
    }
}

impl std::fmt::Display for ExecutorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One executor object. Ordered and hashed as a whole; the UID alone decides whether two are the same object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutorRef {
    /// `Executor` or `NamespacedExecutor`.
    pub kind: ExecutorKind,
    /// Namespace of a NamespacedExecutor; empty for an Executor.
    #[serde(default)]
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Name of the executor.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// UID of the executor: a re-created object of the same name is another one.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}

impl std::fmt::Display for ExecutorRef {
    /// `name`, or `namespace/name`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// One pod of the reconciler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodRef {
    /// Name of the pod; the object's namespace is the pod's.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// UID of the pod: a new pod of the same name is another one.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}
