//! The signs of life of one watch, seen from its requests and its events: for the heartbeat, for readiness, for metrics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::client::Body;
use kube::runtime::watcher::Event;
use kube::{Client, Error};
use muster_core::heartbeat::LoopId;
use tokio::sync::watch;

use super::{Setup, Signs};
use crate::client::{Call, Verb};
use crate::clock::Clock;
use crate::health::Check;
use crate::kube_error::Verdict;
use crate::metrics::{self, Counter, Gauge};

/// Beyond what a watch asked for by this much, its end was not the server's doing: kube's idle guard strikes after 5 s.
const SILENT: Duration = Duration::from_secs(4);

/// What the readiness check of a watch means once its first list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// Ready for good: a replica serves on when the API server is away.
    OnceSynced,
    /// Not ready once errors have lasted this long: an aggregator is useless without the API server.
    Within(Duration),
}

/// How a watch is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchState {
    /// The first list is complete.
    pub synced: bool,
    /// Monotonic instant since which every try has failed; `None` if the last one succeeded.
    pub failing_since: Option<Duration>,
    /// Why the last try failed; `None` if it succeeded.
    pub error: Option<Verdict>,
}

/// Shared between a watch and its requests. Clones are the same pulse.
#[derive(Clone)]
pub(super) struct Pulse(Arc<Shared>);

struct Shared {
    id: LoopId,
    clock: Clock,
    check: Check,
    contact: Contact,
    state: watch::Sender<WatchState>,
    signs: Signs,
    turn: Mutex<Turn>,
    starts: Counter<2>,
    synced: Gauge<1>,
}

/// The watch that is going on.
struct Turn {
    /// How long it asks to last.
    asked: Duration,
    /// When it was started.
    started: Option<Duration>,
    /// Category of the error that ended the one before.
    cause: Option<&'static str>,
}

impl Pulse {
    pub(super) fn new(setup: &Setup) -> Self {
        let synced = setup.meters.gauge(&metrics::WATCH_SYNCED);
        synced.set(0.0, [setup.beat.id().as_str()]);
        Self(Arc::new(Shared {
            id: setup.beat.id(),
            clock: setup.clock.clone(),
            check: setup.check.clone(),
            contact: setup.contact,
            state: watch::Sender::new(WatchState::default()),
            signs: Signs::new(setup.beat.clone(), "its watch"),
            turn: Mutex::new(Turn { asked: Duration::ZERO, started: None, cause: None }),
            starts: setup.meters.counter(&metrics::WATCH_STARTS),
            synced,
        }))
    }

    pub(super) fn state(&self) -> watch::Receiver<WatchState> {
        self.0.state.subscribe()
    }

    /// A client whose requests are signs of life of this watch.
    pub(super) fn observe(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let pulse = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (pulse, client) = (pulse.clone(), client.clone());
            pulse.request(&Call::of(request.method(), request.uri()));
            async move {
                let answer = client.send(request).await?;
                if answer.status().is_success() {
                    pulse.contact();
                }
                Ok::<_, Error>(answer)
            }
        });
        Client::new(service, namespace)
    }

    /// What the watch will ask for from now on.
    pub(super) fn asks_for(&self, timeout: Duration) {
        self.turn().asked = timeout;
    }

    pub(super) fn event<K>(&self, event: &Event<K>) {
        self.0.signs.seen();
        if matches!(event, Event::InitDone) {
            self.0.state.send_if_modified(|state| !std::mem::replace(&mut state.synced, true));
            self.0.synced.set(1.0, [self.0.id.as_str()]);
            self.0.check.pass();
        }
    }

    /// A try failed; the next one is due at `at`.
    pub(super) fn failed(&self, verdict: Verdict, at: Duration) {
        self.turn().cause = Some(verdict.category());
        self.0.signs.failed(at);
        let now = self.0.clock.now();
        let before = self.0.state.borrow().clone();
        let since = before.failing_since.unwrap_or(now);
        if before.error.as_ref().map(Verdict::category) == Some(verdict.category()) {
            tracing::debug!(watch = %self.0.id, error = %verdict, "still failing");
        } else {
            tracing::warn!(watch = %self.0.id, category = verdict.category(), error = %verdict, "watch failed, trying again");
        }
        let usable = before.synced
            && match self.0.contact {
                Contact::OnceSynced => true,
                Contact::Within(grace) => now.saturating_sub(since) < grace,
            };
        let told = verdict.sentence.clone();
        if usable {
            self.0.check.pass_with(told);
        } else {
            self.0.check.fail(told);
        }
        self.0.state.send_replace(WatchState {
            synced: before.synced,
            failing_since: Some(since),
            error: Some(verdict),
        });
    }

    /// A request goes out: the watch has ended, or a page has been used up, and the loop goes on.
    fn request(&self, call: &Call) {
        self.0.signs.seen();
        if call.verb != Verb::Watch {
            return;
        }
        let now = self.0.clock.now();
        let reason = {
            let mut turn = self.turn();
            match (turn.cause.take(), turn.started.replace(now)) {
                (Some(category), _) => category,
                (None, None) => "first",
                (None, Some(before)) if now.saturating_sub(before) >= turn.asked + SILENT => "silent",
                (None, Some(_)) => "timeout",
            }
        };
        self.0.starts.one([self.0.id.as_str(), reason]);
    }

    /// The API server answered well.
    fn contact(&self) {
        let recovered = self.0.state.send_if_modified(|state| {
            state.failing_since = None;
            state.error.take().is_some()
        });
        if recovered {
            tracing::info!(watch = %self.0.id, "watch works again");
            if self.0.state.borrow().synced {
                self.0.check.pass();
            }
        }
    }

    fn turn(&self) -> std::sync::MutexGuard<'_, Turn> {
        self.0.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Pulse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.state.borrow().fmt(f)
    }
}
