//! `cargo xtask test`: every test, on the real servers it asks for.

use std::{env, fs, thread};

use anyhow::{Context, Result, bail};
use muster_toolbox::{FAULTY_BUILD, Tool, UNASKED};

use crate::{step, tools, workspace};

/// Arguments of `test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Watch for minutes where the tests otherwise watch for seconds (sets `MUSTER_LONG`).
    #[arg(long)]
    long: bool,
    /// Fail if a test had to be skipped, whoever runs this; always so for root, who can run them all.
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
        .and_then(|()| step::run("build with faults", &mut workspace::cargo(FAULTY_BUILD)));
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

    let recorded = fs::read_to_string(&skips).with_context(|| format!("cannot read {}", skips.display()))?;
    let (unasked, skipped): (Vec<_>, Vec<_>) = recorded.lines().partition(|line| line.contains(UNASKED));
    for line in unasked {
        eprintln!("left out: {line}");
    }
    if !skipped.is_empty() {
        eprintln!("skipped:\n{}", skipped.join("\n"));
        if args.deny_skips || is_root() {
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

/// The owner of our own `/proc` entry is who we are; no call into libc needed.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
