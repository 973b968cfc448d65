//! `muster-lab cluster up`: a cluster for a person to look around in.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use muster_toolbox::{Origin, Tool, find};
use tokio::signal::unix::{SignalKind, signal};

use crate::control_plane::{ControlPlane, Options};
use crate::kubelet::{self, Kubelet, Launch};
use crate::node::{self, RealNode};
use crate::running::Running;
use crate::tools;

/// Starts a control plane with a real node, says how to use it, and keeps it up until Ctrl-C or SIGTERM.
pub async fn up_with_node() -> Result<()> {
    let mut end = End::listen()?;
    let node = RealNode::start(Options::default()).await?;
    let running = Running { pid: std::process::id(), holder: node.holder(), root: node.plane.root().to_owned() };
    running.announce()?;
    let version = node.plane.client()?.apiserver_version().await.context("cannot ask for the version")?.git_version;
    say(&format!(
        "Kubernetes {version} with one node is up at {}\n\n\
         {}  \
           cargo xtask image && cargo xtask cluster load target/images/*.tar\n  \
           helm install muster deploy/chart --namespace muster-system --create-namespace\n  \
           kubectl get pods -A\n\n\
         Logs are in {}, those of containers in {}\n\
         NetworkPolicies are not enforced, and there is no metrics API for an autoscaler.\n\
         Ctrl-C, or `cargo xtask cluster down`, ends it and removes everything.",
        node.plane.url(),
        kubectl_hint(&node.plane.kubeconfig()),
        node.plane.logs().display(),
        node.pod_logs().display()
    ));
    end.asked().await;
    node.stop().await;
    Ok(())
}

/// Says which cluster with a node is up, and how it is.
pub async fn status() -> Result<()> {
    let Some(running) = Running::find() else {
        say("no cluster with a node is up");
        return Ok(());
    };
    let kubeconfig = running.kubeconfig();
    say(&format!("kept up by process {}\n{}", running.pid, kubectl_hint(&kubeconfig)));
    for what in [&["get", "nodes"][..], &["get", "pods", "--all-namespaces"]] {
        say(&tools::run(Tool::Kubectl, Some(&kubeconfig), what).await?);
    }
    Ok(())
}

/// Loads image archives into the cluster that is up.
pub async fn load(archives: &[PathBuf]) -> Result<()> {
    let running = Running::find().context("no cluster with a node is up: cargo xtask cluster up")?;
    for archive in archives {
        let archive = std::path::absolute(archive).context("no such path")?;
        node::load_into(&running.root, running.holder, &archive).await?;
        say(&format!("loaded {}", archive.display()));
    }
    Ok(())
}

/// Ends the cluster that is up, and waits until everything of it is gone.
pub async fn down() -> Result<()> {
    let Some(running) = Running::find() else {
        say("no cluster with a node is up");
        return Ok(());
    };
    running.end().await?;
    say("the cluster is gone");
    Ok(())
}

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
           kubectl apply --server-side -k deploy/kustomize    # runs the programs of this build as its pods\n  \
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
