//! How another command finds the cluster that `cluster up` keeps up: a file in its folder, good for as long as its process
//! lives.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::process::signal;
use crate::wait;

/// Name of the file.
const FILE: &str = "cluster.json";

/// A cluster with a node that some process keeps up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// The process that keeps it up.
    pub(crate) pid: u32,
    /// The process through which the node's namespaces are entered.
    pub(crate) holder: i32,
    /// Its folder.
    pub(crate) root: PathBuf,
}

impl Running {
    /// Lets others find it.
    pub(crate) fn announce(&self) -> Result<()> {
        let text = serde_json::to_string(self).context("cannot describe the cluster")?;
        std::fs::write(self.root.join(FILE), text).context("cannot announce the cluster")
    }

    /// The one that is up, if any.
    pub(crate) fn find() -> Option<Self> {
        Self::find_in(&std::env::temp_dir(), |pid| Path::new(&format!("/proc/{pid}")).exists())
    }

    fn find_in(folder: &Path, lives: impl Fn(u32) -> bool) -> Option<Self> {
        let folders = std::fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path().join(FILE));
        let found = folders.filter_map(|file| serde_json::from_str::<Self>(&std::fs::read_to_string(file).ok()?).ok());
        found.into_iter().find(|running| lives(running.pid))
    }

    /// Kubeconfig of the administrator.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// Asks its process to end, and waits until its folder is gone, which goes last.
    pub(crate) async fn end(&self) -> Result<()> {
        signal(i32::try_from(self.pid).context("process number")?, Signal::SIGTERM)?;
        wait::until("the cluster to be gone", || async {
            ensure!(!self.root.exists(), "{} is still there", self.root.display());
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cluster_whose_process_lives_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("muster-lab-x");
        std::fs::create_dir(&root).unwrap();
        let running = Running { pid: 7, holder: 8, root };
        running.announce().unwrap();
        assert_eq!(Running::find_in(folder.path(), |pid| pid == 7), Some(running));
        assert_eq!(Running::find_in(folder.path(), |_| false), None);
    }
}
