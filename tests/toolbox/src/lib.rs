//! Which binaries a test cluster is made of, and where they are found.
//!
//! Two programs must agree on this: `xtask`, which builds what is missing, and the lab, which only runs what is there.
//! They share this crate, and it has no dependencies, so that `xtask` compiles in seconds and Go can build while cargo
//! does. Nothing here builds anything.

mod agreed;
mod lookup;
mod system;

pub use agreed::{FAULTY_BUILD, UNABLE};
pub use lookup::{Found, Origin, cache_root, find};
pub use system::{NODE_PROGRAMS, find_program};

use std::path::{Path, PathBuf};

/// One pinned Go module: a folder below `tests/go` whose `go.mod` and `go.sum` pin it and all it is built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Module {
    folder: &'static str,
    path: &'static str,
    version: &'static str,
}

const KUBERNETES: Module = Module { folder: "kubernetes", path: "k8s.io/kubernetes", version: "v1.36.3" };
const ETCD: Module = Module { folder: "etcd", path: "go.etcd.io/etcd/server/v3", version: "v3.6.16" };
const KWOK: Module = Module { folder: "kwok", path: "sigs.k8s.io/kwok", version: "v0.8.0" };
const HELM: Module = Module { folder: "helm", path: "helm.sh/helm/v4", version: "v4.3.2" };
const PROMETHEUS: Module =
    Module { folder: "prometheus", path: "github.com/prometheus/prometheus", version: "v0.316.0" };
const CONTAINERD: Module =
    Module { folder: "containerd", path: "github.com/containerd/containerd/v2", version: "v2.4.2" };
const RUNC: Module = Module { folder: "runc", path: "github.com/opencontainers/runc", version: "v1.4.3" };
const CNI: Module = Module { folder: "cni", path: "github.com/containernetworking/plugins", version: "v1.10.0" };
const COREDNS: Module = Module { folder: "coredns", path: "github.com/coredns/coredns", version: "v1.15.0" };

/// One binary that a test cluster may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    /// The store behind the API server.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// Deployments, garbage collection, namespaces and their service accounts.
    KubeControllerManager,
    /// Needed only with kwok and real nodes; the lab binds its pods itself.
    KubeScheduler,
    /// For people who look around in a running cluster, and for kustomize, which it contains.
    Kubectl,
    /// Pods that only pretend, by the hundred.
    Kwok,
    /// Lints, renders and installs the chart.
    Helm,
    /// Tests the alert rules.
    Promtool,
    /// The real node's agent.
    Kubelet,
    /// Services on the real node.
    KubeProxy,
    /// Runs the real node's containers.
    Containerd,
    /// Its helper beside each pod.
    ContainerdShim,
    /// Its client, with which images are loaded.
    Ctr,
    /// Starts one container.
    Runc,
    /// Network plugin: a bridge for the node's pods.
    CniBridge,
    /// Network plugin: a pod's own loopback.
    CniLoopback,
    /// Network plugin: addresses of pods.
    CniHostLocal,
    /// The cluster's DNS.
    Coredns,
}

impl Tool {
    /// What every control plane runs, and the one program that people use with it.
    pub const CONTROL_PLANE: [Self; 4] = [Self::Etcd, Self::KubeApiserver, Self::KubeControllerManager, Self::Kubectl];

    /// What tests of the chart and of the alerts run.
    pub const DEPLOY: [Self; 2] = [Self::Helm, Self::Promtool];

    /// What a real node runs besides the control plane.
    pub const NODE: [Self; 11] = [
        Self::KubeScheduler,
        Self::Kubelet,
        Self::KubeProxy,
        Self::Containerd,
        Self::ContainerdShim,
        Self::Ctr,
        Self::Runc,
        Self::CniBridge,
        Self::CniLoopback,
        Self::CniHostLocal,
        Self::Coredns,
    ];

    /// Every tool there is.
    pub const ALL: [Self; 18] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kubectl,
        Self::Kwok,
        Self::Helm,
        Self::Promtool,
        Self::Kubelet,
        Self::KubeProxy,
        Self::Containerd,
        Self::ContainerdShim,
        Self::Ctr,
        Self::Runc,
        Self::CniBridge,
        Self::CniLoopback,
        Self::CniHostLocal,
        Self::Coredns,
    ];

    /// File name of the binary, its module, and the folder of its `main` in that module.
    const fn origin(self) -> (&'static str, Module, &'static str) {
        match self {
            Self::Etcd => ("etcd", ETCD, ""),
            Self::KubeApiserver => ("kube-apiserver", KUBERNETES, "/cmd/kube-apiserver"),
            Self::KubeControllerManager => ("kube-controller-manager", KUBERNETES, "/cmd/kube-controller-manager"),
            Self::KubeScheduler => ("kube-scheduler", KUBERNETES, "/cmd/kube-scheduler"),
            Self::Kubectl => ("kubectl", KUBERNETES, "/cmd/kubectl"),
            Self::Kubelet => ("kubelet", KUBERNETES, "/cmd/kubelet"),
            Self::KubeProxy => ("kube-proxy", KUBERNETES, "/cmd/kube-proxy"),
            Self::Kwok => ("kwok", KWOK, "/cmd/kwok"),
            Self::Helm => ("helm", HELM, "/cmd/helm"),
            Self::Promtool => ("promtool", PROMETHEUS, "/cmd/promtool"),
            Self::Containerd => ("containerd", CONTAINERD, "/cmd/containerd"),
            Self::ContainerdShim => ("containerd-shim-runc-v2", CONTAINERD, "/cmd/containerd-shim-runc-v2"),
            Self::Ctr => ("ctr", CONTAINERD, "/cmd/ctr"),
            Self::Runc => ("runc", RUNC, ""),
            Self::CniBridge => ("bridge", CNI, "/plugins/main/bridge"),
            Self::CniLoopback => ("loopback", CNI, "/plugins/main/loopback"),
            Self::CniHostLocal => ("host-local", CNI, "/plugins/ipam/host-local"),
            Self::Coredns => ("coredns", COREDNS, ""),
        }
    }

    /// File name of the binary.
    pub const fn name(self) -> &'static str {
        self.origin().0
    }

    /// Pinned version, with its `v`.
    pub const fn version(self) -> &'static str {
        self.origin().1.version
    }

    /// Folder below `tests/go` whose `go.mod` and `go.sum` pin this tool and all it is built from.
    pub const fn module(self) -> &'static str {
        self.origin().1.folder
    }

    /// Go package of its `main`; one of our own for what would be far too large whole.
    pub fn package(self) -> String {
        let (_, module, folder) = self.origin();
        if module == COREDNS { ".".to_owned() } else { format!("{}{folder}", module.path) }
    }

    /// Build tags. runc filters system calls by libseccomp; promtool need not discover the services of every cloud.
    pub fn tags(self) -> Option<&'static str> {
        match self {
            Self::Runc => Some("seccomp"),
            Self::Promtool => Some("remove_all_sd"),
            _ => None,
        }
    }

    /// Whether it needs a C compiler and libseccomp. Everything else is pure Go.
    pub fn needs_c(self) -> bool {
        self == Self::Runc
    }

    /// Linker flags. Kubernetes must be told its version: otherwise it calls itself `v0.0.0-master+$Format:%H$`, on which
    /// version parsers choke.
    pub fn ldflags(self) -> String {
        let mut flags = String::from("-s -w");
        if self.origin().1 == KUBERNETES {
            let mut numbers = self.version().trim_start_matches('v').split('.');
            let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
            for (name, value) in [("gitVersion", self.version()), ("gitMajor", major), ("gitMinor", minor)] {
                flags.push_str(" -X k8s.io/component-base/version.");
                flags.push_str(name);
                flags.push('=');
                flags.push_str(value);
            }
        }
        flags
    }

    /// Sub-folder of the cache: keyed by version, so that a new pin never meets an old binary.
    pub fn cache_key(self) -> String {
        format!("{}-{}", self.module(), self.version())
    }

    /// Where the cache keeps the binary below `root`, whether it is there or not.
    pub fn cached_path(self, root: &Path) -> PathBuf {
        root.join(self.cache_key()).join(self.name())
    }

    /// `v1.36.3` counts as any `1.36.x`: patch releases of Kubernetes answer alike.
    fn minor(self) -> &'static str {
        let version = self.version().trim_start_matches('v');
        version.rsplit_once('.').map_or(version, |(minor, _)| minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_here_are_those_the_go_modules_pin() {
        let go = Path::new(env!("CARGO_MANIFEST_DIR")).join("../go");
        for tool in Tool::ALL {
            let file = go.join(tool.module()).join("go.mod");
            let text = std::fs::read_to_string(&file).unwrap();
            let pin = format!("{} {}", tool.origin().1.path, tool.version());
            let pinned =
                |line: &str| line.trim_end_matches(" // indirect").trim_start_matches("require ").trim() == pin;
            assert!(text.lines().any(pinned), "{pin}: {}", file.display());
            let own = file.with_file_name("main.go").exists() && tool.package() == ".";
            assert!(own || text.contains(&format!("{}\n", tool.package())), "tool line for {}", tool.package());
        }
    }

    #[test]
    fn every_tool_is_listed_once() {
        let names: std::collections::BTreeSet<_> = Tool::ALL.into_iter().map(Tool::name).collect();
        assert_eq!(names.len(), Tool::ALL.len());
        let grouped = [&Tool::CONTROL_PLANE[..], &Tool::DEPLOY, &Tool::NODE, &[Tool::Kwok]].concat();
        assert_eq!(names, grouped.into_iter().map(Tool::name).collect());
    }

    #[test]
    fn kubernetes_is_told_its_version() {
        assert_eq!(
            Tool::Kubectl.ldflags(),
            "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
             -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
        );
        assert_eq!(Tool::Etcd.ldflags(), "-s -w");
        assert_eq!(Tool::CniBridge.package(), "github.com/containernetworking/plugins/plugins/main/bridge");
        assert_eq!((Tool::Kubectl.minor(), Tool::Etcd.minor()), ("1.36", "3.6"));
    }
}
