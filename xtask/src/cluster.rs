//! `cargo xtask cluster`: a cluster to look around in, with a real node or a control plane alone.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
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
        /// API server, etcd and controller manager, with the lab playing kubelet; no root needed.
        #[arg(long)]
        control_plane: bool,
    },
    /// Say which cluster with a node is up, and what runs on it.
    Status,
    /// Load image archives into it.
    Load {
        /// OCI archives, as `cargo xtask image` writes them.
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// End it.
    Down,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (tools, words) = match &args.command {
        Command::Up { control_plane: true } => {
            (Tool::CONTROL_PLANE.to_vec(), vec!["up".into(), "--control-plane".into()])
        }
        Command::Up { control_plane: false } => {
            tools::prepare()?;
            ([&Tool::CONTROL_PLANE[..], &Tool::NODE, &[Tool::Helm]].concat(), vec!["up".into()])
        }
        Command::Status => (Vec::new(), vec!["status".into()]),
        Command::Down => (Vec::new(), vec!["down".into()]),
        Command::Load { archives } => {
            (Vec::new(), ["load".into()].into_iter().chain(archives.iter().map(OsString::from)).collect::<Vec<_>>())
        }
    };
    let pending = tools::Pending::start(&tools)?;
    step::run("build", &mut workspace::cargo(["build", "--workspace", "--bins"]))?;
    pending.wait()?;
    step::become_command(workspace::lab(false).arg("cluster").args(words))
}
