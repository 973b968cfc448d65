//! What this replica serves, asked by whoever verifies an artifact and changed by whoever reconciles executors.
//!
//! Lookups read one immutable snapshot and take no lock. A change makes the next snapshot and swaps it in, so a lookup sees
//! a bucket as it was before or as it is after, never between. Every change touches one executor and cannot fail: what is
//! wrong with another executor never keeps a deleted one serving.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use muster_api::Serves;

use crate::build::Built;
use crate::scope::{Reference, ReferenceError, Scope};
use crate::words::quote;

/// Whose lookups an executor answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// An Executor: every namespace's that has no executor of its own.
    Cluster,
    /// A NamespacedExecutor: those of its namespace.
    Namespace(String),
}

/// An executor object that exists, whether it serves or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    /// UID of the object.
    pub uid: String,
    /// Name of the object.
    pub name: String,
    /// `metadata.creationTimestamp` (UTC).
    pub created: Timestamp,
    /// Whose lookups it answers.
    pub bucket: Bucket,
}

/// What answers a lookup.
#[derive(Clone, Debug)]
pub struct Served {
    /// The executor object.
    pub resident: Resident,
    /// The generation that was built.
    pub generation: i64,
    /// How that relates to the generation that is wanted.
    pub serves: Serves,
    /// What it was built to.
    pub built: Arc<Built>,
}

/// Why a lookup finds nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The reference cannot be read.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// No cluster executor is responsible, and the namespace has none of its own.
    #[error("no executor is configured for the artifact {}", quote(.reference))]
    NoExecutor {
        /// What was looked up.
        reference: String,
    },
    /// The namespace has executors of its own, and none is responsible. Cluster executors are not asked.
    #[error("no executor of namespace {namespace} is configured for the artifact {}", quote(.reference))]
    NoneInNamespace {
        /// The namespace.
        namespace: String,
        /// What was looked up.
        reference: String,
    },
}

/// What this replica serves.
#[derive(Debug, Default)]
pub struct ServeSet {
    snapshot: ArcSwap<Snapshot>,
    residents: Mutex<BTreeMap<String, Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    resident: Resident,
    served: Option<Arc<Served>>,
}

/// What lookups read.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    cluster: Arc<Index>,
    /// A namespace is here from the creation of its first executor on, so that its workloads never fall back meanwhile.
    namespaces: HashMap<String, Arc<Index>>,
}

/// The scopes of one bucket.
#[derive(Clone, Debug, Default)]
struct Index {
    repositories: HashMap<String, Arc<Served>>,
    registries: HashMap<String, Arc<Served>>,
    wildcards: HashMap<String, Arc<Served>>,
}

impl ServeSet {
    /// An empty one: every lookup fails.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that an executor exists, once. A NamespacedExecutor closes its namespace's fallback from here on.
    pub fn announce(&self, resident: Resident) {
        let mut residents = self.residents();
        if residents.contains_key(&resident.uid) {
            return;
        }
        let bucket = resident.bucket.clone();
        residents.insert(resident.uid.clone(), Entry { resident, served: None });
        self.publish(&residents, &bucket);
    }

    /// Serves `served` from here on, in place of whatever this executor served before. False, and nothing changes, unless
    /// the executor was announced and not removed since: a build that ends late brings no deleted executor back.
    pub fn serve(&self, served: Served) -> bool {
        let mut residents = self.residents();
        let Some(entry) = residents.get_mut(&served.resident.uid) else { return false };
        let bucket = entry.resident.bucket.clone();
        entry.served = Some(Arc::new(served));
        self.publish(&residents, &bucket);
        true
    }

    /// Serves nothing of this executor from here on. It still exists.
    pub fn withdraw(&self, uid: &str) {
        let mut residents = self.residents();
        let Some(entry) = residents.get_mut(uid).filter(|entry| entry.served.is_some()) else { return };
        entry.served = None;
        let bucket = entry.resident.bucket.clone();
        self.publish(&residents, &bucket);
    }

    /// Forgets an executor that is gone.
    pub fn remove(&self, uid: &str) {
        let mut residents = self.residents();
        if let Some(entry) = residents.remove(uid) {
            self.publish(&residents, &entry.resident.bucket);
        }
    }

    /// What an executor serves.
    pub fn served(&self, uid: &str) -> Option<Arc<Served>> {
        self.residents().get(uid).and_then(|entry| entry.served.clone())
    }

    /// The executor that is responsible for `reference` when a workload of `namespace` uses it: of those that list its
    /// repository, its registry and a wildcard for its registry the first.
    pub fn lookup(&self, namespace: &str, reference: &str) -> Result<Arc<Served>, LookupError> {
        let parsed = Reference::parse(reference)?;
        let snapshot = self.snapshot.load();
        let own = snapshot.namespaces.get(namespace);
        let found = own.unwrap_or(&snapshot.cluster).find(&parsed);
        found.cloned().ok_or_else(|| match own {
            Some(_) => {
                LookupError::NoneInNamespace { namespace: namespace.to_owned(), reference: reference.to_owned() }
            }
            None => LookupError::NoExecutor { reference: reference.to_owned() },
        })
    }

    fn residents(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        // Nothing that holds the lock can leave the map half changed.
        self.residents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next snapshot from the last one and this bucket as it is now. The caller holds the lock.
    fn publish(&self, residents: &BTreeMap<String, Entry>, bucket: &Bucket) {
        let mut entries: Vec<_> = residents.values().filter(|entry| entry.resident.bucket == *bucket).collect();
        // Whoever reconciles lets no two serve one scope. Should they overlap for a moment, the older one keeps it.
        entries.sort_unstable_by(|a, b| a.resident.seniority().cmp(&b.resident.seniority()));
        let index = Arc::new(Index::of(entries.iter().filter_map(|entry| entry.served.as_ref())));
        let mut snapshot = Snapshot::clone(&self.snapshot.load());
        match bucket {
            Bucket::Cluster => snapshot.cluster = index,
            Bucket::Namespace(namespace) if entries.is_empty() => {
                snapshot.namespaces.remove(namespace);
            }
            Bucket::Namespace(namespace) => {
                snapshot.namespaces.insert(namespace.clone(), index);
            }
        }
        self.snapshot.store(Arc::new(snapshot));
    }
}

impl Resident {
    /// Smaller is older.
    fn seniority(&self) -> (Timestamp, &str) {
        (self.created, &self.uid)
    }
}

impl Index {
    fn of<'a>(served: impl Iterator<Item = &'a Arc<Served>>) -> Self {
        let mut index = Self::default();
        for served in served {
            for scope in &served.built.compiled.scopes {
                let (map, key) = match scope {
                    Scope::Repository(name) => (&mut index.repositories, name),
                    Scope::Registry(registry) => (&mut index.registries, registry),
                    Scope::Wildcard(suffix) => (&mut index.wildcards, suffix),
                };
                map.entry(key.clone()).or_insert_with(|| Arc::clone(served));
            }
        }
        index
    }

    fn find(&self, reference: &Reference<'_>) -> Option<&Arc<Served>> {
        self.repositories
            .get(reference.name())
            .or_else(|| self.registries.get(reference.registry()))
            .or_else(|| self.wildcards.get(reference.wildcard()?))
    }
}

#[cfg(test)]
mod tests;
