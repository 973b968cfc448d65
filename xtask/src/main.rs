//! Project commands: `cargo xtask …`. Subcommands only; each has a file of its own.
//!
//! This package depends on almost nothing, because every command waits for it to compile.

#![expect(clippy::print_stderr, reason = "a program for people at a terminal; it has no log")]

mod bench;
mod ci;
mod cluster;
mod codegen;
mod demo;
mod deny;
mod image;
mod mutants;
mod step;
mod test;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Project commands", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a real cluster, three reconciler replicas and an aggregator, and show who runs what.
    Demo(demo::Args),
    /// Run every test; those of a real API server included.
    Test(test::Args),
    /// Check what must hold before a change goes in, tests apart.
    Ci,
    /// Write the generated files, or compare them with what is checked in.
    Codegen(codegen::Args),
    /// Check the house rules.
    Tidy,
    /// Check licences, banned crates and sources of all dependencies.
    Deny(deny::Args),
    /// Start a cluster to look around in.
    Cluster(cluster::Args),
    /// Write images of both programs, without a container engine.
    Image(image::Args),
    /// Measure.
    Bench(bench::Args),
    /// Put errors in on purpose, and see that tests notice.
    Mutants(mutants::Args),
    /// Find or build the binaries of a test cluster.
    Tools,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Ci => ci::run(),
        Command::Codegen(args) => codegen::run(args),
        Command::Tidy => tidy::run(),
        Command::Deny(args) => deny::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Image(args) => image::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Mutants(args) => mutants::run(&args),
        Command::Tools => tools::ensure(&muster_toolbox::Tool::ALL),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            step::exit_code(&error)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_are_well_formed() {
        super::Cli::command().debug_assert();
    }
}
