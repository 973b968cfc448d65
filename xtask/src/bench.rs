//! `cargo xtask bench NAME`: optimised builds, real servers, one JSON object a line with `--json`.

use std::ffi::OsString;

use anyhow::Result;
use muster_toolbox::Tool;

use crate::{step, tools, workspace};

/// Argument of `livelock` that turns from virtual time to real HTTP.
const REAL: &str = "--real";

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which: `livelock` is a simulation (with `--real` over HTTP in real time), the others run on a real API server.
    name: String,
    /// Passed to the bench as they are.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.name == "livelock" && args.args.iter().any(|arg| arg == REAL) {
        let bench = ["run", "--release", "--quiet", "--package", "muster-executor", "--example", "livelock-real", "--"];
        return step::become_command(workspace::cargo(bench).args(args.args.iter().filter(|arg| *arg != REAL)));
    }
    if args.name == "livelock" {
        let bench = ["run", "--release", "--quiet", "--package", "muster-simulation", "--bin", "livelock", "--"];
        return step::become_command(workspace::cargo(bench).args(&args.args));
    }
    let pending = tools::Pending::start(&Tool::CONTROL_PLANE)?;
    step::run("build", &mut workspace::cargo(["build", "--release", "--workspace", "--bins"]))?;
    pending.wait()?;
    step::become_command(workspace::lab(true).args(["bench", &args.name]).args(&args.args))
}
