//! A copy of the working tree, so that no mutant can be left behind in the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::patch::Patch;
use crate::workspace;

/// A folder of sources.
#[derive(Debug)]
pub(super) struct Tree(PathBuf);

impl Tree {
    /// The sources themselves, to check patches against.
    pub(super) fn of(root: &Path) -> Self {
        Self(root.to_owned())
    }

    /// A copy of what git would commit. Files that are equal stay as they are, so that cargo builds only what changed.
    pub(super) fn at(root: PathBuf) -> Result<Self> {
        let tree = Self(root);
        let wanted = workspace::files()?;
        for file in &wanted {
            tree.copy(file)?;
        }
        // A test that was renamed must not live on here: cargo finds tests by their files.
        let wanted: BTreeSet<PathBuf> = wanted.into_iter().map(|file| tree.0.join(file)).collect();
        remove_others(&tree.0, &wanted)?;
        Ok(tree)
    }

    pub(super) fn root(&self) -> &Path {
        &self.0
    }

    /// Fails, in words, if the patch does not fit.
    pub(super) fn check(&self, patch: &Patch) -> Result<()> {
        self.git_apply(patch, &["--check"])
    }

    /// Makes the change.
    pub(super) fn apply(&self, patch: &Patch) -> Result<()> {
        self.git_apply(patch, &[])
    }

    /// Undoes the change.
    pub(super) fn restore(&self, patch: &Patch) -> Result<()> {
        patch.changes.iter().try_for_each(|file| self.copy(file))
    }

    fn git_apply(&self, patch: &Patch, args: &[&str]) -> Result<()> {
        let mut git = Command::new("git");
        // Below another repository, git would pass over every file that this one does not track.
        git.env("GIT_CEILING_DIRECTORIES", self.0.parent().unwrap_or(&self.0));
        let output = git.arg("apply").args(args).arg(&patch.file).current_dir(&self.0).output();
        let output = output.context("cannot start git")?;
        if !output.status.success() {
            bail!("{} does not apply: {}", patch.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    fn copy(&self, file: &Path) -> Result<()> {
        let (from, to) = (workspace::root().join(file), self.0.join(file));
        let Ok(content) = fs::read(&from) else { return Ok(()) }; // deleted but not yet committed
        if fs::read(&to).is_ok_and(|copy| copy == content) {
            return Ok(());
        }
        let copied = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&to, content));
        copied.with_context(|| format!("cannot write {}", to.display()))
    }
}

fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}
