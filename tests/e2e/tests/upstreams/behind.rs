//! A stage whose executors take their certificates from an upstream, with the token of a Secret.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use muster_lab::installation::{NAMESPACE, deploy};
use muster_lab::manifests;
use muster_upstream::ferrvault::Content;
use muster_upstream::{Behaviour, Limit, Upstream};
use serde_json::{Value, json};

use crate::stage::{Stage, authority, spec};

/// The token of the Secret `vault`.
pub(crate) const TOKEN: &str = "fft_e2e-token";

pub(crate) struct Behind {
    pub(crate) stage: Stage,
    pub(crate) upstream: Upstream,
}

impl Behind {
    /// Replicas that may read the Secrets `vault`, which exists, and `trust`, which does not; and an upstream of this limit.
    pub(crate) async fn start(replicas: u16, limit: Limit, args: &[&str]) -> Result<Self> {
        let ferrvault = Content { any_value: Some(authority()?), ..Content::default() };
        let behaviour = Behaviour { limit, ferrvault, latency: 0.02, ..Behaviour::default() };
        let upstream = Upstream::start(behaviour).await?;
        let stage = Stage::ready(replicas, args).await?;
        let behind = Self { stage, upstream };
        behind.grant().await?;
        behind.put("vault", &json!({ "token": TOKEN })).await?;
        Ok(behind)
    }

    /// A right to read these two Secrets by name, which is all that a replica ever gets: the Role that we ship, with the
    /// names patched as an overlay would.
    async fn grant(&self) -> Result<()> {
        let mut objects = manifests::read(&deploy("kustomize/components/trust-secrets"))?;
        let role = objects.iter_mut().find_map(|object| object.data.pointer_mut("/rules/0/resourceNames"));
        *role.context("no Role that names Secrets")? = json!(["vault", "trust"]);
        manifests::apply_objects(&self.stage.client, objects).await.map(drop)
    }

    /// Makes a Secret, or replaces its entries.
    pub(crate) async fn put(&self, name: &str, entries: &Value) -> Result<()> {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": entries});
        self.patch_secret(name, &Patch::Apply(secret)).await
    }

    pub(crate) async fn patch_secret(&self, name: &str, patch: &Patch<Value>) -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.stage.client.clone(), NAMESPACE);
        let params = match patch {
            Patch::Apply(_) => PatchParams::apply("e2e").force(),
            _ => PatchParams::default(),
        };
        secrets.patch(name, &params, patch).await.with_context(|| format!("cannot write Secret {name}"))?;
        Ok(())
    }

    /// A spec whose certificate comes from FerrVault, with the token of the Secret `vault`.
    pub(crate) fn spec(&self, scope: &str) -> Value {
        notation(
            scope,
            &json!({"ferrvault": {
                "url": self.upstream.url(), "organization": "o", "project": "p", "vault": "v", "certs": ["ca"],
                "tokenSecretRef": {"name": "vault", "key": "token"},
            }}),
        )
    }

    /// Calls that reached the upstream with the token.
    pub(crate) fn calls(&self) -> u64 {
        self.upstream.count(TOKEN).sent
    }

    /// No call for so long.
    pub(crate) async fn is_quiet(&self, window: Duration) -> bool {
        self.upstream.forget_calls();
        !self.upstream.wait_for(window, |calls| !calls.is_empty()).await
    }
}

/// A spec that trusts what this provider loads.
pub(crate) fn notation(scope: &str, provider: &Value) -> Value {
    let mut spec = spec(scope);
    spec["verifiers"] = json!([{"name": "notation", "type": "notation", "parameters": {"certificates": [provider]}}]);
    spec["policyEnforcer"]["parameters"]["policy"]["rules"] = json!([{"verifierName": "notation"}]);
    spec
}
