//! Configuration and command lines of what runs on a real node. Each setting is there for a reason.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use muster_image::{Image, write as write_image};
use muster_toolbox::Tool;

use super::namespaces::NODE_IP;
use super::support;
use crate::control_plane::{locate, write};
use crate::process::Program;

/// Name of the one node.
pub const NODE: &str = "node";
/// The image of a pod's sandbox.
const PAUSE: &str = "localhost/muster-pause:1";
/// Addresses of pods.
const POD_CIDR: &str = "10.244.0.0/24";

/// Where a node keeps its files, all below the cluster's own folder.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) root: PathBuf,
    pub(super) logs: PathBuf,
}

impl Files {
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        write(&path, text)?;
        Ok(path)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.root.join("containerd.sock")
    }

    fn program(&self, tool: Tool, args: Vec<String>) -> Result<Program> {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}:/usr/sbin:/sbin", self.root.join("bin").display());
        let log = self.logs.join(format!("{}.log", tool.name()));
        Ok(Program { path: locate(tool)?, args, env: vec![("PATH".to_owned(), path)], log })
    }
}

/// Compiles the program of the sandbox, which is also what holds the node's namespaces.
pub(crate) fn pause(root: &Path) -> Result<PathBuf> {
    let (source, program) = (root.join("pause.c"), root.join("pause"));
    write(&source, include_str!("pause.c"))?;
    let compiled = Command::new(support::program("cc")?)
        .args(["-static", "-Os", "-s", "-o"])
        .args([&program, &source])
        .output()
        .context("cannot start the C compiler")?;
    ensure!(compiled.status.success(), "cannot compile: {}", String::from_utf8_lossy(&compiled.stderr));
    Ok(program)
}

/// The sandbox's image, as an archive.
pub(super) fn pause_image(files: &Files) -> Result<PathBuf> {
    let archive = files.root.join("pause.tar");
    let program = files.root.join("pause");
    write_image(
        &archive,
        &Image { name: PAUSE, program: &program, authorities: None, version: "1", compressed: false },
    )?;
    Ok(archive)
}

pub(super) fn containerd(files: &Files) -> Result<Program> {
    let bin = files.folder("bin")?;
    // Its helper, runc and the plugins are found by their names in a folder.
    for tool in [Tool::ContainerdShim, Tool::Runc, Tool::CniBridge, Tool::CniLoopback, Tool::CniHostLocal] {
        let link = bin.join(tool.name());
        symlink(locate(tool)?, &link).with_context(|| format!("cannot create {}", link.display()))?;
    }
    let plugins = files.folder("cni")?;
    let data = files.folder("cni-data")?;
    let network = serde_json::json!({
        "cniVersion": "1.0.0", "name": "muster-lab",
        "plugins": [
            {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipam": {
                "type": "host-local", "dataDir": data, "ranges": [[{"subnet": POD_CIDR}]], "routes": [{"dst": "0.0.0.0/0"}],
            }},
        ],
    });
    write(&plugins.join("10-bridge.conflist"), &network.to_string())?;
    let (root, state) = (files.folder("containerd")?, files.folder("containerd-state")?);
    let config = format!(
        "version = 3\nroot = '{root}'\nstate = '{state}'\n\
         [grpc]\naddress = '{socket}'\n\
         [plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = '{PAUSE}'\n\
         [plugins.'io.containerd.cri.v1.runtime']\n\
         # Without it runc may not set what a process may not set for itself in a namespace.\n\
         restrict_oom_score_adj = true\nnetns_mounts_under_state_dir = true\n\
         [plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['{bin}']\nconf_dir = '{plugins}'\n\
         [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n\
         [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nBinaryName = '{runc}'\n",
        root = root.display(),
        state = state.display(),
        socket = files.socket().display(),
        bin = bin.display(),
        plugins = plugins.display(),
        runc = bin.join(Tool::Runc.name()).display(),
    );
    let config = files.file("containerd.toml", &config)?;
    files.program(Tool::Containerd, vec![format!("--config={}", config.display())])
}

/// Loads an image archive.
pub(super) fn import(files: &Files, archive: &Path) -> Result<Program> {
    let args = [
        format!("--address={}", files.socket().display()),
        "--namespace=k8s.io".to_owned(),
        "images".to_owned(),
        "import".to_owned(),
        "--local".to_owned(),
        archive.display().to_string(),
    ];
    files.program(Tool::Ctr, args.to_vec())
}

pub(super) fn kubelet(files: &Files, kubeconfig: &Path, cgroup: &str) -> Result<Program> {
    let config = serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        // Only the API server reaches it, in a network of its own.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failCgroupV1": false,
        "failSwapOn": false,
        "containerRuntimeEndpoint": format!("unix://{}", files.socket().display()),
        "clusterDNS": [NODE_IP],
        "clusterDomain": "cluster.local",
        // A disk that is nearly full is this machine's business.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": files.folder("pods")?,
        "volumePluginDir": files.folder("volume-plugins")?,
    });
    let config = files.file("kubelet.json", &config.to_string())?;
    let args = vec![
        format!("--config={}", config.display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-dir={}", files.folder("kubelet")?.display()),
        format!("--cert-dir={}", files.folder("kubelet-pki")?.display()),
        format!("--node-ip={NODE_IP}"),
        format!("--hostname-override={NODE}"),
    ];
    files.program(Tool::Kubelet, args)
}

pub(super) fn kube_proxy(files: &Files, kubeconfig: &Path) -> Result<Program> {
    let args = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--proxy-mode=nftables".to_owned(),
        "--cluster-cidr=10.244.0.0/16".to_owned(),
        format!("--hostname-override={NODE}"),
        // The machine's limits of connections are not a node's to set.
        "--conntrack-max-per-core=0".to_owned(),
        "--conntrack-tcp-timeout-established=0".to_owned(),
        "--conntrack-tcp-timeout-close-wait=0".to_owned(),
    ];
    files.program(Tool::KubeProxy, args)
}

pub(super) fn scheduler(files: &Files, kubeconfig: &Path) -> Result<Program> {
    let args = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    files.program(Tool::KubeScheduler, args)
}

pub(super) fn coredns(files: &Files, kubeconfig: &Path) -> Result<Program> {
    let config = format!(
        ".:53 {{\n  bind {NODE_IP}\n  errors\n  kubernetes cluster.local in-addr.arpa {{\n    kubeconfig {}\n  }}\n}}\n",
        kubeconfig.display()
    );
    let config = files.file("Corefile", &config)?;
    files.program(Tool::Coredns, vec![format!("-conf={}", config.display())])
}
