//! `cargo xtask ci`: what must hold before a change goes in. People and the pipeline run the same command.

use anyhow::Result;

use crate::{codegen, deny, mutants, step, tidy, workspace};

pub(crate) fn run() -> Result<()> {
    step::run("fmt", &mut workspace::cargo(["fmt", "--all", "--", "--check"]))?;
    tidy::run()?;
    mutants::check()?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    step::run("clippy", &mut workspace::cargo(clippy))?;
    codegen::run(codegen::Args::CHECK)?;
    deny::run(&deny::Args::default())
}
