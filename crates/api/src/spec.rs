//! What people write: the spec that both executor kinds share.
//!
//! A manifest that Ratify v2 accepts is accepted here once its group is rewritten. Everything that can grow has a bound.

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How artifacts under some scopes are verified: by which verifiers, from which stores, under which policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutorSpec {
    /// What this executor is responsible for: an exact repository (`registry.io/team/app`), a registry (`registry.io:5000`)
    /// or a wildcard for one label (`*.registry.io`). An exact repository wins over a registry, a registry over a wildcard.
    #[schemars(length(min = 1, max = 256), inner(length(max = 512)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub scopes: Vec<String>,
    /// The verifiers that look at each artifact. Names are how the policy refers to them.
    #[schemars(length(min = 1, max = 32))]
    pub verifiers: Vec<Verifier>,
    /// Where signatures are read from. With two or more stores, each needs `scopes`.
    #[schemars(length(min = 1, max = 16))]
    pub stores: Vec<Store>,
    /// Turns the verifiers' results into one decision. Without it nothing ever succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_enforcer: Option<PolicyEnforcer>,
    /// How many artifacts one request verifies at the same time; 3 when absent, zero or negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i32>,
    /// How often trust material is fetched again, as a Go duration (`30m`, `1h`); `1h` when absent, `0s` is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub refresh_interval: Option<String>,
}

/// One verifier of an executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verifier {
    /// Name of this verifier within the executor; the policy's rules refer to it.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Type of this verifier: `notation` or `cosign`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    pub type_: String,
    /// Parameters of that type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub parameters: Option<Map<String, Value>>,
}

/// One store of an executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Store {
    /// Type of this store: `registry-store` or `filesystem-oci-store`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    pub type_: String,
    /// The part of the executor's scopes that this store serves; all of them when absent and it is the only store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 512)))]
    pub scopes: Option<Vec<String>>,
    /// Parameters of that type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub parameters: Option<Map<String, Value>>,
}

/// The policy of an executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyEnforcer {
    /// Type of this policy: `threshold-policy`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    pub type_: String,
    /// Parameters of that type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub parameters: Option<Map<String, Value>>,
}

/// An object whose keys belong to a plugin: the API server keeps it as it is, the compiler names what it does not know.
fn free_form(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}
