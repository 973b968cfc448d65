//! Plays kubelet and scheduler for a control plane: the pods of real Deployments become processes on this machine.
//!
//! What a process sees is what it would see in a cluster: the environment of its manifest with the downward API and
//! `$(VAR)` filled in, an address of its own (127.x.y.z, so that every pod can listen on the port its manifest names), and
//! a `KUBECONFIG` whose token is bound to its pod and renewed in its file. What the cluster sees is what a kubelet would
//! report: phase, addresses, conditions, restarts; `grpc` probes are really asked, by the kubelet's rules.
//!
//! The first container of a pod runs as the binary its command names, found in the build folder; images are not looked at.
//! There are no init containers, no volumes and no `envFrom`; a pod that needs them is refused, not half run.
//!
//! ```no_run
//! # use muster_lab::{control_plane::{ControlPlane, Options}, kubelet::{self, Kubelet, Signal}};
//! # async fn example() -> anyhow::Result<()> {
//! let plane = ControlPlane::start(Options::default()).await?;
//! let kubelet = Kubelet::start(&plane, kubelet::Options::default()).await?;
//! // More flags, another environment, a proxy instead of the API server: whatever a pod is started with can be changed.
//! kubelet.customise(|pod, launch| {
//!     if pod.metadata.name.as_deref().is_some_and(|name| name.starts_with("muster-reconciler-")) {
//!         launch.command.push("--watch-timeout=5s".to_owned());
//!     }
//! });
//! // … apply a Deployment …
//! for pod in kubelet.pods() {
//!     kubelet.signal(&pod, Signal::SIGSTOP)?;
//! }
//! kubelet.stop().await;
//! plane.stop().await;
//! # Ok(()) }
//! ```

mod access;
mod launch;
mod node;
mod pod;
mod probe;
mod probing;
mod report;
mod restart;
mod run;
mod status;
mod worker;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use tokio::task::JoinHandle;

use crate::control_plane::ControlPlane;
use crate::process;
use node::{Node, Plane};

pub use launch::Launch;
pub use nix::sys::signal::Signal;
pub use pod::PodView;
pub use restart::RestartPolicy;

/// Where the binaries are; else beside the running program.
const BIN_DIR: &str = "MUSTER_BIN_DIR";

/// Choices, all of them with good defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Name of the node.
    pub node: String,
    /// How long a container that ended waits.
    pub restart: RestartPolicy,
    /// Life of the pods' tokens in seconds; the API server gives none for less than 600.
    pub token_seconds: i64,
    /// Where the binaries are: else `MUSTER_BIN_DIR`, else the folder of the running program's profile.
    pub bin_dir: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { node: "lab-node".to_owned(), restart: RestartPolicy::default(), token_seconds: 3607, bin_dir: None }
    }
}

/// A node with its pods. Dropped or stopped, it takes their processes with it and leaves the objects as they are.
pub struct Kubelet {
    node: Arc<Node>,
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Creates the Node object and begins to run pods.
    pub async fn start(plane: &ControlPlane, options: Options) -> Result<Self> {
        let bin_dir = match options.bin_dir.clone().or_else(|| std::env::var_os(BIN_DIR).map(PathBuf::from)) {
            Some(dir) => dir,
            None => built_beside_us()?,
        };
        let folder = |name: &str| -> Result<PathBuf> {
            let path = plane.root().join(name);
            std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
            Ok(path)
        };
        let used = Plane {
            url: plane.url().to_owned(),
            tls_name: plane.net().api_server().ip().to_string(),
            ca_file: plane.ca_file(),
            net: Arc::clone(plane.net()),
            logs: folder("logs/pods")?,
            files: folder("pods")?,
        };
        let client = plane.client_with_token(plane.kubelet_token())?;
        let node = Arc::new(Node::new(client, used, bin_dir, options));
        node.register().await?;
        Ok(Self { task: tokio::spawn(node::run(Arc::clone(&node))), node })
    }

    /// Sees every pod before each of its starts, and may change what it is started with.
    pub fn customise(&self, change: impl Fn(&Pod, &mut Launch) + Send + Sync + 'static) {
        *self.node.customise.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(change);
    }

    /// Every pod that is here, or waits to be, by namespace and name.
    pub fn pods(&self) -> Vec<PodView> {
        let mut pods: Vec<_> = self.node.slots().values().map(|slot| slot.view()).collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        pods
    }

    /// The pods of a Deployment, by name.
    pub fn pods_of(&self, namespace: &str, deployment: &str) -> Vec<PodView> {
        let is_of = |pod: &PodView| {
            pod.namespace == namespace && pod.name.strip_prefix(deployment).is_some_and(|rest| rest.starts_with('-'))
        };
        self.pods().into_iter().filter(is_of).collect()
    }

    /// The pod as it is now; `None` once it is gone.
    pub fn look(&self, pod: &PodView) -> Option<PodView> {
        self.node.slots().get(&pod.uid).map(|slot| slot.view())
    }

    /// Signals the pod's process: `SIGKILL` for a crash with a restart in place, `SIGSTOP` and `SIGCONT` for a hang.
    pub fn signal(&self, pod: &PodView, signal: Signal) -> Result<()> {
        let slot = self.node.slots().get(&pod.uid).cloned();
        let sent = slot.is_some_and(|slot| slot.signal(signal));
        ensure!(sent, "{} runs no process", pod.name);
        Ok(())
    }

    /// Kills the process and removes the pod at the same time, as when a machine burns.
    pub async fn crash(&self, pod: &PodView) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.node.client.clone(), &pod.namespace);
        self.signal(pod, Signal::SIGKILL)?;
        let now = DeleteParams::default().grace_period(0);
        pods.delete(&pod.name, &now).await.with_context(|| format!("cannot delete pod {}", pod.name))?;
        Ok(())
    }

    /// From now on does nothing at all, as on a node that hangs: processes run on, nobody probes, restarts or reports.
    pub fn freeze(&self) {
        self.node.frozen.send_replace(true);
    }

    /// Goes on.
    pub fn thaw(&self) {
        self.node.frozen.send_replace(false);
    }

    /// Takes no new pods: they are `Unschedulable` until [`Self::uncordon`].
    pub fn cordon(&self) {
        self.node.cordoned.send_replace(true);
    }

    /// Takes pods again.
    pub fn uncordon(&self) {
        self.node.cordoned.send_replace(false);
    }

    /// Kills all processes and waits until they are gone.
    pub async fn stop(self) {
        self.task.abort();
        let exits: Vec<_> = self.kill_all().into_iter().collect();
        for exit in exits {
            process::wait(exit).await;
        }
    }

    fn kill_all(&self) -> Vec<tokio::sync::watch::Receiver<Option<std::process::ExitStatus>>> {
        let slots = self.node.slots();
        slots
            .values()
            .filter_map(|slot| {
                slot.signal(Signal::SIGKILL);
                slot.live().process.as_ref().map(process::Process::exit)
            })
            .collect()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
        self.kill_all();
    }
}

/// The folder of this program's profile: tests are one deeper than programs.
fn built_beside_us() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find the running program")?;
    let folder = program.parent().context("the running program has no folder")?;
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    Ok(folder.to_owned())
}
