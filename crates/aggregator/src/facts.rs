//! What the aggregator keeps of each object it watches: the few fields that decide something, with texts already made
//! safe and shared. A thousand replicas that fail alike hold their error once, and no managed fields, specs or labels.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::{ExecutorKind, ExecutorStatus, Reason, Serves};

/// An executor of either kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Executor {
    /// Which kind.
    pub kind: ExecutorKind,
    /// Namespace; empty for the cluster-scoped kind.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID: what its reports refer to.
    pub uid: Arc<str>,
    /// The version of the object that the other fields are of.
    pub version: Version,
    /// Generation of the spec.
    pub generation: i64,
    /// It has a deletionTimestamp: gone for everybody but its finalizers' owners, although its generation moved.
    pub deleting: bool,
    /// The status as it was last read, or as we last wrote it.
    pub status: Option<Arc<ExecutorStatus>>,
}

/// Which object an executor is, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Which kind.
    pub kind: ExecutorKind,
    /// Namespace; empty for the cluster-scoped kind.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

/// What a replica's ExecutorPodStatus says.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Name of the object.
    pub name: Arc<str>,
    /// UID of the object, for a guarded deletion.
    pub uid: Arc<str>,
    /// The version of the object that the other fields are of.
    pub version: Version,
    /// The executor it is about.
    pub executor: Name,
    /// UID of that executor.
    pub executor_uid: Arc<str>,
    /// Name of the replica's pod.
    pub pod_name: Arc<str>,
    /// UID of the replica's pod.
    pub pod_uid: Arc<str>,
    /// Whose the object is, by its owner references.
    pub owner: Owner,
    /// The verdict; `None` if the object holds none.
    pub outcome: Option<Outcome>,
}

/// The verdict of one replica.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The generation that the verdict is about.
    pub generation: i64,
    /// The replica built it.
    pub succeeded: bool,
    /// What it serves.
    pub serves: Serves,
    /// Why.
    pub reason: Reason,
    /// What is wrong: one line, at most 1,024 bytes.
    pub error: Arc<str>,
    /// When its first certificate expires, in whole seconds.
    pub trust_expires_at: Option<Timestamp>,
    /// One line each, at most 200 bytes each.
    pub warnings: Arc<[Arc<str>]>,
}

/// Who owns a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The pod it names, and nobody else.
    ItsPod,
    /// Nobody: the garbage collector will never take it.
    Nobody,
    /// Somebody else, alone or beside the pod: not an object of ours.
    Foreign,
}

/// A pod of the reconciler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// Where it stands in its life.
    pub life: Life,
    /// Its address, once it has one.
    pub ip: Option<std::net::IpAddr>,
    /// The container port named `health`, if it declares one.
    pub health_port: Option<u16>,
}

/// Where a pod stands in its life, as far as the roll-call is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Should serve, or will soon.
    Expected,
    /// Should serve, but no node takes it.
    Unschedulable,
    /// Terminating, Failed (an evicted pod stays so for ever) or Succeeded: nobody expects anything of it.
    Over,
}

impl Life {
    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expected => "expected",
            Self::Unschedulable => "unschedulable",
            Self::Over => "over",
        }
    }

    /// True if the pod counts as a replica.
    pub const fn is_expected(self) -> bool {
        matches!(self, Self::Expected | Self::Unschedulable)
    }
}

/// A resourceVersion. Versions of one resource compare as integers (Kubernetes guarantees it since 1.35, KEP-5504, and
/// etcd's revisions have always behaved so). Should one be no integer, objects are taken in the order in which they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(Arc<str>);

impl Version {
    /// Wraps a `metadata.resourceVersion`.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// As it goes into a request.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if an object of version `other` tells nothing new to whoever has seen this one.
    pub fn covers(&self, other: &Self) -> bool {
        match (self.0.parse::<u64>(), other.0.parse::<u64>()) {
            (Ok(own), Ok(other)) => own >= other,
            _ => self == other,
        }
    }
}

/// The cluster-scoped executor of that name.
#[cfg(test)]
pub(crate) fn named(name: &str) -> Name {
    Name { kind: ExecutorKind::Executor, namespace: "".into(), name: name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_integers_and_never_as_text() {
        let covers = |a: &str, b: &str| Version::new(a).covers(&Version::new(b));
        assert!(covers("10", "9") && covers("9", "9") && covers("z", "z"));
        assert!(!covers("9", "10") && !covers("z", "9") && !covers("9", "z"));
    }
}
