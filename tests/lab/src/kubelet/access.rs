//! How a pod's process reaches the API server: a bound token that is renewed in its file, and a kubeconfig that names it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;

use super::node::{Node, RETRY};
use super::pod::Slot;
use crate::control_plane::{Auth, kubeconfig, write};
use crate::identity::{service_account_of, token};

/// Share of its life after which a token is renewed; the kubelet's.
const RENEW_AT: f64 = 0.8;

/// Gets a token bound to `pod`, and puts it where the process reads it, never half of it.
pub(super) async fn renew(node: &Node, slot: &Slot, pod: &Pod) -> Result<()> {
    let account = service_account_of(pod);
    let token = token(&node.client, &slot.namespace, account, Some(pod), node.options.token_seconds).await?;
    let partial = slot.dir.join("token.partial");
    write(&partial, &token)?;
    std::fs::rename(&partial, token_file(slot)).context("cannot put the token in place")
}

/// Keeps the token fresh for ever.
pub(super) async fn keep_fresh(node: &Node, slot: &Slot, pod: &Pod) {
    let seconds = u32::try_from(node.options.token_seconds).unwrap_or(u32::MAX);
    let life = Duration::from_secs(seconds.into());
    loop {
        tokio::time::sleep(life.mul_f64(RENEW_AT)).await;
        while let Err(error) = renew(node, slot, pod).await {
            tracing::warn!(pod = slot.name, "cannot renew the token: {error:#}");
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Writes a kubeconfig for `server` and returns its path. Whatever stands in front of the real server is expected to pass
/// TLS through, so that the certificate stays the real one's; over plain HTTP there is none to look at.
pub(super) fn write_kubeconfig(node: &Node, slot: &Slot, server: &str) -> Result<PathBuf> {
    let file = slot.dir.join("kubeconfig");
    let in_between = node.plane.url != server;
    let tls_server_name = (in_between && server.starts_with("https:")).then_some(node.plane.tls_name.as_str());
    let token = token_file(slot);
    write(&file, &kubeconfig(server, tls_server_name, &node.plane.ca_file, Auth::TokenFile(&token)))?;
    Ok(file)
}

fn token_file(slot: &Slot) -> PathBuf {
    slot.dir.join("token")
}
