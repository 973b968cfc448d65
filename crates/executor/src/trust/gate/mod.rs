//! The gates of a process: every call to an upstream passes the one of its credential.
//!
//! `muster_core::gate` decides who may send when; this module lets tasks wait for it. A resource is known by its key, the
//! UID of its executor, and keeps its place in every line until it is done, however often its task is dropped and begun
//! again. A gate lives as long as anyone uses its credential, so that what it has learned outlasts a quiet hour.
//!
//! [`Gates`] knows them all, [`Visit`] is what one build does at them, `turnstile` is one gate with those who wait.

mod credential;
mod turnstile;
mod visit;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_core::gate::{Line, Stats};
use rand::Rng;

pub use credential::Credential;
pub(crate) use turnstile::Permit;
use turnstile::Turnstile;
pub use visit::{Patience, Stage, Visit};

use super::time::Time;

/// What a resource is known by: the UID of its executor.
pub type Key = Arc<str>;

/// All gates of a process. Clones are the same gates.
#[derive(Clone)]
pub struct Gates(Arc<Inner>);

/// One gate, for metrics and people.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Whose calls pass it; never the credential itself.
    pub credential: String,
    /// Resources that use the credential, waiting or not.
    pub users: usize,
    /// What it does.
    pub stats: Stats,
}

struct Inner {
    shared: Arc<Shared>,
    registry: Mutex<Registry>,
}

/// What all gates have in common.
struct Shared {
    time: Arc<dyn Time>,
    rng: Mutex<Box<dyn Rng + Send>>,
    refused: AtomicU64,
}

#[derive(Default)]
struct Registry {
    gates: BTreeMap<Credential, Entry>,
    /// The credentials that each resource uses.
    used: BTreeMap<Key, BTreeSet<Credential>>,
}

struct Entry {
    turnstile: Arc<Turnstile>,
    users: BTreeSet<Key>,
}

impl Gates {
    /// No gate yet.
    pub fn new(time: Arc<dyn Time>, rng: impl Rng + Send + 'static) -> Self {
        let shared = Shared { time, rng: Mutex::new(Box::new(rng)), refused: AtomicU64::new(0) };
        Self(Arc::new(Inner { shared: Arc::new(shared), registry: Mutex::default() }))
    }

    /// One build begins for the resource `key`.
    pub fn visit(&self, key: Key, line: Line, patience: Arc<dyn Patience>) -> Visit {
        Visit::new(self.clone(), key, line, patience)
    }

    /// The resource is gone: it leaves every line, and the gates that nobody else uses end.
    pub fn forget(&self, key: &str) {
        let mut registry = self.registry();
        for credential in registry.used.remove(key).unwrap_or_default() {
            registry.release(&credential, key);
        }
    }

    /// All gates, by credential.
    pub fn reports(&self) -> Vec<Report> {
        let now = self.0.shared.time.now();
        let report = |(credential, entry): (&Credential, &Entry)| Report {
            credential: credential.label().to_owned(),
            users: entry.users.len(),
            stats: entry.turnstile.stats(now),
        };
        self.registry().gates.iter().map(report).collect()
    }

    /// Calls that upstreams have refused because of their rate, since the process began.
    pub fn refused(&self) -> u64 {
        self.0.shared.refused.load(Ordering::Relaxed)
    }

    /// The gate of a credential, of which `key` is a user from now on.
    fn enter(&self, credential: &Credential, key: &Key) -> Arc<Turnstile> {
        let mut registry = self.registry();
        registry.used.entry(Arc::clone(key)).or_default().insert(credential.clone());
        let entry = registry
            .gates
            .entry(credential.clone())
            .or_insert_with(|| Entry { turnstile: Turnstile::new(Arc::clone(&self.0.shared)), users: BTreeSet::new() });
        entry.users.insert(Arc::clone(key));
        Arc::clone(&entry.turnstile)
    }

    /// A build of `key` has ended for good and used these credentials. If it succeeded they are all it uses.
    fn done(&self, key: &Key, used: &BTreeSet<Credential>, succeeded: bool) {
        let mut registry = self.registry();
        let before = registry.used.get(key).cloned().unwrap_or_default();
        for credential in &before {
            if let Some(entry) = registry.gates.get(credential) {
                entry.turnstile.leave(key);
            }
        }
        if succeeded {
            for credential in before.difference(used) {
                registry.release(credential, key);
            }
            if used.is_empty() {
                registry.used.remove(key);
            } else {
                registry.used.insert(Arc::clone(key), used.clone());
            }
        }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        // No code that can panic runs under this lock.
        self.0.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// `key` uses this credential no more; with its last user the gate ends. Calls that are still in flight keep what
    /// they need of it alive.
    fn release(&mut self, credential: &Credential, key: &str) {
        if let Some(entry) = self.gates.get_mut(credential) {
            entry.turnstile.leave(key);
            entry.users.remove(key);
            if entry.users.is_empty() {
                self.gates.remove(credential);
            }
        }
    }
}

impl fmt::Debug for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.reports()).finish()
    }
}

#[cfg(test)]
mod tests;
