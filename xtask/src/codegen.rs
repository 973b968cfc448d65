//! `cargo xtask codegen`: what is checked in and made from code: definitions, protobuf code, pages of the documentation.
//! Each is written by the crate that knows it.

use anyhow::Result;

use crate::{step, workspace};

/// Packages and their examples that write generated files.
const GENERATORS: [(&str, &str); 3] =
    [("muster-api", "codegen"), ("muster-runtime", "protogen"), ("muster-runtime", "metricsdoc")];

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
    for (package, example) in GENERATORS {
        let mut generate = workspace::cargo(["run", "--quiet", "--package", package, "--example", example, "--"]);
        if args.check {
            generate.arg("--check");
        }
        step::run(&format!("codegen {example}{}", if args.check { " --check" } else { "" }), &mut generate)?;
    }
    Ok(())
}
