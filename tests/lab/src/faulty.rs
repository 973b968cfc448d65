//! The programs with injected faults (`--hang`, `--delay`), which no shipped build has.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use muster_toolbox::FAULTY_BUILD;

use crate::installation::deploy;

/// `reconciler` or `aggregator` built with the Cargo feature `fault`.
///
/// Both are built at once, and with the features of the whole workspace, so that nothing beneath them is compiled a second
/// time; if they are fresh, as after `cargo xtask test` has begun, that takes a second.
pub fn program(name: &str) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO")).args(FAULTY_BUILD).current_dir(deploy("..")).status();
    ensure!(status.context("cannot run cargo")?.success(), "cannot build the programs with injected faults");
    let tests = std::env::current_exe()?;
    Ok(tests.ancestors().nth(2).context("no build folder")?.join("examples").join(format!("faulty-{name}")))
}
