//! Which binaries a test cluster is made of, and where they are found.
//!
//! Two programs must agree on this: `xtask`, which builds what is missing, and the lab, which only runs what is there.
//! They share this crate, and it has no dependencies, so that `xtask` compiles in seconds and Go can build while cargo
//! does. Nothing here builds anything.

mod lookup;

pub use lookup::{Found, Origin, cache_root, find};

use std::path::{Path, PathBuf};

/// Version of every Kubernetes binary; the same as in `tests/go/kubernetes/go.mod`.
const KUBERNETES: &str = "v1.36.3";
/// Version of etcd; the same as in `tests/go/etcd/go.mod`.
const ETCD: &str = "v3.6.16";
/// Version of kwok; the same as in `tests/go/kwok/go.mod`.
const KWOK: &str = "v0.8.0";

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
    /// For people who look around in a running cluster.
    Kubectl,
    /// Pods that only pretend, by the hundred.
    Kwok,
}

impl Tool {
    /// What every control plane runs, and the one program that people use with it.
    pub const CONTROL_PLANE: [Self; 4] = [Self::Etcd, Self::KubeApiserver, Self::KubeControllerManager, Self::Kubectl];

    /// Every tool there is.
    pub const ALL: [Self; 6] =
        [Self::Etcd, Self::KubeApiserver, Self::KubeControllerManager, Self::KubeScheduler, Self::Kubectl, Self::Kwok];

    /// File name of the binary.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
        }
    }

    /// Pinned version, with its `v`.
    pub const fn version(self) -> &'static str {
        match self {
            Self::Etcd => ETCD,
            Self::Kwok => KWOK,
            _ => KUBERNETES,
        }
    }

    /// Folder below `tests/go` whose `go.mod` and `go.sum` pin this tool and all it is built from.
    pub const fn module(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Kwok => "kwok",
            _ => "kubernetes",
        }
    }

    /// Go package of its `main`.
    pub const fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
        }
    }

    /// Linker flags. Kubernetes must be told its version: otherwise it calls itself `v0.0.0-master+$Format:%H$`, on which
    /// version parsers choke.
    pub fn ldflags(self) -> String {
        let mut flags = String::from("-s -w");
        if self.module() == "kubernetes" {
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
            let module = match tool {
                Tool::Etcd => "go.etcd.io/etcd/server/v3",
                Tool::Kwok => "sigs.k8s.io/kwok",
                _ => "k8s.io/kubernetes",
            };
            let pin = format!("{module} {}", tool.version());
            let pinned =
                |line: &str| line.trim_end_matches(" // indirect").trim_start_matches("require ").trim() == pin;
            assert!(text.lines().any(pinned), "{pin}: {}", file.display());
            assert!(text.contains(&format!("{}\n", tool.package())), "tool line for {}", tool.package());
        }
    }

    #[test]
    fn kubernetes_is_told_its_version() {
        assert_eq!(
            Tool::Kubectl.ldflags(),
            "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
             -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
        );
        assert_eq!(Tool::Etcd.ldflags(), "-s -w");
        assert_eq!((Tool::Kubectl.minor(), Tool::Etcd.minor()), ("1.36", "3.6"));
    }
}
