//! The folder of one test cluster: removed after a success, kept after a failure, swept up after a kill.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Names of all such folders begin so, below the system's folder for temporary files.
const PREFIX: &str = "muster-lab-";
/// Locked by the kernel for as long as the owner lives.
const LOCK: &str = ".lock";
/// Marks what was kept for a person to read.
const KEEP: &str = ".keep";
/// Younger folders may still be on their way to their lock.
const SETTLED: Duration = Duration::from_mins(1);
/// What nobody looked at for a day goes too.
const KEPT_FOR: Duration = Duration::from_hours(24);
/// Set to keep every folder, whatever happened.
const KEEP_ALL: &str = "MUSTER_KEEP";

/// A folder with an owner.
#[derive(Debug)]
pub(crate) struct Workdir {
    dir: Option<TempDir>,
    path: PathBuf,
    _lock: File,
}

impl Workdir {
    /// A new folder; on the way, those of killed owners are removed.
    pub(crate) fn new() -> Result<Self> {
        let parent = std::env::temp_dir();
        sweep(&parent);
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent).context("cannot create a folder")?;
        let lock = File::create(dir.path().join(LOCK)).context("cannot create a lock file")?;
        lock.lock().context("cannot lock the new folder")?;
        Ok(Self { path: dir.path().to_owned(), dir: Some(dir), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates and returns a sub-folder.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Ends it: removed if `succeeded`, else kept. Returns where it was kept.
    pub(crate) fn finish(&mut self, succeeded: bool) -> Option<&Path> {
        let dir = self.dir.take()?;
        if succeeded && std::env::var_os(KEEP_ALL).is_none() {
            let _ = dir.close(); // what cannot be removed now is swept up later
            return None;
        }
        let kept = dir.keep();
        let _ = File::create(kept.join(KEEP)); // without the mark it only goes earlier
        Some(&self.path)
    }
}

/// Removes what owners left that did not live to clean up.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let named_so = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        if named_so && is_abandoned(&path) {
            let _ = fs::remove_dir_all(&path); // another process may be sweeping too
        }
    }
}

fn is_abandoned(path: &Path) -> bool {
    let patience = if path.join(KEEP).exists() { KEPT_FOR } else { SETTLED };
    let age = path.metadata().and_then(|meta| meta.modified()).ok().and_then(|modified| modified.elapsed().ok());
    age.is_some_and(|age| age > patience) && File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_removes_and_failure_keeps() {
        let mut good = Workdir::new().unwrap();
        let path = good.path().to_owned();
        fs::write(good.folder("logs").unwrap().join("a.log"), "x").unwrap();
        assert_eq!(good.finish(true), None);
        assert!(!path.exists());

        let mut bad = Workdir::new().unwrap();
        let kept = bad.finish(false).unwrap().to_owned();
        assert!(kept.join(KEEP).exists());
        fs::remove_dir_all(kept).unwrap();
    }

    #[test]
    fn only_folders_without_a_living_owner_are_abandoned() {
        let old = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        let owned = Workdir::new().unwrap();
        File::open(owned.path()).unwrap().set_times(old).unwrap();
        assert!(!is_abandoned(owned.path()), "its lock is held");

        let Workdir { dir, path, _lock: lock } = owned;
        drop(lock);
        assert!(is_abandoned(&path));
        File::create(path.join("new")).unwrap();
        assert!(!is_abandoned(&path), "too young");
        drop(dir);
    }
}
