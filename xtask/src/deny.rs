//! `cargo xtask deny`: dependencies against `deny.toml`, with a cargo-deny of a fixed version from our own cache.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use muster_toolbox::cache_root;

use crate::{step, workspace};

/// Pinned, because a new version may bring new checks; move it in a change of its own.
const VERSION: &str = "0.20.2";

/// Arguments of `deny`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Also ask the advisory database. It needs the network and changes by itself, so it never blocks a change.
    #[arg(long)]
    advisories: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = installed()?;
    let mut deny = Command::new(binary);
    deny.current_dir(workspace::root()).args(["--locked", "check", "--hide-inclusion-graph"]);
    deny.args(["bans", "licenses", "sources"]);
    if args.advisories {
        deny.arg("advisories");
    }
    step::run("deny", &mut deny)
}

fn installed() -> Result<PathBuf> {
    let root = cache_root().context("no cache folder: set MUSTER_CACHE or HOME")?.join(format!("cargo-deny-{VERSION}"));
    let binary = root.join("bin/cargo-deny");
    if !binary.exists() {
        fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
        let mut install = workspace::cargo(["install", "--quiet", "--locked", "cargo-deny", "--version", VERSION]);
        // A build folder of its own: the workspace's must not be locked for the minutes this takes.
        install.arg("--root").arg(&root).arg("--target-dir").arg(root.join("build"));
        step::run("install cargo-deny (about 2 min, once)", &mut install)?;
        fs::remove_dir_all(root.join("build")).context("cannot remove the build folder of cargo-deny")?;
    }
    Ok(binary)
}
