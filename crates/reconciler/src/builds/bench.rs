//! Where one attempt is: at a worker's bench, on a call, or at a gate. At a gate it holds no worker, and neither its own
//! deadline nor the heartbeat's clock runs: a wait of hours is nobody's fault.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use muster_core::gate::Line;
use muster_core::heartbeat::{Parked, Running};
use muster_executor::BuildError;
use muster_executor::trust::gate::{Patience, Stage};
use muster_runtime::clock::Clock;
use muster_runtime::heartbeat::Work;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::failure;
use crate::inbox::Sender;
use crate::metrics::{Active, Metrics};
use crate::replica::Event;
use crate::subject::Uid;
use crate::upstreams::LINES;

/// One attempt's bench.
pub(super) struct Bench {
    pub(super) uid: Uid,
    pub(super) attempt: u64,
    pub(super) line: Line,
    pub(super) workers: Arc<Semaphore>,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) inbox: Sender,
    pub(super) state: Mutex<State>,
    pub(super) meter: watch::Sender<Meter>,
}

/// What an attempt holds.
#[derive(Default)]
pub(super) struct State {
    worker: Option<(OwnedSemaphorePermit, Active)>,
    work: Option<Progress>,
    waiting_since: Option<Duration>,
}

/// What the heartbeat knows of it.
enum Progress {
    Running(Work<Running>),
    Parked(Work<Parked>),
}

/// Time spent on work, gates and workers' benches not counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    spent: Duration,
    since: Option<Duration>,
}

impl Bench {
    /// A worker is free and the run has begun.
    pub(super) fn sit_down(&self, worker: OwnedSemaphorePermit, running: Work<Running>) {
        let mut state = self.state();
        state.worker = Some((worker, self.metrics.active()));
        state.work = Some(Progress::Running(running));
        self.count(true);
    }

    /// The run is over, well or not. Returns the time spent on work.
    pub(super) fn get_up(&self) -> Duration {
        let mut state = self.state();
        state.worker = None;
        match state.work.take() {
            Some(Progress::Running(work)) => work.complete(),
            Some(Progress::Parked(work)) => work.resume().complete(),
            None => {}
        }
        self.count(false);
        self.meter.borrow().spent
    }

    /// Returns when more than `deadline` was spent on work.
    pub(super) async fn overrun(&self, deadline: Duration) {
        let mut meter = self.meter.subscribe();
        loop {
            let Meter { spent, since } = *meter.borrow_and_update();
            let over = async {
                match since {
                    Some(since) => self.clock.sleep_until(since.saturating_add(deadline.saturating_sub(spent))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                changed = meter.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Begins a wait at a gate: worker and heartbeat are let go.
    fn wait(&self) {
        let mut state = self.state();
        state.worker = None;
        state.waiting_since = Some(self.clock.now());
        state.work = state.work.take().map(|work| match work {
            Progress::Running(work) => Progress::Parked(work.park()),
            parked @ Progress::Parked(_) => parked,
        });
        self.count(false);
    }

    /// Ends a wait at a gate.
    fn go_on(&self) {
        let mut state = self.state();
        if let Some(since) = state.waiting_since.take() {
            let waited = self.clock.now().saturating_sub(since);
            let [urgent, refresh] = LINES;
            self.metrics.waited(waited, if self.line == Line::Urgent { urgent } else { refresh });
        }
        state.work = state.work.take().map(|work| match work {
            Progress::Parked(work) => Progress::Running(work.resume()),
            running @ Progress::Running(_) => running,
        });
        self.count(true);
    }

    async fn work(&self) {
        self.go_on();
        if self.state().worker.is_some() {
            return;
        }
        self.count(false);
        // The semaphore is never closed.
        if let Ok(worker) = Arc::clone(&self.workers).acquire_owned().await {
            self.state().worker = Some((worker, self.metrics.active()));
        }
        self.count(true);
    }

    fn count(&self, runs: bool) {
        let now = self.clock.now();
        self.meter.send_modify(|meter| {
            meter.spent += meter.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
            meter.since = runs.then_some(now);
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No holder leaves it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Patience for Bench {
    fn enter(&self, stage: Stage) -> BoxFuture<'_, ()> {
        match stage {
            Stage::Waiting => self.wait(),
            Stage::Calling => self.go_on(),
            Stage::Working => return self.work().boxed(),
        }
        std::future::ready(()).boxed()
    }

    fn waits(&self, why: BuildError) -> BoxFuture<'_, ()> {
        let event = Event::Parked { uid: self.uid.clone(), attempt: self.attempt, failure: failure(&why) };
        self.inbox.tell(event).boxed()
    }
}
