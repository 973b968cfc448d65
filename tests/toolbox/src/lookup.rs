//! The search order, kind to every kind of machine: a folder the person names, what is installed, what was built before.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Tool;

/// A binary that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Absolute path.
    pub path: PathBuf,
    /// Which step of the search found it.
    pub origin: Origin,
}

/// Where a binary was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In the folder `KUBEBUILDER_ASSETS`, the convention of controller-runtime's envtest. Taken as it is.
    Assets,
    /// On `PATH`, of the pinned minor version. Worth a word to the person, since the patch version may differ.
    Path,
    /// In the project's own cache, of exactly the pinned version.
    Cache,
}

/// Looks for `tool` in `KUBEBUILDER_ASSETS`, on `PATH` (only the pinned minor version), and in the cache.
pub fn find(tool: Tool) -> Option<Found> {
    in_assets(tool, env::var_os("KUBEBUILDER_ASSETS").as_deref())
        .or_else(|| on_path(tool, env::var_os("PATH").as_deref()))
        .or_else(|| in_cache(tool, cache_root().as_deref()))
}

/// The cache folder: `MUSTER_CACHE`, else `XDG_CACHE_HOME/muster`, else `~/.cache/muster`; none without a home.
pub fn cache_root() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("MUSTER_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("muster")))
        .or_else(|| set("HOME").map(|dir| dir.join(".cache/muster")))
        .and_then(|dir| std::path::absolute(dir).ok())
}

fn in_assets(tool: Tool, assets: Option<&OsStr>) -> Option<Found> {
    let path = std::path::absolute(Path::new(assets?).join(tool.name())).ok()?;
    is_executable(&path).then_some(Found { path, origin: Origin::Assets })
}

fn on_path(tool: Tool, path: Option<&OsStr>) -> Option<Found> {
    env::split_paths(path?)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(tool.name()))
        .find(|path| is_executable(path))
        .filter(|path| reports_version(path, tool.minor()))
        .map(|path| Found { path, origin: Origin::Path })
}

fn in_cache(tool: Tool, root: Option<&Path>) -> Option<Found> {
    let path = tool.cached_path(root?);
    is_executable(&path).then_some(Found { path, origin: Origin::Cache })
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Asks the binary itself. kubectl and helm have ways of their own; they answer the other with an error, which is "no".
fn reports_version(path: &Path, minor: &str) -> bool {
    let asked = match path.file_name().and_then(OsStr::to_str) {
        Some("kubectl") => &["version", "--client"][..],
        Some("helm") => &["version", "--short"],
        _ => &["--version"],
    };
    Command::new(path)
        .args(asked)
        .output()
        .is_ok_and(|answer| answer.status.success() && mentions(&String::from_utf8_lossy(&answer.stdout), minor))
}

/// Whether a word of `text` is a version of line `minor`: `1.3` must not pass for `1.36.3`.
fn mentions(text: &str, minor: &str) -> bool {
    text.split_whitespace()
        .filter_map(|word| word.trim_start_matches('v').strip_prefix(minor))
        .any(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with an executable `name` that prints `says`, removed when dropped.
    struct Dir(PathBuf);

    impl Dir {
        fn with(label: &str, name: &str, says: &str) -> Self {
            let dir = env::temp_dir().join(format!("muster-toolbox-{}-{label}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            let file = dir.join(name);
            std::fs::write(&file, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            Self(dir)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn only_the_pinned_minor_version_is_taken_from_path() {
        let right = Dir::with("right", "kube-apiserver", "Kubernetes v1.36.9");
        let wrong = Dir::with("wrong", "kube-apiserver", "Kubernetes v1.3.6");
        let found = on_path(Tool::KubeApiserver, Some(right.0.as_os_str())).unwrap();
        assert_eq!(found, Found { path: right.0.join("kube-apiserver"), origin: Origin::Path });
        assert_eq!(on_path(Tool::KubeApiserver, Some(wrong.0.as_os_str())), None);
        assert_eq!(on_path(Tool::Etcd, Some(right.0.as_os_str())), None);
    }

    #[test]
    fn assets_are_taken_as_they_are_and_a_plain_file_is_not_a_binary() {
        let dir = Dir::with("assets", "etcd", "etcd Version: 3.5.0");
        assert_eq!(in_assets(Tool::Etcd, Some(dir.0.as_os_str())).unwrap().origin, Origin::Assets);
        std::fs::set_permissions(dir.0.join("etcd"), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(in_assets(Tool::Etcd, Some(dir.0.as_os_str())), None);
    }

    #[test]
    fn version_words() {
        assert!(mentions("etcd Version: 3.6.16\nGit SHA: x", "3.6"));
        assert!(mentions("Kubernetes v1.36.3", "1.36"));
        assert!(!mentions("Kubernetes v1.360.3", "1.36"));
        assert!(!mentions("kwok version v0.8.0 go1.36", "1.36"));
    }
}
