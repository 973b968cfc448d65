//! Control groups of one node: a group of its own in every hierarchy, so that nodes do not meet and nothing is left.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const ROOT: &str = "/sys/fs/cgroup";
/// Names of all such groups begin so; the rest is the name of the owner's folder.
const PREFIX: &str = "muster-lab-";

/// The groups, removed when this goes.
#[derive(Debug)]
pub(crate) struct Cgroups {
    name: String,
}

impl Cgroups {
    /// Creates them, called like `dir`; on the way, those of owners that are gone are removed.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        sweep(Path::new(ROOT), dir.parent().unwrap_or(dir));
        let name = dir.file_name().context("a folder without a name")?.to_string_lossy().into_owned();
        for hierarchy in hierarchies(Path::new(ROOT)) {
            let group = hierarchy.join(&name);
            fs::create_dir_all(&group).with_context(|| format!("cannot create {}", group.display()))?;
            for file in ["cpuset.cpus", "cpuset.mems"] {
                // An old hierarchy's group may use no processor until it is told which; a new one's may use all.
                if let Ok(all) = fs::read(hierarchy.join(file)) {
                    let _ = fs::write(group.join(file), all);
                }
            }
        }
        Ok(Self { name })
    }

    /// As the kubelet is told.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.name)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for hierarchy in hierarchies(Path::new(ROOT)) {
            remove(&hierarchy.join(&self.name));
        }
    }
}

/// Every mounted hierarchy: one, or one for each controller.
fn hierarchies(root: &Path) -> Vec<PathBuf> {
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    let entries = fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| path.join("cgroup.procs").exists()).collect()
}

/// Removes groups whose owner's folder is gone.
fn sweep(root: &Path, folders: &Path) {
    for hierarchy in hierarchies(root) {
        for entry in fs::read_dir(hierarchy).into_iter().flatten().filter_map(Result::ok) {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(PREFIX) && !folders.join(&name).exists() {
                remove(&entry.path());
            }
        }
    }
}

/// Groups go one by one from the innermost; one with processes stays, and is swept up later.
fn remove(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_without_an_owner_go_from_the_innermost() {
        let (root, folders) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let gone = root.path().join("cpu/muster-lab-gone/kubepods/pod1");
        let owned = root.path().join("cpu/muster-lab-owned");
        for dir in [&gone, &owned, &root.path().join("cpu/other"), &folders.path().join("muster-lab-owned")] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(root.path().join("cpu/cgroup.procs"), "").unwrap();
        sweep(root.path(), folders.path());
        assert!(owned.exists() && root.path().join("cpu/other").exists());
        assert!(!root.path().join("cpu/muster-lab-gone").exists());
    }
}
