//! `cargo xtask codegen`: what is checked in and made from code: definitions, protobuf code, pages of the documentation.
//! Each is written by the crate that knows it.

mod flags;

use std::process::Command;

use anyhow::Result;

use crate::{step, workspace};

/// The examples that write generated files, each in the crate that knows them.
const GENERATORS: [&str; 3] = ["codegen", "protogen", "metricsdoc"];

/// Arguments of `codegen`.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if anything would change.
    #[arg(long)]
    check: bool,
}

impl Args {
    /// What `ci` runs.
    pub(crate) const CHECK: Self = Self { check: true };
}

/// Builds the workspace as the tests do, so that nothing is compiled twice for the sake of a few small programs.
pub(crate) fn run(args: Args) -> Result<()> {
    step::run("build generators", &mut workspace::cargo(["build", "--workspace", "--bins", "--examples"]))?;
    for name in GENERATORS {
        let mut generate = Command::new(workspace::bin_dir(false).join("examples").join(name));
        if args.check {
            generate.arg("--check");
        }
        step::run(&format!("{name}{}", if args.check { " --check" } else { "" }), &mut generate)?;
    }
    flags::run(args.check)
}
