//! The two words a process understands when it is told to go: the first signal drains, the second aborts.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The two tokens every task is told by. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    draining: CancellationToken,
    aborting: CancellationToken,
}

/// SIGTERM and SIGINT, caught from the moment this is made.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Shutdown {
    /// Cancelled when running work should be finished and no new work begun. Tasks take children of it.
    pub const fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Cancelled when everything is to be dropped where it is.
    pub const fn aborting(&self) -> &CancellationToken {
        &self.aborting
    }

    /// Begins to drain.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Drops everything; implies draining.
    pub fn abort(&self) {
        self.draining.cancel();
        self.aborting.cancel();
    }
}

impl Signals {
    /// Catches the signals from now on.
    pub fn install() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The name of the next signal.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
