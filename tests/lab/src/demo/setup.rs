//! What the demo stands on: an installation, files that only some replicas have, and the executors to show.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::Client;

use crate::installation::{self, RECONCILER, deploy};
use crate::manifests;

/// Flag of the reconciler: the folder that `files` in a spec are read below.
const TRUST_DIR: &str = "--trust-dir";

/// Starts Muster with `replicas` reconcilers and `aggregators` aggregators, and waits until all are ready. One replica's
/// trust folder is empty, so that one of the samples fails there and only there.
pub(super) async fn install(replicas: u16, aggregators: u16) -> Result<installation::Installation> {
    note("starting a control plane, with Muster on it");
    let settings = installation::Settings { reconcilers: replicas, aggregators, ..installation::Settings::default() };
    let installation = installation::Installation::start(settings).await?;
    let full = deploy("samples/trust");
    let empty = installation.plane.root().join("empty-trust");
    std::fs::create_dir_all(&empty).with_context(|| format!("cannot create {}", empty.display()))?;
    let unlucky = std::sync::Mutex::new(None);
    installation.kubelet.customise(move |pod, launch| {
        let (Some(name), Some(uid)) = (&pod.metadata.name, &pod.metadata.uid) else { return };
        if name.starts_with(RECONCILER) {
            let mut unlucky = unlucky.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let dir = if unlucky.get_or_insert_with(|| uid.clone()) == uid { &empty } else { &full };
            launch.command.push(format!("{TRUST_DIR}={}", dir.display()));
        }
    });
    installation.ready().await?;
    note(&format!("{replicas} replicas and {aggregators} aggregators are ready"));
    Ok(installation)
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
