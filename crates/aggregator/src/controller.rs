//! The event loop: what watches and replicas say goes into the index; executors that are touched are folded, decided and
//! acted upon a moment later, together with whatever else happened meanwhile.
//!
//! Looking at an executor needs no reason: watches, replies, timers and a won election all lead to the same look at
//! everything that is known, so there is no rarely taken path. One write of an object is under way at a time.

mod look;
pub mod work;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use muster_api::ExecutorKind;
use muster_core::backoff::Backoff;
use muster_core::heartbeat::Due;
use muster_runtime::clock::Clock;
use muster_runtime::health::Check;
use muster_runtime::heartbeat::{Loop, Work};
use muster_runtime::lease::{Leadership, Term};
use muster_runtime::rng::Rng;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::announce::Announced;
use crate::decide::Memory;
use crate::index::{Change, Index, Source, Touched};
use crate::metrics::Metrics;
use crate::replica_health::Heard;
use crate::roster::{RollCall, Roster};
use work::{Done, Worker};

/// How long a touched executor waits for other events. Counted from the first, so a busy object is not put off.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How much longer for each replica: a fold takes time in proportion to them, and as many of them report.
const DEBOUNCE_PER_REPLICA: Duration = Duration::from_micros(250);
/// But never longer: what changes a verdict is written within a second.
const DEBOUNCE_MAX: Duration = Duration::from_millis(400);
/// Executors folded before events are taken in again.
const BATCH: usize = 64;
/// Least time between two counts of all entries for metrics.
const CENSUS: Duration = Duration::from_secs(5);

/// What the loop is made from.
pub struct Parts {
    /// Time.
    pub clock: Clock,
    /// Jitter.
    pub rng: Rng,
    /// Most bytes of `byPod`.
    pub by_pod_max_bytes: usize,
    /// Replicas are asked for their health.
    pub watch_health: bool,
    /// Carries out what is decided.
    pub worker: Worker,
    /// The loop `fold`.
    pub beat: Loop,
    /// Readiness: statuses can be written.
    pub check: Check,
    /// Instruments.
    pub metrics: Metrics,
    /// Whether we lead; always, if `None`.
    pub leadership: Option<Leadership>,
    /// What the watches say.
    pub changes: mpsc::Receiver<(Source, Change)>,
    /// What the replicas say.
    pub heard: mpsc::Receiver<Heard>,
    /// Told the pods to ask, whenever they change, and none while we do not lead.
    pub pods: tokio::sync::watch::Sender<Vec<crate::facts::Pod>>,
    /// Time between two looks for leftovers.
    pub sweep_interval: Duration,
    /// Told what may be a leftover.
    pub leftovers: mpsc::Sender<Vec<crate::sweep::Candidate>>,
}

/// See the module's documentation.
pub struct Controller {
    parts: Parts,
    index: Index,
    roster: Roster,
    call: RollCall,
    /// Something was heard since the last judgement.
    unjudged: bool,
    objects: HashMap<Arc<str>, Object>,
    wakes: BTreeSet<(Duration, Arc<str>)>,
    backoff: Backoff<Arc<str>>,
    running: JoinSet<Done>,
    owed: Option<Work<Due>>,
    term: Option<Term>,
    leading: bool,
    /// No count of all entries before.
    census_at: Duration,
    /// Executors whose status was refused in a way that needs somebody.
    unwritten: BTreeSet<Arc<str>>,
    /// Something was looked at since the last count.
    uncounted: bool,
    sweep_at: Duration,
}

/// What is known of one executor beyond its facts.
struct Object {
    memory: Memory,
    announced: Announced,
    /// When it is looked at next.
    wake: Option<Duration>,
    /// A request about it is under way.
    busy: bool,
    /// Conflicts in a row.
    conflicts: u32,
}

enum Input {
    Change(Source, Change),
    Heard(Heard),
    Done(Done),
    Won(Term),
    Lost,
    Time,
    Drain,
}

impl Controller {
    /// A loop that knows nothing yet.
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            index: Index::default(),
            roster: Roster::default(),
            call: RollCall::default(),
            unjudged: true,
            objects: HashMap::new(),
            wakes: BTreeSet::new(),
            backoff: Backoff::default(),
            running: JoinSet::new(),
            owed: None,
            term: None,
            leading: false,
            census_at: Duration::ZERO,
            unwritten: BTreeSet::new(),
            uncounted: false,
            sweep_at: Duration::ZERO,
        }
    }

    /// Runs until told to drain; then lets the requests under way end.
    pub async fn run(mut self, draining: CancellationToken) {
        if self.parts.leadership.is_none() {
            self.lead(None);
        }
        loop {
            let wake = self.next_wake();
            let input = tokio::select! {
                () = draining.cancelled() => Input::Drain,
                Some(done) = self.running.join_next() => match done {
                    Ok(done) => Input::Done(done),
                    // A panic is caught inside the task; only an abort ends here.
                    Err(_) => continue,
                },
                () = lost(self.term.as_ref()) => Input::Lost,
                term = won(self.parts.leadership.as_mut(), self.term.is_none()) => Input::Won(term),
                Some((source, change)) = self.parts.changes.recv() => Input::Change(source, change),
                Some(heard) = self.parts.heard.recv() => Input::Heard(heard),
                () = self.parts.clock.sleep_until(wake) => Input::Time,
            };
            match input {
                Input::Drain => break,
                Input::Done(done) => self.done(done),
                Input::Won(term) => self.lead(Some(term)),
                Input::Lost => self.stand_by(),
                Input::Change(source, change) => self.change(source, change),
                Input::Heard(heard) => self.heard(&heard),
                Input::Time => {}
            }
            self.take_what_is_ready();
            self.work().await;
        }
        while self.running.join_next().await.is_some() {}
    }

    /// A list of 500 objects is 500 events: taken in together they cost one look, not 500.
    fn take_what_is_ready(&mut self) {
        for _ in 0..1_024 {
            if let Ok((source, change)) = self.parts.changes.try_recv() {
                self.change(source, change);
            } else if let Ok(heard) = self.parts.heard.try_recv() {
                self.heard(&heard);
            } else {
                return;
            }
        }
    }

    fn change(&mut self, source: Source, change: Change) {
        let now = self.parts.clock.now();
        let was_synced = self.index.is_synced();
        let touched = self.index.change(source, change);
        if !self.leading {
            return;
        }
        if !was_synced && self.index.is_synced() {
            self.begin(now);
            return;
        }
        match (&touched, source) {
            (Touched::All, _) if self.index.is_synced() => self.meet(now),
            (Touched::Some(uids), Source::Executors(kind)) => self.compare(kind, uids, now),
            _ => {}
        }
        self.touch(touched, now);
    }

    /// Whether somebody has changed what we wrote.
    fn compare(&mut self, kind: ExecutorKind, uids: &[Arc<str>], now: Duration) {
        for uid in uids {
            if let (Some(executor), Some(object)) = (self.index.executor(uid), self.objects.get_mut(uid))
                && object.memory.seen(executor, now)
            {
                self.parts.metrics.foreign(kind);
            }
        }
    }

    fn touch(&mut self, touched: Touched, now: Duration) {
        match touched {
            Touched::Nothing => {}
            Touched::Some(uids) => {
                let at = now + debounce(self.index.pods().len());
                for uid in uids {
                    self.wake(&uid, at);
                }
            }
            Touched::All => {
                let all: Vec<_> = self.index.executors().map(|executor| executor.uid.clone()).collect();
                self.touch(Touched::Some(all), now);
            }
        }
    }

    /// Looks at an executor at that instant, if not earlier; forgets it if it is gone.
    fn wake(&mut self, uid: &Arc<str>, at: Duration) {
        let Some(executor) = self.index.executor(uid) else {
            if let Some(object) = self.objects.remove(uid)
                && let Some(at) = object.wake
            {
                self.wakes.remove(&(at, uid.clone()));
            }
            self.backoff.forget(uid);
            self.unwritten(uid, None);
            return;
        };
        let object = self.objects.entry(uid.clone()).or_insert_with(|| Object::new(executor));
        if object.wake.is_some_and(|before| before <= at) {
            return;
        }
        if let Some(before) = object.wake.replace(at) {
            self.wakes.remove(&(before, uid.clone()));
        }
        self.wakes.insert((at, uid.clone()));
    }

    fn lead(&mut self, term: Option<Term>) {
        self.term = term;
        self.leading = true;
        let now = self.parts.clock.now();
        if self.index.is_synced() {
            self.begin(now);
        }
    }

    /// Starts from what the objects say: memory of an earlier term is worth nothing.
    fn begin(&mut self, now: Duration) {
        self.objects.clear();
        self.wakes.clear();
        self.backoff = Backoff::default();
        self.roster = Roster::default();
        self.sweep_at = now;
        self.meet(now);
        self.touch(Touched::All, now);
    }

    /// Drops the work first and the term last: only then does this process contend again.
    fn stand_by(&mut self) {
        self.running.abort_all();
        self.leading = false;
        self.objects.clear();
        self.wakes.clear();
        self.parts.pods.send_replace(Vec::new());
        self.parts.metrics.no_census();
        // Whoever leads now finds out for itself what cannot be written.
        self.parts.check.pass();
        self.unwritten.clear();
        self.term = None;
    }

    /// Tells the health watches which pods there are.
    fn meet(&mut self, now: Duration) {
        let expected = || self.index.pods().filter(|pod| pod.life.is_expected());
        self.unjudged = true;
        self.roster.meet(expected().map(|pod| (&pod.uid, pod.health_port.is_some())), now);
        self.parts.pods.send_replace(expected().cloned().collect());
        self.sweep_at = self.sweep_at.min(now + crate::sweep::AFTER_EVENT.min(self.parts.sweep_interval));
    }

    fn heard(&mut self, heard: &Heard) {
        self.unjudged = true;
        match heard {
            Heard::Answer { pod_uid, serving } => self.roster.answered(pod_uid, *serving),
            Heard::Lost { pod_uid } => self.roster.lost(pod_uid, self.parts.clock.now()),
        }
    }

    fn next_wake(&self) -> Duration {
        let far = self.parts.clock.now() + Duration::from_hours(1);
        if !self.leading || !self.index.is_synced() {
            return far;
        }
        let census = self.uncounted.then_some(self.census_at);
        let wakes = [self.wakes.first().map(|(at, _)| *at), self.call.next_change, Some(self.sweep_at), census];
        wakes.into_iter().flatten().min().unwrap_or(far)
    }
}

fn debounce(replicas: usize) -> Duration {
    let replicas = u32::try_from(replicas).unwrap_or(u32::MAX);
    DEBOUNCE_PER_REPLICA.saturating_mul(replicas).saturating_add(DEBOUNCE).min(DEBOUNCE_MAX)
}

impl Object {
    fn new(executor: &crate::facts::Executor) -> Self {
        Self {
            memory: Memory::new(executor),
            announced: Announced::new(executor.status.as_deref()),
            wake: None,
            busy: false,
            conflicts: 0,
        }
    }
}

async fn lost(term: Option<&Term>) {
    match term {
        Some(term) => term.lost().cancelled().await,
        None => std::future::pending().await,
    }
}

async fn won(leadership: Option<&mut Leadership>, contending: bool) -> Term {
    match leadership {
        Some(leadership) if contending => leadership.lead().await,
        _ => std::future::pending().await,
    }
}
