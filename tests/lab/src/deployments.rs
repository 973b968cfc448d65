//! Deployments, as a person at kubectl would use them: scaled, rolled, and waited for.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::wait;

/// Waits until the latest state of a Deployment is rolled out: every replica updated and ready, and none left over.
pub async fn rolled_out(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    wait::until(format!("Deployment {namespace}/{name}"), || async {
        let deployment = deployments.get(name).await?;
        let wanted = deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let status = deployment.status.context("no status")?;
        let (all, updated, ready) = (status.replicas, status.updated_replicas, status.ready_replicas);
        let [all, updated, ready] = [all, updated, ready].map(Option::unwrap_or_default);
        ensure!(status.observed_generation == deployment.metadata.generation, "the controller has not seen it");
        ensure!(
            [all, updated, ready] == [wanted; 3],
            "{ready} ready and {updated} updated of {all}, {wanted} wanted; {:?}",
            status.conditions
        );
        Ok(())
    })
    .await
}

/// Sets the number of replicas.
pub async fn scale(client: &Client, namespace: &str, name: &str, replicas: u32) -> Result<()> {
    let patch = json!({"spec": {"replicas": replicas}});
    merge(client, namespace, name, &patch).await.with_context(|| format!("cannot scale {namespace}/{name}"))
}

/// Replaces every pod, as `kubectl rollout restart` does. `mark` is any text that was not used before.
pub async fn restart(client: &Client, namespace: &str, name: &str, mark: &str) -> Result<()> {
    let annotation = json!({"kubectl.kubernetes.io/restartedAt": mark});
    let patch = json!({"spec": {"template": {"metadata": {"annotations": annotation}}}});
    merge(client, namespace, name, &patch).await.with_context(|| format!("cannot restart {namespace}/{name}"))
}

async fn merge(client: &Client, namespace: &str, name: &str, patch: &serde_json::Value) -> kube::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    deployments.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}
