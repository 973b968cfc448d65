//! `cargo xtask demo`: the main job end to end, on a real API server.

use std::path::PathBuf;

use anyhow::Result;
use muster_toolbox::Tool;

use crate::{step, tools, workspace};

/// kubectl too: without `--once` the demo says what to try next, and that is kubectl.
const TOOLS: [Tool; 4] = [Tool::Etcd, Tool::KubeApiserver, Tool::KubeControllerManager, Tool::Kubectl];

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the table once and end, instead of staying up.
    #[arg(long)]
    once: bool,
    /// Print the executors as one Kubernetes List.
    #[arg(long)]
    json: bool,
    /// Manifests of your own to apply besides the samples: a file or a folder.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let pending = tools::Pending::start(if args.once { &Tool::CONTROL_PLANE } else { &TOOLS });
    step::run("build", &mut workspace::cargo(["build", "--workspace", "--bins"]))?;
    pending.wait()?;
    let mut demo = workspace::lab(false);
    demo.arg("demo");
    for (flag, set) in [("--once", args.once), ("--json", args.json)] {
        if set {
            demo.arg(flag);
        }
    }
    for file in &args.files {
        demo.arg("--file").arg(file);
    }
    step::become_command(&mut demo)
}
