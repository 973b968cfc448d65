//! The three kinds as a real API server takes them.

#[path = "kinds/fill.rs"]
mod fill;

use muster_api::{Executor, ExecutorPodStatus, NamespacedExecutor, crds};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use fill::{filled, leaves};

/// Reads the filled object into the Rust type and writes it again: what is lost or invented shows as a difference.
fn round_trip<K: Serialize + DeserializeOwned>(kind: &str) {
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let before = filled(&crd, "every-leaf");
    assert!(leaves(&before) > 10, "{kind}: the filler fills too little: {before}");
    let typed: K = serde_json::from_value(before.clone()).unwrap();
    let after: Value = serde_json::to_value(&typed).unwrap();
    assert_eq!(before, after, "{kind}");
}

#[test]
fn c70_every_leaf_of_the_schema_survives_the_rust_types() {
    round_trip::<Executor>("Executor");
    round_trip::<NamespacedExecutor>("NamespacedExecutor");
    round_trip::<ExecutorPodStatus>("ExecutorPodStatus");
}
