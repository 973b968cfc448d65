//! Everything the aggregator knows, in memory, indexed the way the fold asks: executor UID to reports, pod UID to pod.
//! Nothing is ever listed because of an event; an event changes the index and names the executors to look at again.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use muster_api::{ExecutorKind, ExecutorStatus};

use crate::facts::{Executor, Pod, Report, Version};

/// Which watch something comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Executors or NamespacedExecutors.
    Executors(ExecutorKind),
    /// ExecutorPodStatus objects.
    Reports,
    /// The reconciler's pods.
    Pods,
}

/// An object as a watch shows it.
#[derive(Clone, Debug)]
pub enum Object {
    /// An executor of either kind.
    Executor(Executor),
    /// A replica's report.
    Report(Report),
    /// A pod.
    Pod(Pod),
}

/// What a watch says.
#[derive(Clone, Debug)]
pub enum Change {
    /// A complete list follows.
    ListBegins,
    /// An object of that list.
    Listed(Object),
    /// The list is complete: what it did not hold is gone.
    ListEnds,
    /// An object was created or changed.
    Applied(Object),
    /// An object was deleted; its last state.
    Deleted(Object),
}

/// Which executors have to be looked at again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Touched {
    /// None.
    #[default]
    Nothing,
    /// Those with these UIDs.
    Some(Vec<Arc<str>>),
    /// All: the set of replicas changed.
    All,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Index {
    executors: HashMap<Arc<str>, Executor>,
    reports: HashMap<Arc<str>, HashMap<Arc<str>, Report>>,
    pods: HashMap<Arc<str>, Pod>,
    /// UIDs that a list under way has shown.
    listed: HashMap<Source, HashSet<Arc<str>>>,
    synced: HashSet<Source>,
}

impl Index {
    /// Takes in what a watch says.
    pub fn change(&mut self, source: Source, change: Change) -> Touched {
        match change {
            Change::ListBegins => {
                self.listed.insert(source, HashSet::new());
                Touched::Nothing
            }
            Change::Listed(object) => {
                if let Some(listed) = self.listed.get_mut(&source) {
                    listed.insert(key(&object).clone());
                }
                self.apply(object)
            }
            Change::ListEnds => {
                self.synced.insert(source);
                let listed = self.listed.remove(&source).unwrap_or_default();
                self.keep(source, &listed)
            }
            Change::Applied(object) => self.apply(object),
            Change::Deleted(object) => self.delete(&object),
        }
    }

    /// True once the first list of every watch is complete: before, a fold would take the unknown for absent.
    pub fn is_synced(&self) -> bool {
        self.synced.len() == 4
    }

    /// The executor of this UID.
    pub fn executor(&self, uid: &str) -> Option<&Executor> {
        self.executors.get(uid)
    }

    /// Every executor.
    pub fn executors(&self) -> impl Iterator<Item = &Executor> {
        self.executors.values()
    }

    /// The reports on the executor of this UID, which may be gone.
    pub fn reports(&self, executor_uid: &str) -> impl Iterator<Item = &Report> {
        self.reports.get(executor_uid).into_iter().flat_map(HashMap::values)
    }

    /// Every report.
    pub fn all_reports(&self) -> impl Iterator<Item = &Report> {
        self.reports.values().flat_map(HashMap::values)
    }

    /// Every pod of the reconciler.
    pub fn pods(&self) -> impl ExactSizeIterator<Item = &Pod> {
        self.pods.values()
    }

    /// The reconciler's pod of this UID.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.get(uid)
    }

    /// Our write was carried out: the object has this version now, and the status that we sent. What an older definition
    /// dropped from it is not read back, or we would send the same again for ever.
    pub fn written(&mut self, uid: &str, version: Version, status: Arc<ExecutorStatus>) {
        if let Some(executor) = self.executors.get_mut(uid)
            && !executor.version.covers(&version)
        {
            executor.version = version;
            executor.status = Some(status);
        }
    }

    /// A read shows this executor. One that is not known any more, or has another UID, is left to the watch.
    pub fn read(&mut self, executor: Executor) -> Touched {
        if self.executors.contains_key(&executor.uid) {
            self.apply(Object::Executor(executor))
        } else {
            Touched::Nothing
        }
    }

    fn apply(&mut self, object: Object) -> Touched {
        match object {
            Object::Executor(executor) => match self.executors.entry(executor.uid.clone()) {
                // The answer to a write of ours, or a read, may be ahead of the watch.
                Entry::Occupied(held) if held.get().version.covers(&executor.version) => Touched::Nothing,
                entry => {
                    let uid = executor.uid.clone();
                    entry.insert_entry(executor);
                    Touched::Some(vec![uid])
                }
            },
            Object::Report(report) => {
                let executor = report.executor_uid.clone();
                let held =
                    self.reports.entry(executor.clone()).or_default().insert(report.name.clone(), report.clone());
                let same = held.is_some_and(|held| says_the_same(&held, &report));
                if same { Touched::Nothing } else { Touched::Some(vec![executor]) }
            }
            Object::Pod(pod) => {
                let held = self.pods.insert(pod.uid.clone(), pod.clone());
                if held.as_ref() == Some(&pod) { Touched::Nothing } else { Touched::All }
            }
        }
    }

    fn delete(&mut self, object: &Object) -> Touched {
        match object {
            Object::Executor(executor) => {
                self.executors.remove(&executor.uid);
                // Somebody has to forget it.
                Touched::Some(vec![executor.uid.clone()])
            }
            Object::Report(report) => self.delete_report(&report.executor_uid, &report.name),
            Object::Pod(pod) => match self.pods.remove(&pod.uid) {
                Some(_) => Touched::All,
                None => Touched::Nothing,
            },
        }
    }

    fn delete_report(&mut self, executor_uid: &Arc<str>, name: &Arc<str>) -> Touched {
        let Some(reports) = self.reports.get_mut(executor_uid) else { return Touched::Nothing };
        reports.remove(name);
        if reports.is_empty() {
            self.reports.remove(executor_uid);
        }
        Touched::Some(vec![executor_uid.clone()])
    }

    /// Drops what a complete list did not hold.
    fn keep(&mut self, source: Source, listed: &HashSet<Arc<str>>) -> Touched {
        match source {
            Source::Executors(kind) => {
                let gone: Vec<_> = self
                    .executors
                    .values()
                    .filter(|executor| executor.kind == kind && !listed.contains(&executor.uid))
                    .map(|executor| executor.uid.clone())
                    .collect();
                for uid in &gone {
                    self.executors.remove(uid);
                }
                Touched::of(gone)
            }
            Source::Reports => {
                let gone: Vec<_> = self
                    .all_reports()
                    .filter(|report| !listed.contains(&report.uid))
                    .map(|report| (report.executor_uid.clone(), report.name.clone()))
                    .collect();
                for (executor, name) in &gone {
                    self.delete_report(executor, name);
                }
                Touched::of(gone.into_iter().map(|(executor, _)| executor).collect())
            }
            Source::Pods => {
                let before = self.pods.len();
                self.pods.retain(|uid, _| listed.contains(uid));
                if self.pods.len() == before { Touched::Nothing } else { Touched::All }
            }
        }
    }
}

impl Touched {
    fn of(uids: Vec<Arc<str>>) -> Self {
        if uids.is_empty() { Self::Nothing } else { Self::Some(uids) }
    }
}

const fn key(object: &Object) -> &Arc<str> {
    match object {
        Object::Executor(executor) => &executor.uid,
        Object::Report(report) => &report.uid,
        Object::Pod(pod) => &pod.uid,
    }
}

/// An annotation moves the version, and nothing else.
fn says_the_same(a: &Report, b: &Report) -> bool {
    a.outcome == b.outcome
        && a.owner == b.owner
        && a.uid == b.uid
        && a.pod_uid == b.pod_uid
        && a.executor_uid == b.executor_uid
}

#[cfg(test)]
mod tests;
