//! The binaries of a test cluster: find each, build those that are nowhere.

mod build;
mod system;

use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, ensure};
use muster_toolbox::{Origin, Tool, find};

pub(crate) use system::{is_root, prepare};

/// Finds or builds each of `tools`.
pub(crate) fn ensure(tools: &[Tool]) -> Result<()> {
    build_all(&missing(tools)?)
}

/// The same beside other work: Go has its own cache and its own lock, so it can build while cargo does.
pub(crate) struct Pending(JoinHandle<Result<()>>);

impl Pending {
    /// Fails at once, and not after minutes of other work, if something is missing that only a person can install.
    pub(crate) fn start(tools: &[Tool]) -> Result<Self> {
        let missing = missing(tools)?;
        Ok(Self(thread::spawn(move || build_all(&missing))))
    }

    pub(crate) fn wait(self) -> Result<()> {
        self.0.join().map_err(|_| anyhow!("the thread that builds tools panicked"))?
    }
}

/// Those that are nowhere; an error if there are any, and no Go to build them.
fn missing(tools: &[Tool]) -> Result<Vec<Tool>> {
    let mut missing = Vec::new();
    for &tool in tools {
        match find(tool) {
            Some(found) if found.origin == Origin::Path => {
                eprintln!("note: using {} of PATH (pinned: {})", found.path.display(), tool.version());
            }
            Some(_) => {}
            None => missing.push(tool),
        }
    }
    let names = missing.iter().map(|tool| tool.name()).collect::<Vec<_>>().join(", ");
    ensure!(
        missing.is_empty() || has_go(),
        "Go is missing: install Go 1.26 (https://go.dev/dl), or put {names} into a folder and name it in KUBEBUILDER_ASSETS"
    );
    Ok(missing)
}

fn build_all(tools: &[Tool]) -> Result<()> {
    tools.iter().try_for_each(|&tool| build::build(tool).with_context(|| format!("cannot build {}", tool.name())))
}

fn has_go() -> bool {
    let mut go = Command::new("go");
    go.arg("version").stdout(Stdio::null()).stderr(Stdio::null());
    go.status().is_ok_and(|status| status.success())
}
