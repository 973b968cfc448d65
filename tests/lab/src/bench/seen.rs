//! An executor and a watch of it: what a bench sees is what anybody else would see, at the same moment.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::watch_object;
use muster_api::{Executor, ExecutorStatus};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::report;
use crate::installation::Installation;

/// The executor that is watched.
pub(super) const NAME: &str = "base";
/// How long anything may take before the bench gives up.
const PATIENCE: Duration = Duration::from_mins(2);

/// What a watch of the executor shows.
pub(super) struct Seen {
    status: ExecutorStatus,
    events: BoxStream<'static, kube::runtime::watcher::Result<Option<Executor>>>,
}

impl Seen {
    /// Creates the executor and watches it.
    pub(super) async fn of(installation: &Installation) -> Result<Self> {
        let client = installation.plane.client()?;
        apply(&client, NAME, 10).await?;
        let events = watch_object(Api::<Executor>::all(client), NAME).boxed();
        Ok(Self { status: ExecutorStatus::default(), events })
    }

    /// Returns when the status is as `is` wants it, by what the watch has shown.
    pub(super) async fn until(&mut self, what: &str, is: impl Fn(&ExecutorStatus) -> bool) -> Result<()> {
        let limit = Instant::now() + PATIENCE;
        while !is(&self.status) {
            let event = timeout_at(limit, self.events.next()).await;
            match event.with_context(|| format!("waited {PATIENCE:?} for {what}: {:?}", self.status))? {
                Some(Ok(executor)) => {
                    self.status = executor.and_then(|executor| executor.status).unwrap_or_default();
                }
                Some(Err(error)) => report::note(&format!("watch: {error}")),
                None => bail!("the watch has ended"),
            }
        }
        Ok(())
    }
}

/// Creates an executor that any replica can build by itself, or changes its concurrency; returns it as it is then.
pub(super) async fn apply(client: &Client, name: &str, concurrency: u64) -> Result<Executor> {
    let params = PatchParams::apply("bench").force();
    let executors: Api<Executor> = Api::all(client.clone());
    let applied = executors.patch(name, &params, &Patch::Apply(object(name, concurrency))).await;
    applied.with_context(|| format!("cannot apply {name}"))
}

fn object(name: &str, concurrency: u64) -> Value {
    json!({
        "apiVersion": "config.ratify.dev/v2alpha1", "kind": "Executor", "metadata": {"name": name},
        "spec": {
            "scopes": [format!("{name}.example.com")],
            "concurrency": concurrency,
            "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
            "verifiers": [{"name": "cosign", "type": "cosign", "parameters": {"trustPolicies": [{
                "certificateIdentity": "release@example.com", "certificateOIDCIssuer": "https://issuer.example.com",
            }]}}],
            "policyEnforcer": {"type": "threshold-policy", "parameters": {"policy": {
                "threshold": 1, "rules": [{"verifierName": "cosign"}],
            }}},
        },
    })
}
