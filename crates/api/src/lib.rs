//! The kinds of `config.ratify.dev`: what people write, what replicas report, what the aggregator concludes.
//!
//! This crate is the one place where the shape of the objects is decided, so that the two controllers, the command line
//! and the custom resource definitions under `deploy/crds` cannot drift apart. It knows nothing about how any of them
//! works: types, their bounds and their words only.

mod crd;
mod executor;
mod executor_pod_status;
mod identity;
mod open_enum;
mod reason;
mod spec;
mod status;

pub use crd::{PART_OF_LABEL, PART_OF_VALUE, crds};
pub use executor::{ClusterExecutorSpec, Executor, ExecutorLike, NamespacedExecutor, NamespacedExecutorSpec};
pub use executor_pod_status::{ExecutorPodStatus, ExecutorPodStatusSpec, PodReport};
pub use identity::{ExecutorKind, ExecutorRef, PodRef};
pub use reason::{Reason, RetryClass};
pub use spec::{ExecutorSpec, PolicyEnforcer, Store, Verifier};
pub use status::{
    CONDITION_CURRENT, CONDITION_READY, CONDITION_TRUST_VALID, ExecutorStatus, Omitted, PodEntry, ReplicaCounts,
    Serves, State,
};

/// API group of every kind here.
pub const GROUP: &str = "config.ratify.dev";
/// The one served and stored version.
pub const VERSION: &str = "v2alpha1";
/// Annotation on an executor: a new value asks every replica for an attempt at once, whatever it is waiting for.
pub const RETRY_ANNOTATION: &str = "config.ratify.dev/retry";
