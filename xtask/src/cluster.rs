//! `cargo xtask cluster up`: a cluster to look around in.

use anyhow::{Result, bail};
use muster_toolbox::Tool;

use crate::{step, tools, workspace};

/// Arguments of `cluster`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start it, and keep it up until Ctrl-C.
    Up {
        /// API server, etcd and controller manager, with the lab playing kubelet.
        #[arg(long)]
        control_plane: bool,
    },
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let Command::Up { control_plane } = args.command;
    if !control_plane {
        bail!("say what to start: cargo xtask cluster up --control-plane");
    }
    let pending = tools::Pending::start(&Tool::CONTROL_PLANE)?;
    step::run("build", &mut workspace::cargo(["build", "--workspace", "--bins"]))?;
    pending.wait()?;
    step::become_command(workspace::lab(false).args(["cluster", "up", "--control-plane"]))
}
