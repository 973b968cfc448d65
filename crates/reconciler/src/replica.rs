//! Everything one replica knows, and the two ways in which it changes: something happened ([`Replica::on`]), or a plan
//! was begun ([`Replica::begin`]). No I/O, no clock; so whole histories can be played in a test.

mod answers;
mod events;
mod readiness;
mod reports;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use muster_api::{ExecutorKind, Serves};
use muster_core::backoff::Backoff;
use muster_core::retry::{Retry, Step};
use muster_executor::{Bucket, Claim, Scope};
use rand::Rng;

use crate::bucket::{Claims, Rank};
use crate::decide::{Plan, Settings, Snapshot, Waits, decide, pod_report};
use crate::subject::{Attempt, Now, Presence, Subject, Uid, Writing};

pub use events::Event;
pub use readiness::Readiness;

/// After so long without a further restore, somebody who alters the own object is met without a pause again.
const CALM: Duration = Duration::from_mins(1);

/// What one replica knows.
#[derive(Debug)]
pub struct Replica {
    settings: Settings,
    subjects: HashMap<Uid, Subject>,
    buckets: HashMap<Bucket, Claims>,
    reads: Backoff<Uid>,
    builds: Backoff<Uid>,
    writes: Backoff<Uid>,
    restores: Backoff<Uid>,
    synced: Synced,
    startup: readiness::Startup,
    /// Executors that serve an older generation, and give way to whoever lists its scopes now.
    yielding: BTreeSet<Uid>,
    /// Executors about which a decision may have changed.
    dirty: BTreeSet<Uid>,
    attempts: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Synced {
    executors: bool,
    namespaced: bool,
    own: bool,
}

impl Replica {
    /// Nothing is known yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            subjects: HashMap::new(),
            buckets: HashMap::new(),
            reads: Backoff::default(),
            builds: Backoff::default(),
            writes: Backoff::default(),
            restores: Backoff::default(),
            synced: Synced::default(),
            startup: readiness::Startup::default(),
            yielding: BTreeSet::new(),
            dirty: BTreeSet::new(),
            attempts: 0,
        }
    }

    /// The next step for one executor. [`Plan::Nothing`] for one that is not known.
    pub fn decide(&self, uid: &Uid, now: Now) -> Plan {
        let Some(subject) = self.subjects.get(uid) else { return Plan::Nothing };
        self.with_snapshot(uid, subject, now, |seen| decide(&seen))
    }

    /// Takes the executors for which a decision may have changed since the last call.
    pub fn take_dirty(&mut self) -> BTreeSet<Uid> {
        std::mem::take(&mut self.dirty)
    }

    /// Marks an executor for a decision: its time has come.
    pub fn touch(&mut self, uid: &Uid) {
        self.dirty.insert(uid.clone());
    }

    /// One executor.
    pub fn subject(&self, uid: &Uid) -> Option<&Subject> {
        self.subjects.get(uid)
    }

    /// All executors, in no order.
    pub fn subjects(&self) -> impl Iterator<Item = (&Uid, &Subject)> {
        self.subjects.iter()
    }

    /// Records that a plan is being carried out. Returns the number of the attempt if it is a [`Plan::Build`].
    pub fn begin(&mut self, uid: &Uid, plan: &Plan, now: Now, rng: &mut dyn Rng) -> Option<u64> {
        let subject = self.subjects.get_mut(uid)?;
        match plan {
            Plan::Nothing | Plan::Wait(_) => {}
            Plan::Announce => subject.announced = true,
            Plan::Fetch { .. } => subject.fetching = true,
            Plan::Build { generation, purpose } => {
                self.attempts += 1;
                subject.forced = false;
                let (generation, purpose) = (*generation, *purpose);
                subject.attempt = Some(Attempt { id: self.attempts, generation, purpose, superseded: false });
                return Some(self.attempts);
            }
            Plan::Cancel => subject.attempt = None,
            Plan::Serve(served) => {
                subject.served = Some(served.clone());
                if served.serves == Serves::Older {
                    self.yielding.insert(uid.clone());
                } else {
                    self.yielding.remove(uid);
                }
            }
            Plan::Remove => {
                subject.announced = false;
                subject.served = None;
                subject.held = None;
                self.yielding.remove(uid);
            }
            Plan::Withdraw => {
                subject.served = None;
                self.yielding.remove(uid);
                let wanted = subject.present().map(|present| present.generation);
                // What serves no more and is not wanted never serves again: an older generation does not come back.
                if subject.held.as_ref().map(|held| held.generation) != wanted {
                    subject.held = None;
                    subject.left_since = None;
                }
            }
            Plan::Adopt(said) => {
                subject.said = Some((**said).clone());
                subject.acknowledged = true;
            }
            Plan::Report(said) => {
                if subject.said.as_ref() != Some(said) {
                    if subject.said.as_ref().is_some_and(|before| before.outcome.generation != said.outcome.generation)
                    {
                        self.writes.forget(uid);
                    }
                    subject.said = Some((**said).clone());
                    subject.acknowledged = false;
                    self.restores.forget(uid);
                }
                subject.writing = Some(Writing::Report(pod_report(said)));
                if subject.acknowledged {
                    self.pace_restore(uid, now, rng);
                }
            }
            Plan::DeleteReport { .. } => subject.writing = Some(Writing::Delete),
            Plan::Drop => self.drop_subject(uid),
        }
        None
    }

    /// Somebody deleted or altered what we wrote. The first time it is put right at once; whoever does it again and
    /// again (a collector that does not believe in our pod, C03; a webhook) is met with growing pauses.
    fn pace_restore(&mut self, uid: &Uid, now: Now, rng: &mut dyn Rng) {
        if self.restores.not_before(uid).is_some_and(|not_before| not_before.saturating_add(CALM) < now.mono) {
            self.restores.forget(uid);
        }
        self.restores.failed(uid.clone(), now.mono, None, rng);
    }

    fn with_snapshot<T>(&self, uid: &Uid, subject: &Subject, now: Now, look: impl FnOnce(Snapshot<'_>) -> T) -> T {
        let bucket = self.buckets.get(&subject.bucket());
        let listed = subject.loaded.as_ref().map(|loaded| loaded.claims.as_slice()).unwrap_or_default();
        let held = subject.held.as_ref().map(|held| held.claims.as_slice()).unwrap_or_default();
        let claim = match bucket.and_then(|bucket| bucket.conflict(uid, listed)) {
            None => Claim::Free,
            Some(conflict) => Claim::Blocked {
                scope: conflict.scope,
                holder: self.subjects.get(&conflict.holder).map_or_else(String::new, |it| it.reference.to_string()),
            },
        };
        look(Snapshot {
            subject,
            claim: &claim,
            is_contested: bucket.is_some_and(|bucket| bucket.is_claimed_by_others(uid, held)),
            is_open: bucket.is_some_and(|bucket| bucket.is_open(uid)),
            waits: Waits {
                read: self.reads.not_before(uid),
                build: self.builds.not_before(uid),
                write: self.writes.not_before(uid),
                restore: self.restores.not_before(uid),
            },
            own_synced: self.synced.own,
            settings: &self.settings,
            now,
        })
    }

    fn drop_subject(&mut self, uid: &Uid) {
        self.leave_bucket(uid);
        self.subjects.remove(uid);
        self.startup.forget(uid);
        self.yielding.remove(uid);
        for waits in [&mut self.reads, &mut self.builds, &mut self.writes, &mut self.restores] {
            waits.forget(uid);
        }
    }

    fn join_bucket(&mut self, uid: &Uid) {
        if let Some(subject) = self.subjects.get(uid)
            && let Presence::Present(present) = &subject.presence
        {
            let rank = Rank { created: present.created, uid: uid.clone() };
            self.buckets.entry(subject.bucket()).or_default().join(rank);
        }
    }

    fn leave_bucket(&mut self, uid: &Uid) {
        let Some(subject) = self.subjects.get(uid) else { return };
        let key = subject.bucket();
        if let Some(bucket) = self.buckets.get_mut(&key) {
            self.dirty.extend(bucket.leave(uid));
            if bucket.is_empty() {
                self.buckets.remove(&key);
            }
        }
    }

    fn claim(&mut self, uid: &Uid, scopes: impl IntoIterator<Item = Scope>) {
        let Some(subject) = self.subjects.get(uid) else { return };
        if let Some(bucket) = self.buckets.get_mut(&subject.bucket()) {
            self.dirty.extend(bucket.claim(uid, scopes));
            self.dirty.extend(self.yielding.iter().cloned());
        }
    }
}

impl Synced {
    const fn of(&mut self, kind: ExecutorKind) -> &mut bool {
        match kind {
            ExecutorKind::Executor => &mut self.executors,
            ExecutorKind::NamespacedExecutor => &mut self.namespaced,
        }
    }
}

/// What a failed request asks to be waited for at least.
const fn floor(retry: Retry) -> Option<Duration> {
    match retry.step() {
        Step::Wait { floor } => floor,
        Step::Reread | Step::Relist | Step::Stop => None,
    }
}

#[cfg(test)]
mod tests;
