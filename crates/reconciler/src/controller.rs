//! The loop that joins observing, deciding and acting. Events, answers, timers and shutdown take one path: note what
//! happened, decide about every executor that it may concern, begin what was decided, until there is nothing to begin.

mod hands;
mod refusals;
mod reporter;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::Reason;
use muster_runtime::clock::Clock;
use muster_runtime::health::Check;
use muster_runtime::rng::Rng;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::decide::{Agenda, Plan, Settings};
use crate::inbox::Letter;
use crate::replica::{Event, Readiness, Replica};
use crate::subject::{Failure, Now, Subject, Uid};

pub use hands::{Hands, Shelf, Tools};
pub use refusals::Refusals;
pub use reporter::Reporter;

/// Letters read before deciding: a burst of changes to one executor is one decision.
const BURST: usize = 64;

/// What a replica knows and plans, for whoever wants to read it. Clones share it.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<State>>);

/// What a replica knows and plans.
#[derive(Debug)]
pub struct State {
    /// What it knows.
    pub replica: Replica,
    /// When something falls due about which executor.
    pub agendas: HashMap<Uid, Agenda>,
}

/// The loop.
pub struct Controller {
    shared: Shared,
    hands: Hands,
    letters: mpsc::Receiver<Letter>,
    clock: Clock,
    rng: Rng,
    ready: Check,
    wakes: Wakes,
}

#[derive(Debug, Default)]
struct Wakes {
    queue: BTreeSet<(Duration, Uid)>,
    by_uid: HashMap<Uid, Duration>,
}

impl Shared {
    /// Nothing is known yet.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Mutex::new(State { replica: Replica::new(settings), agendas: HashMap::new() })))
    }

    /// The state, for as long as the guard lives; the loop waits meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // A decision that panicked has changed nothing: it only reads.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller {
    /// A loop over `letters`. `ready` is the readiness check it answers.
    pub fn new(
        shared: Shared,
        hands: Hands,
        letters: mpsc::Receiver<Letter>,
        clock: Clock,
        rng: Rng,
        ready: Check,
    ) -> Self {
        Self { shared, hands, letters, clock, rng, ready, wakes: Wakes::default() }
    }

    /// Runs until told to drain, and then until the requests that are on their way have been answered.
    pub async fn run(mut self, draining: CancellationToken) {
        loop {
            let due = self.next_due();
            let wake = async {
                match due {
                    Some(at) => self.clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = draining.cancelled() => break,
                letter = self.letters.recv() => {
                    let Some(letter) = letter else { break };
                    self.read(letter);
                    for _ in 1..BURST {
                        let Ok(letter) = self.letters.try_recv() else { break };
                        self.read(letter);
                    }
                }
                () = wake => self.wake(),
            }
            self.settle();
        }
        self.letters.close();
        self.hands.finish().await;
    }

    fn now(&self) -> Now {
        Now { mono: self.clock.now(), wall: self.clock.wall() }
    }

    /// Takes note of one letter.
    fn read(&mut self, letter: Letter) {
        let now = self.now();
        let mut state = self.shared.lock();
        let subject = letter.event.uid().and_then(|uid| state.replica.subject(uid));
        if let Some(subject) = subject {
            tell(subject, &letter.event);
        }
        self.hands.keep(subject, &letter);
        state.replica.on(letter.event, now, &mut self.rng);
    }

    fn wake(&mut self) {
        let now = self.clock.now();
        let mut state = self.shared.lock();
        while let Some(uid) = self.wakes.pop(now) {
            state.replica.touch(&uid);
        }
    }

    /// Decides and begins until there is nothing to begin.
    fn settle(&mut self) {
        let now = self.now();
        let mut state = self.shared.lock();
        loop {
            let dirty = state.replica.take_dirty();
            if dirty.is_empty() {
                break;
            }
            for uid in dirty {
                let agenda = begin_all(&mut state.replica, &mut self.hands, &uid, now, &mut self.rng);
                self.wakes.set(&uid, agenda.and_then(|agenda| agenda.next()));
                match agenda {
                    Some(agenda) => state.agendas.insert(uid, agenda),
                    None => state.agendas.remove(&uid),
                };
            }
        }
        match state.replica.readiness(now) {
            Readiness::Ready => self.ready.pass(),
            not_yet => self.ready.fail(not_yet.to_string()),
        }
    }

    fn next_due(&self) -> Option<Duration> {
        [self.wakes.first(), self.shared.lock().replica.ready_by()].into_iter().flatten().min()
    }
}

/// Begins everything that is to be begun about one executor, and says what it waits for then.
fn begin_all(replica: &mut Replica, hands: &mut Hands, uid: &Uid, now: Now, rng: &mut Rng) -> Option<Agenda> {
    let agenda = loop {
        let plan = replica.decide(uid, now);
        match &plan {
            Plan::Nothing => break None,
            Plan::Wait(agenda) => break Some(*agenda),
            _ => {}
        }
        let label = replica.subject(uid).map(Subject::label).unwrap_or_default();
        tracing::debug!(executor = %label, %plan, "begins");
        let attempt = replica.begin(uid, &plan, now, rng);
        match replica.subject(uid) {
            Some(subject) => hands.carry_out(uid, subject, &plan, attempt),
            None => hands.drop(uid),
        }
    };
    replica.judge(uid, now);
    if let Some(subject) = replica.subject(uid) {
        hands.owe(uid, subject, agenda.unwrap_or_default());
    }
    agenda
}

/// Tells people what changed about an executor, once: a failure that repeats is not told again.
fn tell(subject: &Subject, event: &Event) {
    let executor = subject.label();
    let told = |failure: &Failure| {
        let before = subject.verdict.as_ref().and_then(|verdict| verdict.result.as_ref().err());
        before.is_some_and(|before| before.reason == failure.reason && before.text == failure.text)
    };
    match event {
        Event::Fetched { loaded: Some(loaded), .. } => {
            if let Err(failure) = &loaded.compiled {
                let generation = loaded.generation;
                tracing::warn!(%executor, generation, reason = %failure.reason, error = %failure.text, "cannot be built");
            }
        }
        Event::Attempted { attempt, result, .. } => {
            let Some(running) = subject.attempt.as_ref().filter(|running| running.id == *attempt) else { return };
            let generation = running.generation;
            match result {
                Ok(_) => tracing::info!(%executor, generation, purpose = %running.purpose, "built"),
                Err(failure) if told(failure) => tracing::debug!(%executor, generation, "still failing"),
                Err(failure) => {
                    tracing::warn!(%executor, generation, reason = %failure.reason, error = %failure.text, "not built");
                }
            }
        }
        Event::Parked { failure, .. } if failure.reason == Reason::RateLimited => {
            tracing::info!(%executor, error = %failure.text, "waits at a gate");
        }
        _ => {}
    }
}

impl Wakes {
    fn set(&mut self, uid: &Uid, at: Option<Duration>) {
        if let Some(before) = self.by_uid.remove(uid) {
            self.queue.remove(&(before, uid.clone()));
        }
        if let Some(at) = at {
            self.by_uid.insert(uid.clone(), at);
            self.queue.insert((at, uid.clone()));
        }
    }

    fn first(&self) -> Option<Duration> {
        self.queue.first().map(|(at, _)| *at)
    }

    fn pop(&mut self, now: Duration) -> Option<Uid> {
        let (at, uid) = self.queue.pop_first()?;
        if at > now {
            self.queue.insert((at, uid));
            return None;
        }
        self.by_uid.remove(&uid);
        Some(uid)
    }
}
