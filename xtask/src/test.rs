//! `cargo xtask test`: every test, on the real servers it asks for.

use std::{env, fs, thread};

use anyhow::{Context, Result, ensure};
use muster_toolbox::{FAULTY_BUILD, Tool, UNABLE};

use crate::{step, tools, workspace};

/// Arguments of `test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Watch for minutes where the tests otherwise watch for seconds (sets `MUSTER_LONG`).
    #[arg(long)]
    long: bool,
    /// Fail if a test had to be skipped, whoever runs this. Always so for root, who can run them all but those on a real
    /// node, which a container or a kernel may not allow.
    #[arg(long)]
    deny_skips: bool,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let unable = tools::prepare().err();
    let node = if unable.is_none() { &Tool::NODE[..] } else { &[] };
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
    if let Some(why) = unable {
        tests.env("MUSTER_NO_NODE", format!("{why:#}"));
    }
    if env::var_os("RUST_TEST_THREADS").is_none() {
        tests.env("RUST_TEST_THREADS", threads().to_string());
    }
    step::run("test", &mut tests)?;

    let recorded = fs::read_to_string(&skips).with_context(|| format!("cannot read {}", skips.display()))?;
    let (left_out, skipped): (Vec<_>, Vec<_>) = recorded.lines().partition(|line| line.contains(UNABLE));
    for line in &left_out {
        eprintln!("left out: {line}");
    }
    for line in &skipped {
        eprintln!("skipped: {line}");
    }
    let denied = if args.deny_skips { !recorded.is_empty() } else { !skipped.is_empty() && tools::is_root() };
    ensure!(!denied, "tests did not run");
    Ok(())
}

/// A test on the API server keeps a core busy while its servers start and waits for most of its time; its deadlines are
/// three times as long in CI.
fn threads() -> usize {
    thread::available_parallelism().map_or(2, |cores| cores.get() + 1)
}
