//! The binaries of a test cluster: find each, build those that are nowhere.

mod build;

use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use muster_toolbox::{Origin, Tool, find};

/// Finds or builds each of `tools`.
pub(crate) fn ensure(tools: &[Tool]) -> Result<()> {
    for &tool in tools {
        match find(tool) {
            Some(found) if found.origin == Origin::Path => {
                eprintln!("note: using {} of PATH (pinned: {})", found.path.display(), tool.version());
            }
            Some(_) => {}
            None => build::build(tool).with_context(|| format!("cannot build {}", tool.name()))?,
        }
    }
    Ok(())
}

/// The same beside other work: Go has its own cache and its own lock, so it can build while cargo does.
pub(crate) struct Pending(JoinHandle<Result<()>>);

impl Pending {
    pub(crate) fn start(tools: &'static [Tool]) -> Self {
        Self(thread::spawn(|| ensure(tools)))
    }

    pub(crate) fn wait(self) -> Result<()> {
        self.0.join().map_err(|_| anyhow!("the thread that builds tools panicked"))?
    }
}
