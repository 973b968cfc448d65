//! Leadership by Lease: the requests, the watch and the timer around the state machine of `muster_core::election`.
//!
//! Losing the Lease ends the work of a leader, not the process: the token of the [`Term`] is cancelled, the driver waits
//! until whoever holds the term has dropped it, and contends again (C46, C49). A term also ends by the clock alone, so
//! even a driver that hangs cannot make a stale leader write: ask [`Leadership::is_leader`] before each write.

mod io;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, OptionFuture};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use muster_core::election::{Action, Election, Input, StepDown, Timing, TimingError};
use muster_core::heartbeat::Due;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::args::LeaseArgs;
use crate::health::Check;
use crate::heartbeat::{Loop, Work};
use crate::kube_error::Verdict;
use crate::metrics::{self, Counter, Gauge};
use crate::watch::{Contact, Selection, Setup, Watch};
use io::{Answered, Store};

/// Which Lease, and who contends for it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Unique among contenders, the same after a restart in place: pod name and UID.
    pub identity: String,
    /// Field manager of its writes.
    pub manager: String,
    /// Durations.
    pub timing: Timing,
}

/// The driver. [`Driver::run`] it as a task of its own.
pub struct Driver {
    candidate: Candidate,
    setup: Setup,
    election: Arc<Mutex<Election>>,
    store: Store,
    changes: Watch<Lease>,
    /// What the machine asked for.
    request: Option<Asked>,
    /// A standby's look at the Lease, and when the next one is due.
    glance: Option<Asked>,
    next_glance: Duration,
    terms: watch::Sender<Option<Term>>,
    check: Check,
    failing_since: Option<Duration>,
    leader: Gauge<0>,
    transitions: Counter<1>,
    calls: Counter<2>,
}

/// A request on its way.
struct Asked {
    action: &'static str,
    since: Duration,
    answer: BoxFuture<'static, Answered>,
}

/// Whether this process leads. Clones are the same.
#[derive(Clone, Debug)]
pub struct Leadership {
    election: Arc<Mutex<Election>>,
    clock: crate::clock::Clock,
    terms: watch::Receiver<Option<Term>>,
}

/// One spell of leadership. Hold it while working as the leader, and drop it when its token is cancelled: only then does
/// this process contend again.
#[derive(Clone, Debug)]
pub struct Term {
    lost: CancellationToken,
    held: TaskTrackerToken,
}

impl Candidate {
    /// From the flags; `pod` and `uid` name this process.
    pub fn new(args: &LeaseArgs, namespace: &str, pod: &str, uid: &str) -> Result<Self, TimingError> {
        let timing = Timing::new(args.lease_duration.get(), args.renew_deadline.get(), args.retry_period.get())?;
        Ok(Self {
            namespace: namespace.to_owned(),
            name: args.lease_name.clone(),
            identity: format!("{pod}_{uid}"),
            manager: crate::client::aggregator_manager(namespace),
            timing,
        })
    }
}

impl Term {
    /// Cancelled when leadership is lost.
    pub const fn lost(&self) -> &CancellationToken {
        &self.lost
    }
}

impl Leadership {
    /// True if this process leads at this moment, by the clock.
    pub fn is_leader(&self) -> bool {
        let now = self.clock.now();
        lock(&self.election).is_leader(now)
    }

    /// Who holds the Lease, as far as is known.
    pub fn holder(&self) -> Option<String> {
        lock(&self.election).holder().map(str::to_owned)
    }

    /// Waits until this process leads. Never returns once the driver has stopped.
    pub async fn lead(&mut self) -> Term {
        match self.terms.wait_for(Option::is_some).await.map(|term| term.clone()) {
            Ok(Some(term)) => term,
            _ => std::future::pending().await,
        }
    }

    /// Changes when leadership is won or lost.
    pub fn terms(&self) -> watch::Receiver<Option<Term>> {
        self.terms.clone()
    }
}

impl Driver {
    /// A contender that has not begun. `setup` gives the loop `lease` and the readiness check `lease`; the watch of the
    /// Lease is a check of its own, `lease-watch`.
    pub fn new(candidate: Candidate, setup: Setup, watch_check: Check, client: Client) -> (Self, Leadership) {
        let election = Arc::new(Mutex::new(Election::new(candidate.identity.clone(), candidate.timing)));
        let (terms, receiver) = watch::channel(None);
        let leadership = Leadership { election: election.clone(), clock: setup.clock.clone(), terms: receiver };
        let selection = Selection { fields: Some(format!("metadata.name={}", candidate.name)), ..Selection::default() };
        let watching = Setup { check: watch_check, contact: Contact::OnceSynced, ..setup.clone() };
        let namespace = candidate.namespace.clone();
        let changes =
            Watch::new(watching, client.clone(), selection, move |client| Api::namespaced(client, &namespace));
        let driver = Self {
            store: Store::new(client, &candidate, setup.clock.clone()),
            election,
            changes,
            request: None,
            glance: None,
            next_glance: Duration::ZERO,
            terms,
            check: setup.check.clone(),
            failing_since: None,
            leader: setup.meters.gauge(&metrics::LEADER),
            transitions: setup.meters.counter(&metrics::LEADER_CHANGES),
            calls: setup.meters.counter(&metrics::LEASE_CALLS),
            candidate,
            setup,
        };
        (driver, leadership)
    }

    /// Contends until `draining`, then steps down and gives the Lease back.
    pub async fn run(mut self, draining: CancellationToken) {
        self.leader.set(0.0, []);
        let mut told = false;
        let mut owed = Some(self.beat().due_now("its next step"));
        loop {
            self.beat().faults().await;
            let action = self.poll();
            owed = self.owe(owed, &action);
            match action {
                Action::Stop => return,
                Action::WaitUntil(at) => {
                    let wake = self.glancing(told).map_or(at, |glance| glance.min(at));
                    let input = tokio::select! {
                        () = draining.cancelled(), if !told => {
                            told = true;
                            Some(Input::Shutdown)
                        }
                        Some((since, answered)) = answer(&mut self.request) => {
                            self.request = None;
                            self.answered(answered, since)
                        }
                        Some((since, answered)) = answer(&mut self.glance) => {
                            self.glance = None;
                            self.answered(answered, since)
                        }
                        event = self.changes.next() => {
                            // What is being fetched may be older than this.
                            self.glance = None;
                            self.store.watched(event)
                        }
                        () = self.setup.clock.sleep_until(wake) => None,
                    };
                    if let Some(input) = input {
                        self.input(input);
                    }
                }
                Action::Lead => self.lead(),
                Action::StepDown(reason) => self.step_down(&reason).await,
                Action::Read { .. } => self.ask("read", self.store.read()),
                Action::TryAcquire { write, .. } => self.ask("acquire", self.store.write("acquire", write)),
                Action::Renew { write, .. } => self.ask("renew", self.store.write("renew", write)),
                Action::Release { write, .. } => self.ask("release", self.store.write("release", write)),
            }
        }
    }

    fn ask(&mut self, action: &'static str, answer: impl Future<Output = Answered> + Send + 'static) {
        self.give_up();
        self.request = Some(Asked { action, since: self.setup.clock.now(), answer: answer.boxed() });
    }

    /// The machine waits for the request on its way no longer, which is a failure like any other: if it were forgotten,
    /// one that is cut off from the Lease would never say so.
    fn give_up(&mut self) {
        if let Some(Asked { action, since, .. }) = self.request.take() {
            let waited = self.setup.clock.now().saturating_sub(since);
            let error = Some(Verdict::no_answer(&format!("{action} of the Lease"), waited));
            self.answered(Answered { action, input: None, error }, since);
        }
    }

    fn poll(&mut self) -> Action {
        let now = self.setup.clock.now();
        lock(&self.election).poll(now, &mut self.setup.rng)
    }

    fn input(&mut self, input: Input) {
        let now = self.setup.clock.now();
        lock(&self.election).input(input, now, &mut self.setup.rng);
    }

    /// Begins a look at the Lease if one is due, as often as client-go's standbys do, and says when the next one is.
    /// `None` while one is under way, and for whoever has no use for it.
    fn glancing(&mut self, leaving: bool) -> Option<Duration> {
        if leaving || self.request.is_some() || self.terms.borrow().is_some() {
            self.glance = None;
            return None;
        }
        let (now, retry) = (self.setup.clock.now(), self.candidate.timing.retry());
        if self.glance.is_none() && now >= self.next_glance {
            self.glance = Some(Asked { action: "glance", since: now, answer: self.store.glance(2 * retry).boxed() });
            self.next_glance = now + retry;
        }
        self.glance.is_none().then_some(self.next_glance)
    }

    /// Each step completes the one before and owes the next: at the instant the machine waits for, or now.
    fn owe(&self, owed: Option<Work<Due>>, action: &Action) -> Option<Work<Due>> {
        let at = match action {
            Action::WaitUntil(at) => *at,
            _ => self.setup.clock.now(),
        };
        owed.map(|due| due.start_unhindered().complete_then_due(at))
    }

    fn lead(&mut self) {
        tracing::info!(lease = self.candidate.name, identity = self.candidate.identity, "leading");
        self.leader.set(1.0, []);
        self.transitions.one(["Lead"]);
        let tracker = TaskTracker::new();
        let term = Term { lost: CancellationToken::new(), held: tracker.token() };
        self.terms.send_replace(Some(term));
    }

    /// Cancels the term and waits until nobody holds it, for the renew deadline at most: a write that is still under way
    /// then is stale, and loses by its resourceVersion.
    async fn step_down(&mut self, reason: &StepDown) {
        if *reason == StepDown::Shutdown {
            tracing::info!(lease = self.candidate.name, "giving the lease back");
        } else {
            self.give_up();
            tracing::warn!(lease = self.candidate.name, reason = reason.category(), "leading no more");
        }
        self.leader.set(0.0, []);
        self.transitions.one([reason.category()]);
        let Some(term) = self.terms.send_replace(None) else { return };
        term.lost.cancel();
        let held = term.held.task_tracker().clone();
        drop(term);
        held.close();
        if tokio::time::timeout(self.candidate.timing.renew_deadline(), held.wait()).await.is_err() {
            tracing::error!("the work of a leader did not end with its term");
        }
    }

    /// Counts and tells an answer to what was sent at `asked`, and hands on what it means for the machine.
    fn answered(&mut self, answered: Answered, asked: Duration) -> Option<Input> {
        let result = answered.error.as_ref().map_or("ok", |error| error.category());
        self.calls.one([answered.action, result]);
        match &answered.error {
            None => {
                self.failing_since = None;
                self.check.pass();
            }
            // Losing a race is how an election works.
            Some(_) if matches!(answered.input, Some(Input::Conflict)) => self.check.pass(),
            Some(error) => {
                let now = self.setup.clock.now();
                let since = *self.failing_since.get_or_insert(asked);
                tracing::warn!(action = answered.action, category = error.category(), %error, "Lease call failed");
                if error.needs_somebody() || now.saturating_sub(since) >= self.candidate.timing.renew_deadline() {
                    self.check.fail(error.sentence.clone());
                }
            }
        }
        answered.input
    }

    const fn beat(&self) -> &Loop {
        &self.setup.beat
    }
}

/// The answer to a request, and when that was sent; `None` at once if there is no request.
fn answer(asked: &mut Option<Asked>) -> impl Future<Output = Option<(Duration, Answered)>> {
    OptionFuture::from(asked.as_mut().map(|asked| asked.answer.as_mut().map(|answered| (asked.since, answered))))
}

fn lock(election: &Mutex<Election>) -> std::sync::MutexGuard<'_, Election> {
    election.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
