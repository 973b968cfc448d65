//! `cargo xtask codegen`: the custom resource definitions under `deploy/crds`, written by the crate that knows the kinds.

use anyhow::Result;

use crate::{step, workspace};

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

pub(crate) fn run(args: Args) -> Result<()> {
    let mut generate = workspace::cargo(["run", "--quiet", "--package", "muster-api", "--example", "codegen", "--"]);
    if args.check {
        generate.arg("--check");
    }
    step::run(if args.check { "codegen --check" } else { "codegen" }, &mut generate)
}
