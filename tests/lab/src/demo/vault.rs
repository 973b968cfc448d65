//! Executors whose trust material comes from a vault that limits its callers: a throttle as every cloud has one, at work.

use anyhow::{Context, Result};
use kube::Client;
use muster_upstream::{Behaviour, Limit, RetryAfter, Upstream, authority_pem, ferrvault};
use serde_json::{Value, json};

use crate::installation::{NAMESPACE, deploy};
use crate::manifests;

/// What people should look at while the demo stays up.
pub(super) const WATCH: &str = "the vault-… executors share a token that the vault lets call once a second: \
    each replica's gate waits its turn, and they become ok one by one";

/// Executors behind the one token; times the replicas, so many calls are needed.
const EXECUTORS: usize = 6;
/// Calls per second, over all replicas.
const RATE: f64 = 1.0;
/// Calls at once before that. Some are let in at once, so that the first table shows both.
const BURST: f64 = 4.0;
/// Seconds before each answer.
const LATENCY: f64 = 0.05;
/// The Secret with the token, as the shipped Role names it.
const SECRET: &str = "muster-vault";

/// The vault. It closes with this value.
pub(super) struct Vault(Upstream);

impl Vault {
    /// Opens a vault that holds whatever is asked for, and gives the replicas its token and the right to read it.
    pub(super) async fn open(client: &Client) -> Result<Self> {
        let content = ferrvault::Content { any_value: Some(authority_pem("Demo")?), ..ferrvault::Content::default() };
        let limit = Limit::Bucket { rate: RATE, burst: BURST, charged: false, retry_after: RetryAfter::Seconds };
        let behaviour = Behaviour { limit, latency: LATENCY, ferrvault: content, ..Behaviour::default() };
        let upstream = Upstream::start(behaviour).await.context("cannot open the vault")?;
        manifests::apply_path(client, &deploy("kustomize/components/trust-secrets")).await?;
        let token = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE},
            "stringData": {"token": "fft_demo"},
        });
        manifests::apply(client, &token.to_string()).await?;
        Ok(Self(upstream))
    }

    /// Applies the executors.
    pub(super) async fn apply_executors(&self, client: &Client) -> Result<()> {
        for number in 1..=EXECUTORS {
            manifests::apply(client, &self.executor(number).to_string()).await?;
        }
        Ok(())
    }

    fn executor(&self, number: usize) -> Value {
        let certificates = json!({"type": "ca", "ferrvault": {
            "url": self.0.url(), "organization": "acme", "project": "release", "vault": "production",
            "certs": ["release-ca"], "tokenSecretRef": {"name": SECRET, "key": "token"},
        }});
        json!({
            "apiVersion": "config.ratify.dev/v2alpha1", "kind": "Executor", "metadata": {"name": format!("vault-{number}")},
            "spec": {
                "scopes": [format!("vault-{number}.example.com")],
                "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
                "verifiers": [
                    {"name": "notation", "type": "notation", "parameters": {"certificates": [certificates]}},
                ],
                "policyEnforcer": {"type": "threshold-policy", "parameters": {"policy": {
                    "threshold": 1, "rules": [{"verifierName": "notation"}],
                }}},
            },
        })
    }
}
