//! `cargo xtask test`: every test, on the real servers it asks for.

use std::{env, fs, thread};

use anyhow::{Context, Result, bail};
use muster_toolbox::Tool;

use crate::{step, tools, workspace};

/// What tests start with injected faults; they build it themselves if this did not.
const FAULTY: [&str; 6] = [
    "build",
    "--quiet",
    "--workspace",
    "--features=muster-reconciler/fault,muster-aggregator/fault",
    "--example=faulty-reconciler",
    "--example=faulty-aggregator",
];

/// Arguments of `test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Watch for minutes where the tests otherwise watch for seconds (sets `MUSTER_LONG`).
    #[arg(long)]
    long: bool,
    /// Fail if a test had to be skipped. Otherwise those are listed at the end, each with what this machine lacks.
    #[arg(long)]
    deny_skips: bool,
    /// Also on a real node of kubelet and containerd; needs root, and minutes to build them once (sets `MUSTER_NODE`).
    #[arg(long)]
    node: bool,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let node = if args.node { &Tool::NODE[..] } else { &[] };
    let pending = tools::Pending::start(&[&Tool::CONTROL_PLANE[..], &Tool::DEPLOY, node].concat())?;
    let built = step::run("build", &mut workspace::cargo(["build", "--workspace", "--all-targets"]))
        .and_then(|()| step::run("build with faults", &mut workspace::cargo(FAULTY)));
    pending.wait()?;
    built?;

    let skips = workspace::target_dir().join("skipped-tests.txt");
    fs::write(&skips, "").with_context(|| format!("cannot write {}", skips.display()))?;
    let mut tests = workspace::cargo(["test", "--workspace", "--no-fail-fast"]);
    tests.args(&args.filter).env("MUSTER_SKIPS", &skips).env("MUSTER_BIN_DIR", workspace::bin_dir(false));
    if args.long {
        tests.env("MUSTER_LONG", "1");
    }
    if args.node {
        tests.env("MUSTER_NODE", "1");
    }
    if env::var_os("RUST_TEST_THREADS").is_none() {
        tests.env("RUST_TEST_THREADS", threads().to_string());
    }
    step::run("test", &mut tests)?;

    let skipped = fs::read_to_string(&skips).with_context(|| format!("cannot read {}", skips.display()))?;
    if !skipped.is_empty() {
        eprint!("skipped:\n{skipped}");
        if args.deny_skips {
            bail!("tests were skipped");
        }
    }
    Ok(())
}

/// A test on the API server keeps a core busy while its servers start and waits for most of its time; its deadlines are
/// three times as long in CI.
fn threads() -> usize {
    thread::available_parallelism().map_or(2, |cores| cores.get() + 1)
}
