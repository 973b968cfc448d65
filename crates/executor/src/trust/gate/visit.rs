//! What one build does at gates: it waits for its turn, as often as it has something to send.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use muster_core::gate::Line;

use super::turnstile::{Mood, Turnstile};
use super::{Credential, Gates, Key, Permit};
use crate::build::BuildError;
use crate::trust::LoadError;

/// How long a build waits at a gate before that is worth telling: shorter waits are part of any call.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Longest time after which a build that waits looks again at why.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// What a build is doing, as far as others depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits at a gate, perhaps for hours: it needs no worker, and no deadline runs.
    Waiting,
    /// A call of it is on its way: it needs no worker, and the call's own deadline runs.
    Calling,
    /// It works by itself.
    Working,
}

/// Whoever runs a build, as seen from the gates.
pub trait Patience: Send + Sync {
    /// The build enters this stage. It goes on when the future is ready: before it may work again it needs a worker.
    fn enter(&self, stage: Stage) -> BoxFuture<'_, ()>;

    /// The build has waited for a while, for this reason: to be reported until it ends. Told again when the reason is
    /// another one.
    fn waits(&self, why: BuildError) -> BoxFuture<'_, ()>;
}

/// One build at the gates. It ends with [`Visit::end`]; dropped before that, its resource keeps its places, for the build
/// that follows.
#[derive(Clone)]
pub struct Visit(Arc<Inner>);

struct Inner {
    gates: Gates,
    key: Key,
    line: Line,
    patience: Arc<dyn Patience>,
    used: Mutex<BTreeSet<Credential>>,
}

impl Visit {
    pub(super) fn new(gates: Gates, key: Key, line: Line, patience: Arc<dyn Patience>) -> Self {
        Self(Arc::new(Inner { gates, key, line, patience, used: Mutex::default() }))
    }

    /// The build is over. If it succeeded, the credentials it used are all that its resource uses.
    pub fn end(self, succeeded: bool) {
        let used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.gates.done(&self.0.key, &used, succeeded);
    }

    /// The build enters this stage.
    pub(crate) async fn enter(&self, stage: Stage) {
        self.0.patience.enter(stage).await;
    }

    /// Waits until a call with this credential may be sent. `path` is where the spec asks for it. The stage is
    /// [`Stage::Waiting`] from then on, and is the caller's to change.
    pub(crate) async fn permit(&self, credential: &Credential, path: &str) -> Permit {
        let inner = &*self.0;
        let turnstile = self.turnstile(credential);
        self.enter(Stage::Waiting).await;
        loop {
            let turn = turnstile.ask(&inner.key, inner.line);
            // `None`: the resource left the line while it waited. Whoever still waits is a new one.
            if let Some(permit) = self.patiently(turn, &turnstile, credential, path).await {
                return permit;
            }
        }
    }

    /// Waits for something that somebody else is getting with this credential.
    pub(crate) async fn wait_for<F: Future>(&self, future: F, credential: &Credential, path: &str) -> F::Output {
        let turnstile = self.turnstile(credential);
        self.enter(Stage::Waiting).await;
        let output = self.patiently(pin!(future), &turnstile, credential, path).await;
        self.enter(Stage::Working).await;
        output
    }

    /// Waits, and tells why if it takes long.
    async fn patiently<F: Future + Unpin>(
        &self,
        mut future: F,
        turnstile: &Turnstile,
        credential: &Credential,
        path: &str,
    ) -> F::Output {
        let time = &self.0.gates.0.shared.time;
        let (mut told, mut pause) = (None, TELL_AFTER);
        loop {
            match select(future, time.sleep_until(time.now().saturating_add(pause))).await {
                Either::Left((output, _)) => return output,
                Either::Right(((), waiting)) => future = waiting,
            }
            pause = (pause * 2).min(LOOK_AGAIN);
            if let Some(error) = why(turnstile.mood(), credential).filter(|why| told.as_ref() != Some(why)) {
                told = Some(error.clone());
                self.0.patience.waits(BuildError::Load { path: path.to_owned(), error }).await;
            }
        }
    }

    fn turnstile(&self, credential: &Credential) -> Arc<Turnstile> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner).insert(credential.clone());
        self.0.gates.enter(credential, &self.0.key)
    }
}

/// A queue that moves is not worth a word.
fn why(mood: Mood, credential: &Credential) -> Option<LoadError> {
    let upstream = credential.host().to_owned();
    match mood {
        Mood::Busy => None,
        Mood::Refused => Some(LoadError::RateLimited { upstream, retry_after: None }),
        Mood::Failing => Some(LoadError::Unreachable { upstream }),
    }
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit").field("key", &self.0.key).field("line", &self.0.line).finish_non_exhaustive()
    }
}
