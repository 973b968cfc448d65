//! `cargo xtask bench NAME`: figures, one JSON object a line with `--json`. What runs in a process of its own is built
//! optimised; what counts requests on a real API server is built as the demo is, unless told otherwise, and says so.

use std::ffi::OsString;

use anyhow::{Result, ensure};
use muster_toolbox::Tool;

use crate::{image, step, tools, workspace};

/// Argument of `livelock` that turns from virtual time to real HTTP.
const REAL: &str = "--real";

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure optimised builds of our programs on the API server.
    #[arg(long)]
    release: bool,
    /// Which: `livelock` is a simulation (with `--real` over HTTP in real time), `fold` a function, `node` takes the images
    /// to a real node, the others run on a real API server.
    name: String,
    /// Passed to the bench as they are.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    passed: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let real = args.passed.iter().any(|arg| arg == REAL);
    let alone: Option<[&str; 4]> = match args.name.as_str() {
        "livelock" if real => Some(["--package", "muster-executor", "--example", "livelock-real"]),
        "livelock" => Some(["--package", "muster-simulation", "--bin", "livelock"]),
        "fold" => Some(["--package", "muster-aggregator", "--example", "fold-bench"]),
        _ => None,
    };
    if let Some(program) = alone {
        let mut bench = workspace::cargo(["run", "--release", "--quiet"]);
        bench.args(program).arg("--").args(args.passed.iter().filter(|arg| *arg != REAL));
        return step::become_command(&mut bench);
    }
    if args.name == "node" {
        ensure!(args.passed.is_empty(), "bench node takes no arguments: it prints what the tests on the node print");
        return node();
    }
    let mut needed = Tool::CONTROL_PLANE.to_vec();
    needed.extend((args.name == "scale").then_some(Tool::Kwok));
    let pending = tools::Pending::start(&needed)?;
    let mut build = workspace::cargo(["build", "--workspace", "--bins"]);
    build.args(args.release.then_some("--release"));
    step::run("build", &mut build)?;
    pending.wait()?;
    step::become_command(workspace::lab(args.release).args(["bench", &args.name]).args(&args.passed))
}

/// What the tests on a real node print, with the images that users get, and all that `test --long` adds.
fn node() -> Result<()> {
    tools::prepare()?;
    let pending = tools::Pending::start(&[&Tool::CONTROL_PLANE[..], &Tool::NODE, &[Tool::Helm]].concat())?;
    let images = image::build(&image::Args::default())?;
    step::run("build", &mut workspace::cargo(["build", "--workspace", "--all-targets"]))?;
    pending.wait()?;
    let mut tests = workspace::cargo(["test", "--quiet", "--package=muster-e2e", "--test=node", "c68_installed", "--"]);
    tests.args(["replicas_are_scaled", "--nocapture", "--test-threads=1"]);
    tests.env("MUSTER_IMAGES", images).env("MUSTER_LONG", "1").env("MUSTER_BIN_DIR", workspace::bin_dir(false));
    step::become_command(&mut tests)
}
