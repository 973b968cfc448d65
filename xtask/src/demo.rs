//! `cargo xtask demo`: the main job end to end, on a real API server.

use std::ffi::OsString;

use anyhow::Result;
use muster_toolbox::Tool;

use crate::{step, tools, workspace};

/// Arguments of `demo`. They are those of the lab's program, which is the one place that knows them.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `--once`, `--json`, `-f FILE`, …; `--help` names them all.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let pending = tools::Pending::start(&Tool::CONTROL_PLANE)?;
    step::run("build", &mut workspace::cargo(["build", "--workspace", "--bins"]))?;
    pending.wait()?;
    step::become_command(workspace::lab(false).arg("demo").args(&args.args))
}
