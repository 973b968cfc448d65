//! One task per attempt. A task waits for one of the workers, builds under a hard deadline, and tells how that ended; a
//! panic in it is an ended attempt like any other. Dropping its [`Running`] ends it where it is; its places at the gates
//! stay with the executor.

mod bench;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_api::Reason;
use muster_core::gate::Line;
use muster_core::heartbeat::Due;
use muster_executor::trust::Upstreams;
use muster_executor::trust::gate::Patience;
use muster_executor::{BuildError, Built, Compiled, build};
use muster_runtime::args::shown;
use muster_runtime::clock::Clock;
use muster_runtime::heartbeat::Work;
use muster_runtime::supervise::{Panicked, catch};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use self::bench::Bench;
use crate::decide::whole_seconds;
use crate::inbox::Sender;
use crate::metrics::Metrics;
use crate::replica::Event;
use crate::subject::{Facts, Failure, Uid};

/// Where attempts run.
#[derive(Clone)]
pub struct Workshop {
    workers: Arc<Semaphore>,
    deadline: Duration,
    upstreams: Upstreams,
    clock: Clock,
    metrics: Metrics,
    tasks: TaskTracker,
}

/// What is to be built, and for whom.
pub struct Order {
    /// UID of the executor.
    pub uid: Uid,
    /// The executor, for people.
    pub label: String,
    /// Its kind, for metrics.
    pub kind: &'static str,
    /// Number of the attempt.
    pub attempt: u64,
    /// The line it stands in at gates.
    pub line: Line,
    /// What to build.
    pub compiled: Arc<Compiled>,
    /// What is owed until it is done.
    pub owed: Work<Due>,
}

/// An attempt that is going on until this is dropped.
#[derive(Debug)]
pub struct Running {
    _cancel_on_drop: DropGuard,
}

impl Workshop {
    /// `workers` attempts at a time, each for at most `deadline` of work.
    pub fn new(workers: usize, deadline: Duration, upstreams: Upstreams, clock: Clock, metrics: Metrics) -> Self {
        Self {
            workers: Arc::new(Semaphore::new(workers)),
            deadline,
            upstreams,
            clock,
            metrics,
            tasks: TaskTracker::new(),
        }
    }

    /// Begins an attempt.
    pub fn begin(&self, order: Order, inbox: Sender) -> Running {
        let cancelled = CancellationToken::new();
        let guard = cancelled.clone().drop_guard();
        let workshop = self.clone();
        let span = tracing::info_span!("build", executor = %order.label, attempt = order.attempt);
        self.tasks.spawn(
            async move {
                tokio::select! {
                    // First, so that an attempt that was dropped does not get in line once more.
                    biased;
                    () = cancelled.cancelled() => tracing::debug!("dropped: nobody wants its result any more"),
                    () = workshop.work(order, inbox) => {}
                }
            }
            .instrument(span),
        );
        Running { _cancel_on_drop: guard }
    }

    async fn work(&self, order: Order, inbox: Sender) {
        let Order { uid, kind, attempt, line, compiled, owed, .. } = order;
        let bench = Arc::new(Bench {
            uid: uid.clone(),
            attempt,
            line,
            workers: Arc::clone(&self.workers),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            inbox: inbox.clone(),
            state: Mutex::default(),
            meter: watch::Sender::default(),
        });
        let patience = Arc::<Bench>::clone(&bench) as Arc<dyn Patience>;
        let (sources, visit) = self.upstreams.visit(uid.as_str().into(), line, patience);
        // The semaphore is never closed.
        let Ok(worker) = Arc::clone(&self.workers).acquire_owned().await else { return };
        bench.sit_down(worker, owed.start().await);
        let result = tokio::select! {
            result = catch(build(&compiled, &sources, self.clock.wall())) => Some(result),
            () = bench.overrun(self.deadline) => None,
        };
        self.metrics.took(bench.get_up());
        visit.end(matches!(result, Some(Ok(Ok(_)))));
        let result = match result {
            Some(Ok(result)) => result.map_err(|error| failure(&error)),
            Some(Err(Panicked(message))) => {
                tracing::error!(%message, "the build panicked");
                self.metrics.panicked();
                Err(Failure::new(Reason::BadMaterial, "the build panicked; the log has the message"))
            }
            None => {
                self.metrics.timed_out();
                let text = format!("trust material was not loaded within {}", shown(self.deadline));
                Err(Failure::new(Reason::Unreachable, text))
            }
        };
        self.metrics.built(kind, result.as_ref().map(drop));
        let (result, built) = match result {
            Ok(built) => (Ok(facts(&built)), Some(Arc::new(built))),
            Err(failure) => (Err(failure), None),
        };
        inbox.tell_built(Event::Attempted { uid, attempt, result }, built).await;
    }

    /// The executor is gone or cannot be built: it uses no credential any more.
    pub fn forget(&self, uid: &Uid) {
        self.upstreams.gates().forget(uid.as_str());
    }
}

fn failure(error: &BuildError) -> Failure {
    Failure { reason: error.reason(), text: error.to_string(), retry_after: error.retry_after() }
}

/// What of a built executor the decisions need to know.
fn facts(built: &Built) -> Facts {
    Facts {
        trust_expires_at: built.trust_expires_at.map(whole_seconds),
        usable_until: built.usable_until,
        rebuild_at: built.trust_expires_at,
        warnings: built.warnings.clone(),
    }
}

#[cfg(test)]
mod tests;
