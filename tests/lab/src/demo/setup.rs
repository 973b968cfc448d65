//! What the demo stands on: an installation, files that only some replicas have, and the executors to show.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use kube::Client;

use crate::installation::{Customise, Installation, RECONCILER, Settings, deploy};
use crate::manifests;

/// Flag of the reconciler: the folder that `files` in a spec are read below.
const TRUST_DIR: &str = "--trust-dir";

/// Starts Muster and waits until every pod is ready. One replica's trust folder is wrong, so that one of the samples fails
/// there and only there.
pub(super) async fn install(replicas: u16, aggregators: u16) -> Result<Installation> {
    note("starting a control plane, with Muster on it");
    let settings =
        Settings { reconcilers: replicas, aggregators, customise: Some(uneven_trust()), ..Settings::default() };
    let installation = Installation::start(settings).await?;
    installation.ready().await?;
    note(&format!("all pods are ready; reconcilers: {replicas}, aggregators: {aggregators}"));
    Ok(installation)
}

/// Mounts the samples' trust folder into every replica, and into the first one level too high: it finds no file there.
fn uneven_trust() -> Customise {
    let (right, wrong) = (deploy("samples/trust"), deploy("samples"));
    let unlucky = OnceLock::new();
    Box::new(move |pod, launch| {
        let (Some(name), Some(uid)) = (&pod.metadata.name, &pod.metadata.uid) else { return };
        if name.starts_with(RECONCILER) {
            let dir = if unlucky.get_or_init(|| uid.clone()) == uid { &wrong } else { &right };
            launch.command.push(format!("{TRUST_DIR}={}", dir.display()));
        }
    })
}

/// Applies the samples and the user's own manifests.
pub(super) async fn apply_executors(client: &Client, files: &[PathBuf]) -> Result<()> {
    let mut applied = manifests::apply_path(client, &deploy("samples")).await?;
    for file in files {
        applied.extend(apply_own(client, file).await?);
    }
    note(&format!("{} objects applied", applied.len()));
    Ok(())
}

/// The user's own file; Ratify's later group name is the one thing that its manifests need changed.
async fn apply_own(client: &Client, file: &Path) -> Result<Vec<kube::api::DynamicObject>> {
    manifests::apply_path(client, file).await.with_context(|| {
        format!(
            "cannot apply {} (a manifest of Ratify needs its group config.ratify.sh rewritten to config.ratify.dev)",
            file.display()
        )
    })
}

/// A line of progress, on stderr: stdout belongs to the result.
#[expect(clippy::print_stderr, reason = "progress of a command line tool")]
pub(super) fn note(line: &str) {
    eprintln!("demo: {line}");
}

/// The result.
#[expect(clippy::print_stdout, reason = "the result of a command line tool")]
pub(super) fn print(text: &str) {
    println!("{}", text.trim_end());
}
