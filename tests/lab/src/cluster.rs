//! `muster-lab cluster up`: a cluster for a person to look around in.

use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use muster_toolbox::{Origin, Tool, find};
use tokio::signal::unix::{SignalKind, signal};

use crate::control_plane::{ControlPlane, Options};
use crate::kubelet::{self, Kubelet, Launch};

/// Starts a control plane with a kubelet's stand-in, says how to use it, and keeps it up until Ctrl-C or SIGTERM.
pub async fn up() -> Result<()> {
    let mut end = End::listen()?;
    let plane = ControlPlane::start(Options::default()).await?;
    let kubelet = Kubelet::start(&plane, kubelet::Options::default()).await?;
    kubelet.customise(listen_on_own_address);
    let version = plane.client()?.apiserver_version().await.context("cannot ask for the version")?.git_version;
    say(&welcome(&version, plane.url(), &plane.kubeconfig(), &plane.logs()));
    end.asked().await;
    kubelet.stop().await;
    plane.stop().await;
    Ok(())
}

/// Replicas that share a machine cannot share its ports, as they could in network namespaces.
fn listen_on_own_address(_: &Pod, launch: &mut Launch) {
    for (name, port) in [("MUSTER_HEALTH_ADDR", 8086), ("MUSTER_ADMIN_ADDR", 8080)] {
        launch.env.push((name.to_owned(), format!("{}:{port}", launch.ip)));
    }
}

/// The two ways a person or a supervisor ends a program.
#[derive(Debug)]
pub struct End {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl End {
    /// From now on these signals do not kill this process.
    pub fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Returns when one of them came.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// How to use `kubectl` with this cluster: one line to paste, whether or not it is installed.
pub fn kubectl_hint(kubeconfig: &Path) -> String {
    let alias = match find(Tool::Kubectl) {
        Some(found) if found.origin != Origin::Path => format!("  alias kubectl={}\n", found.path.display()),
        _ => String::new(),
    };
    format!("  export KUBECONFIG={}\n{alias}", kubeconfig.display())
}

fn welcome(version: &str, url: &str, kubeconfig: &Path, logs: &Path) -> String {
    format!(
        "Kubernetes {version} is up at {url}\n\n\
         {}  \
           kubectl get namespaces\n  \
           kubectl apply --server-side -k deploy/kustomize/base    # runs the programs of this build as its pods\n  \
           kubectl apply -f deploy/samples\n  \
           kubectl get executors\n\n\
         Logs, the pods' among them, are in {}\n\
         Ctrl-C ends it and removes everything.",
        kubectl_hint(kubeconfig),
        logs.display()
    )
}

#[expect(clippy::print_stdout, reason = "this is what the command is for")]
fn say(text: &str) {
    println!("{text}");
}
