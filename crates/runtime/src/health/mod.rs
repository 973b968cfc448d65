//! Health as Kubernetes asks for it: is the process to be restarted (liveness), is it to be used (readiness). Both are
//! computed when somebody asks, from facts others record; nothing stores an answer, so no dead updater can keep a stale
//! SERVING alive, and a locked-up ledger makes the probe time out instead of passing.

mod checks;
mod server;
mod service;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use checks::{Check, CheckLine, Readiness};
pub use server::{ServeError, routes, serve};
pub use service::{HealthService, Service};

use crate::heartbeat::Heartbeat;
use crate::supervise::Tasks;

/// How often an open `Watch` judges again: the heartbeat changes by time alone.
pub const TICK: Duration = Duration::from_secs(1);

/// What liveness and readiness are computed from. Clones share it.
#[derive(Clone, Debug)]
pub struct Health {
    heartbeat: Heartbeat,
    tasks: Tasks,
    readiness: Readiness,
    closed: CancellationToken,
}

impl Health {
    /// Health of a process with these loops, tasks and checks.
    pub fn new(heartbeat: Heartbeat, tasks: Tasks, readiness: Readiness) -> Self {
        Self { heartbeat, tasks, readiness, closed: CancellationToken::new() }
    }

    /// Why the process should be restarted: a loop has stalled or a task is gone. Never the API server, an upstream or
    /// readiness.
    pub fn liveness(&self) -> Result<(), String> {
        if self.closed.is_cancelled() {
            return Err("closed".to_owned());
        }
        if let Some(ended) = self.tasks.ended().first() {
            return Err(ended.to_string());
        }
        let verdict = self.heartbeat.verdict();
        if verdict.is_healthy() { Ok(()) } else { Err(verdict.to_string()) }
    }

    /// Every check, `reconcile-progress` (liveness) among them.
    pub fn checks(&self) -> Vec<CheckLine> {
        let mut lines = self.readiness.lines();
        let (passed, text) = match self.liveness() {
            Ok(()) => (true, std::borrow::Cow::Borrowed("")),
            Err(reason) => (false, reason.into()),
        };
        lines.push(CheckLine { name: "reconcile-progress", passed, text });
        lines
    }

    /// True if the process is to be used. One that should be restarted is not.
    pub fn is_ready(&self) -> bool {
        self.readiness.is_ready() && self.liveness().is_ok()
    }

    /// The register of checks.
    pub const fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// Nothing is serving from now on, and open watches end: call it before the port closes.
    pub fn close(&self) {
        self.readiness.close();
        self.closed.cancel();
    }

    /// Ends when [`Health::close`] was called.
    pub const fn closed(&self) -> &CancellationToken {
        &self.closed
    }
}
