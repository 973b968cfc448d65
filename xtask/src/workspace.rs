//! Where things are: the repository, the build output, cargo itself.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// What git would commit, relative to the root: the project, and not what else lies around.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("cannot start git")?;
    if !listed.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    let names = String::from_utf8(listed.stdout).context("git lists a name that is not UTF-8")?;
    Ok(names.split_terminator('\0').map(PathBuf::from).collect())
}

/// Cargo's output folder.
pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Folder of the built programs of a profile.
pub(crate) fn bin_dir(release: bool) -> PathBuf {
    target_dir().join(if release { "release" } else { "debug" })
}

/// Cargo, the one that runs us if it does, at the repository's root.
pub(crate) fn cargo<I, S>(args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: Into<OsString>,
{
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(args.into_iter().map(Into::into)).current_dir(root());
    cargo
}

/// The lab's program, built for `release` or not, told where the programs it starts are.
pub(crate) fn lab(release: bool) -> Command {
    let dir = bin_dir(release);
    let mut lab = Command::new(dir.join("muster-lab"));
    lab.env("MUSTER_BIN_DIR", dir);
    lab
}
