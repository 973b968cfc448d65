//! One server of the control plane: started, killed, frozen and started again, always on the same address and data.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use nix::sys::signal::Signal;

use crate::process::{Process, Program, tail, wait};

/// How much of a dead server's log an error quotes.
const QUOTED_LINES: usize = 15;

/// A server and how to start it.
#[derive(Debug)]
pub struct Component {
    name: &'static str,
    program: Program,
    process: Mutex<Option<Process>>,
}

impl Component {
    pub(crate) fn new(name: &'static str, program: Program) -> Self {
        Self { name, program, process: Mutex::new(None) }
    }

    /// Starts it unless it runs. It is not ready yet when this returns.
    pub(crate) fn start(&self) -> Result<()> {
        let mut process = self.lock();
        if process.as_ref().is_none_or(|process| process.ended().is_some()) {
            *process = Some(self.program.start()?);
        }
        Ok(())
    }

    /// Kills it, as a power cut would, and waits until it is gone: connections are reset, and new ones refused.
    pub async fn kill(&self) {
        let exit = self.lock().as_ref().map(|process| {
            process.signal(Signal::SIGKILL);
            process.exit()
        });
        if let Some(exit) = exit {
            wait(exit).await;
        }
    }

    /// Freezes it (`SIGSTOP`): connections stay open, and nothing is answered.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on (`SIGCONT`).
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Process number, while it runs.
    pub fn pid(&self) -> Option<i32> {
        self.lock().as_ref().filter(|process| process.ended().is_none()).map(Process::pid)
    }

    /// Its log.
    pub fn log(&self) -> &Path {
        &self.program.log
    }

    /// An error with the end of its log if it does not run.
    pub(crate) fn check(&self) -> Result<()> {
        if self.pid().is_none() {
            bail!("{} has ended:\n{}", self.name, tail(self.log(), QUOTED_LINES));
        }
        Ok(())
    }

    /// Kills it and waits, without a runtime.
    pub(super) fn kill_blocking(&self) {
        if let Some(process) = self.lock().take() {
            process.kill_blocking();
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = self.lock().as_ref() {
            process.signal(signal);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
