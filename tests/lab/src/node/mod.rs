//! A real node: kubelet, containerd, runc, Services and DNS, beside a control plane of its own, on one machine.
//!
//! Here pods are containers, probes are the kubelet's, and Deployments roll as they do for users. All of it is in
//! namespaces that end with it. What one node cannot show: NetworkPolicies are not enforced by its bridge, there is no
//! metrics API for an autoscaler, and a drain finds no other node.

mod cgroups;
mod commands;
mod forward;
mod namespaces;
mod support;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::Api;

use crate::control_plane::{self, Component, ControlPlane, Controllers};
use crate::process::{Program, tail, wait as ended};
use crate::wait;
use cgroups::Cgroups;
use commands::Files;
use namespaces::Enter;

pub use commands::NODE;
pub use forward::Forward;
pub(crate) use forward::forward;
pub use namespaces::Namespaces;
pub(crate) use namespaces::{Enter as EnterNamespaces, NODE_IP};
pub use support::check as supported;

/// A control plane with one real node.
#[derive(Debug)]
pub struct RealNode {
    /// The control plane, in the node's network.
    pub plane: ControlPlane,
    namespaces: Arc<Namespaces>,
    files: Files,
    components: Vec<Component>,
    cgroups: Cgroups,
}

/// Loads an image archive into the node of another process: the one whose files are in `root`, held by process `holder`.
pub async fn load_into(root: &Path, holder: i32, archive: &Path) -> Result<()> {
    let files = Files { root: root.to_owned(), logs: root.join("logs") };
    import(&Namespaces::held_by(holder), &files, archive).await
}

async fn import(namespaces: &Namespaces, files: &Files, archive: &Path) -> Result<()> {
    let import = namespaces.inside(Enter::All, commands::import(files, archive)?)?;
    wait::within(wait::scaled(IMPORT), format!("{} to be imported", archive.display()), || async {
        let exit = ended(import.start()?.exit()).await.context("no exit code")?;
        ensure!(exit.success(), "{}", tail(&import.log, 3));
        Ok(())
    })
    .await
}

/// How long containerd may take to answer on a machine that is busy.
const IMPORT: Duration = Duration::from_mins(1);

impl RealNode {
    /// Starts all of it, and returns when the node is ready to run pods.
    pub async fn start(options: control_plane::Options) -> Result<Self> {
        support::check()?;
        let trunk = tempfile::Builder::new().prefix("muster-node-").tempdir().context("cannot create a folder")?;
        let pause = commands::pause(trunk.path())?;
        let namespaces = Arc::new(Namespaces::create(&pause, trunk.path()).await?);
        let options =
            control_plane::Options { controllers: Controllers::All, inside: Some(Arc::clone(&namespaces)), ..options };
        let plane = ControlPlane::start(options).await?;
        let root = plane.root().to_owned();
        std::fs::copy(&pause, root.join("pause")).context("cannot copy the sandbox's program")?;
        let cgroups = Cgroups::create(&root)?;
        let files = Files { logs: plane.logs(), root };
        let mut node = Self { plane, namespaces, files, components: Vec::new(), cgroups };
        node.start_components().await?;
        Ok(node)
    }

    async fn start_components(&mut self) -> Result<()> {
        let kubeconfig = self.plane.kubeconfig();
        self.component("containerd", Enter::All, commands::containerd(&self.files)?)?;
        let pause = commands::pause_image(&self.files)?;
        self.load(&pause).await?;
        let cgroup = self.cgroups.path();
        self.component("kubelet", Enter::All, commands::kubelet(&self.files, &kubeconfig, &cgroup)?)?;
        self.component("kube-proxy", Enter::All, commands::kube_proxy(&self.files, &kubeconfig)?)?;
        self.component("kube-scheduler", Enter::Network, commands::scheduler(&self.files, &kubeconfig)?)?;
        self.component("coredns", Enter::Network, commands::coredns(&self.files, &kubeconfig)?)?;
        let nodes: Api<NodeObject> = Api::all(self.plane.client()?);
        wait::until("the node to be ready", || async {
            self.components.iter().try_for_each(Component::check)?;
            let status = nodes.get(NODE).await?.status.context("no status")?;
            let ready = status.conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
            let ready = ready.context("no condition")?;
            ensure!(ready.status == "True", "{}", ready.message.unwrap_or_default());
            Ok(())
        })
        .await
    }

    fn component(&mut self, name: &'static str, enter: Enter, program: Program) -> Result<()> {
        let component = Component::new(name, self.namespaces.inside(enter, program)?);
        component.start()?;
        self.components.push(component);
        Ok(())
    }

    /// Loads an image archive, for pods that then need not pull it.
    pub async fn load(&self, archive: &Path) -> Result<()> {
        import(&self.namespaces, &self.files, archive).await
    }

    /// The process through which another one finds this node's namespaces.
    pub fn holder(&self) -> i32 {
        self.namespaces.pid()
    }

    /// `program`, to be started in the node's network.
    pub fn in_network(&self, program: Program) -> Result<Program> {
        self.namespaces.inside(Enter::Network, program)
    }

    /// Connects whoever comes to `from`, on this machine, with `to`, in the node's network, a pod's address for instance.
    pub fn forward(&self, from: SocketAddr, to: SocketAddr) -> Result<Forward> {
        forward(&self.namespaces, from, to)
    }

    /// Folder of the logs, of containers also.
    pub fn pod_logs(&self) -> PathBuf {
        self.files.root.join("pods")
    }

    /// Ends it after a success: all processes gone, all files removed.
    pub async fn stop(self) {
        self.namespaces.end();
        for component in &self.components {
            component.kill().await;
        }
        self.plane.stop().await;
    }
}
