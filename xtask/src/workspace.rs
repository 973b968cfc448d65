//! Where things are: the repository, the build output, cargo itself.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
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
