//! An attempt at its bench, on paused time: what a wait at a gate lets go of, and what it does not count as.

mod outage;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use muster_api::Reason;
use muster_core::gate::Line;
use muster_core::heartbeat::{LoopId, LoopSnapshot};
use muster_executor::BuildError;
use muster_executor::trust::LoadError;
use muster_executor::trust::gate::{Patience, Stage};
use muster_runtime::clock::Clock;
use muster_runtime::heartbeat::Heartbeat;
use muster_runtime::metrics::Meters;
use tokio::sync::{Semaphore, mpsc, watch};

use super::bench::Bench;
use crate::inbox::{Letter, inbox};
use crate::metrics::Metrics;
use crate::replica::Event;

const DEADLINE: Duration = Duration::from_mins(1);

struct World {
    bench: Bench,
    heartbeat: Heartbeat,
    letters: mpsc::Receiver<Letter>,
}

/// An attempt that has sat down at the only bench.
async fn world() -> World {
    let clock = Clock::system();
    let heartbeat = Heartbeat::new(Duration::from_mins(15), LoopId::RECONCILER, clock.clone());
    let (sender, letters) = inbox(&heartbeat);
    let bench = Bench {
        uid: "a".into(),
        attempt: 7,
        line: Line::Urgent,
        workers: Arc::new(Semaphore::new(1)),
        clock,
        metrics: Metrics::new(&Meters::default(), 1),
        inbox: sender,
        state: Mutex::default(),
        meter: watch::Sender::default(),
    };
    let worker = Arc::clone(&bench.workers).acquire_owned().await.unwrap();
    bench.sit_down(worker, heartbeat.of(LoopId::BUILD).due_now("executor a").start().await);
    World { bench, heartbeat, letters }
}

impl World {
    fn free_workers(&self) -> usize {
        self.bench.workers.available_permits()
    }

    fn build_loop(&self) -> LoopSnapshot {
        let loops = self.heartbeat.snapshot();
        loops.into_iter().find(|snapshot| snapshot.loop_id == LoopId::BUILD).unwrap()
    }

    async fn enter(&self, stage: Stage) {
        self.bench.enter(stage).await;
    }

    fn is_alive(&self) -> bool {
        self.heartbeat.verdict().is_healthy()
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_wait_of_hours_holds_no_worker_and_trips_no_deadline() {
    let world = world().await;
    let mut overrun = Box::pin(world.bench.overrun(DEADLINE));
    assert_eq!(world.free_workers(), 0);
    tokio::time::advance(Duration::from_secs(20)).await;

    world.enter(Stage::Waiting).await;
    assert_eq!((world.free_workers(), world.build_loop().parked), (1, 1));
    assert!(tokio::time::timeout(Duration::from_hours(5), overrun.as_mut()).await.is_err());
    assert!(world.is_alive(), "{:?}", world.heartbeat.verdict());

    world.enter(Stage::Calling).await;
    assert_eq!((world.free_workers(), world.build_loop().running), (1, 1));
    tokio::time::advance(Duration::from_secs(10)).await;
    world.enter(Stage::Working).await;
    assert_eq!(world.free_workers(), 0);

    // 30 s of work are spent; 30 are left.
    assert!(tokio::time::timeout(Duration::from_secs(29), overrun.as_mut()).await.is_err());
    assert!(tokio::time::timeout(Duration::from_secs(2), overrun.as_mut()).await.is_ok());
    assert_eq!(world.bench.get_up().as_secs(), 60);
    assert_eq!((world.free_workers(), world.build_loop().running), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_ends_is_counted_and_a_wait_for_a_worker_is_not() {
    let world = world().await;
    world.enter(Stage::Waiting).await;
    world.enter(Stage::Calling).await;
    let others = Arc::clone(&world.bench.workers).acquire_owned().await.unwrap();
    let mut back = Box::pin(world.enter(Stage::Working));
    assert!(back.as_mut().now_or_never().is_none(), "somebody else works");
    assert!(tokio::time::timeout(2 * DEADLINE, world.bench.overrun(DEADLINE)).await.is_err());
    drop(others);
    back.await;

    world.enter(Stage::Waiting).await;
    world.enter(Stage::Calling).await;
    assert!(tokio::time::timeout(2 * DEADLINE, world.bench.overrun(DEADLINE)).await.is_ok());
    tokio::time::advance(Duration::from_mins(20)).await;
    assert!(!world.is_alive(), "a call is bounded by its own deadline; one that is not is a stall");
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_told_with_the_reason_and_text_of_the_report() {
    let mut world = world().await;
    let error = LoadError::RateLimited { upstream: "vault.example".into(), retry_after: None };
    world.bench.waits(BuildError::Load { path: "spec.here".into(), error }).await;
    let Some(Event::Parked { attempt, failure, .. }) = world.letters.recv().await.map(|letter| letter.event) else {
        panic!("nothing was told");
    };
    assert_eq!((attempt, failure.reason), (7, Reason::RateLimited));
    assert_eq!(failure.text, "spec.here: vault.example refuses calls for now");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_dropped_while_it_waits_leaves_nothing_behind() {
    let world = world().await;
    world.enter(Stage::Waiting).await;
    let World { bench, heartbeat, .. } = world;
    let workers = Arc::clone(&bench.workers);
    drop(bench);
    assert_eq!(workers.available_permits(), 1);
    assert!(heartbeat.snapshot().iter().all(|snapshot| snapshot.parked + snapshot.running == 0));
}
