//! `muster-lab`: the cluster of the tests, for people. `cargo xtask` builds what it needs and starts it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use muster_lab::{bench, cluster, demo};
use tracing_subscriber::EnvFilter;

#[derive(Debug, Parser)]
#[command(name = "muster-lab", about = "A real Kubernetes on this machine", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A cluster to look around in.
    #[command(subcommand)]
    Cluster(Cluster),
    /// Three replicas and an aggregator at work, and who runs what.
    Demo(demo::Args),
    /// Figures.
    #[command(subcommand)]
    Bench(bench::Bench),
}

#[derive(Debug, Subcommand)]
enum Cluster {
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

#[tokio::main]
async fn main() -> ExitCode {
    // kube's client calls every refused request an error; while a server starts, and in tests, they are expected.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let done = match Cli::parse().command {
        Command::Cluster(Cluster::Up { control_plane: true }) => cluster::up().await,
        Command::Cluster(Cluster::Up { control_plane: false }) => cluster::up_with_node().await,
        Command::Cluster(Cluster::Status) => cluster::status().await,
        Command::Cluster(Cluster::Load { archives }) => cluster::load(&archives).await,
        Command::Cluster(Cluster::Down) => cluster::down().await,
        Command::Demo(args) => demo::run(args).await,
        Command::Bench(bench) => bench::run(bench).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the last word of a command line program")]
fn tell(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_are_well_formed() {
        super::Cli::command().debug_assert();
    }
}
