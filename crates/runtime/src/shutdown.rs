//! The two words a process understands when it is told to go: the first signal drains, the second aborts.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The two tokens every task is told by. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    draining: CancellationToken,
    aborting: CancellationToken,
}

/// SIGTERM and SIGINT, caught from the moment this is made; or what a test sends instead.
#[derive(Debug)]
pub struct Signals(Source);

#[derive(Debug)]
enum Source {
    Kernel { terminate: Signal, interrupt: Signal },
    Script(mpsc::UnboundedReceiver<&'static str>),
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
    /// Catches the kernel's signals from now on.
    pub fn install() -> io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self(Source::Kernel { terminate, interrupt }))
    }

    /// Signals by name, sent through the returned handle.
    pub fn scripted() -> (mpsc::UnboundedSender<&'static str>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self(Source::Script(receiver)))
    }

    /// The name of the next signal.
    pub async fn next(&mut self) -> &'static str {
        match &mut self.0 {
            Source::Kernel { terminate, interrupt } => tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            },
            Source::Script(receiver) => match receiver.recv().await {
                Some(signal) => signal,
                None => std::future::pending().await,
            },
        }
    }
}
