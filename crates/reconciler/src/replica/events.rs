//! What can happen to a replica, and what news about executors change in what it knows. The answers to what it began are
//! in `answers` and `reports`.

use std::collections::HashSet;

use muster_api::{ExecutorKind, ExecutorRef};
use muster_core::retry::Retry;
use rand::Rng;

use super::Replica;
use crate::subject::{Facts, Failure, Loaded, Now, Own, Presence, Present, Subject, Uid};

/// Something happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A watch showed an executor.
    Seen {
        /// Which.
        executor: ExecutorRef,
        /// Its metadata.
        present: Present,
    },
    /// A watch showed that an executor is gone, or going.
    Gone {
        /// Which.
        uid: Uid,
    },
    /// A watch of one kind is in sync: these exist and no others.
    Listed {
        /// The kind.
        kind: ExecutorKind,
        /// All that exist and are not going.
        items: Vec<(ExecutorRef, Present)>,
    },
    /// The watch on the own objects showed one.
    OwnSeen {
        /// The executor it is about.
        executor: ExecutorRef,
        /// The object.
        own: Own,
    },
    /// The watch on the own objects showed that one is gone.
    OwnGone {
        /// UID of the executor it was about.
        executor: Uid,
        /// UID of the object.
        object: String,
    },
    /// The watch on the own objects is in sync: these exist and no others.
    OwnListed {
        /// All own objects.
        items: Vec<(ExecutorRef, Own)>,
    },
    /// A spec was read.
    Fetched {
        /// Whose.
        uid: Uid,
        /// The spec; `None` if this object is not there any more.
        loaded: Option<Loaded>,
    },
    /// A spec could not be read.
    FetchFailed {
        /// Whose.
        uid: Uid,
        /// What the answer asks for.
        retry: Retry,
    },
    /// An attempt waits at the gate of a credential; it goes on by itself.
    Parked {
        /// Whose.
        uid: Uid,
        /// Number of the attempt.
        attempt: u64,
        /// What to say while it waits.
        failure: Failure,
    },
    /// An attempt ended.
    Attempted {
        /// Whose.
        uid: Uid,
        /// Number of the attempt.
        attempt: u64,
        /// How.
        result: Result<Facts, Failure>,
    },
    /// Files or Secrets that an executor was built from have changed.
    MaterialChanged {
        /// Whose.
        uid: Uid,
    },
    /// A Secret that a spec names holds something else than before.
    SecretChanged {
        /// Whose spec.
        uid: Uid,
    },
    /// The own object was applied; this is what the server answered.
    Wrote {
        /// The executor.
        uid: Uid,
        /// The object.
        own: Own,
    },
    /// The own object was deleted.
    Erased {
        /// The executor.
        uid: Uid,
    },
    /// The own object could not be applied or deleted.
    WriteFailed {
        /// The executor.
        uid: Uid,
        /// What the answer asks for.
        retry: Retry,
    },
}

impl Event {
    /// The executor that it is about, if it is the answer to something that was begun.
    pub const fn uid(&self) -> Option<&Uid> {
        match self {
            Self::Fetched { uid, .. }
            | Self::FetchFailed { uid, .. }
            | Self::Parked { uid, .. }
            | Self::Attempted { uid, .. }
            | Self::Wrote { uid, .. }
            | Self::Erased { uid }
            | Self::WriteFailed { uid, .. } => Some(uid),
            Self::Seen { .. }
            | Self::Gone { .. }
            | Self::Listed { .. }
            | Self::OwnSeen { .. }
            | Self::OwnGone { .. }
            | Self::OwnListed { .. }
            | Self::MaterialChanged { .. }
            | Self::SecretChanged { .. } => None,
        }
    }
}

impl Replica {
    /// Takes note of something that happened.
    pub fn on(&mut self, event: Event, now: Now, rng: &mut dyn Rng) {
        match event {
            Event::Seen { executor, present } => self.seen(executor, present, now),
            Event::Gone { uid } => self.gone(&uid),
            Event::Listed { kind, items } => self.listed(kind, items, now),
            Event::OwnSeen { executor, own } => self.own_seen(executor, own, now),
            Event::OwnGone { executor, object } => self.own_gone(&executor, &object),
            Event::OwnListed { items } => self.own_listed(items, now),
            Event::Fetched { uid, loaded } => self.fetched(&uid, loaded, now, rng),
            Event::FetchFailed { uid, retry } => self.fetch_failed(&uid, retry, now, rng),
            Event::Parked { uid, attempt, failure } => self.parked(&uid, attempt, failure),
            Event::Attempted { uid, attempt, result } => self.attempted(&uid, attempt, result, now, rng),
            Event::MaterialChanged { uid } => self.material_changed(&uid),
            Event::SecretChanged { uid } => self.secret_changed(&uid),
            Event::Wrote { uid, own } => self.wrote(&uid, own, now, rng),
            Event::Erased { uid } => self.erased(&uid),
            Event::WriteFailed { uid, retry } => self.write_failed(&uid, retry, now, rng),
        }
    }

    fn seen(&mut self, executor: ExecutorRef, present: Present, now: Now) {
        let uid = Uid::from(executor.uid.as_str());
        let Some(subject) = self.subjects.get_mut(&uid) else {
            let subject = Subject::new(executor, Presence::Present(present), now.mono);
            self.subjects.insert(uid.clone(), subject);
            self.join_bucket(&uid);
            self.dirty.insert(uid);
            return;
        };
        match &mut subject.presence {
            // A UID does not come back: this is old news.
            Presence::Gone => {}
            Presence::Unresolved => {
                subject.presence = Presence::Present(present);
                subject.first_seen = now.mono;
                self.join_bucket(&uid);
                self.dirty.insert(uid);
            }
            Presence::Present(known) => {
                let asks = present.retry.is_some() && present.retry != known.retry;
                known.retry = present.retry;
                known.version = present.version;
                if present.generation > known.generation {
                    self.wants(&uid, present.generation, now);
                }
                if asks {
                    self.force(&uid);
                }
            }
        }
    }

    /// Another generation is wanted. What was learned about the last one is no reason to wait.
    pub(super) fn wants(&mut self, uid: &Uid, generation: i64, now: Now) {
        let Some(subject) = self.subjects.get_mut(uid) else { return };
        let Presence::Present(present) = &mut subject.presence else { return };
        present.generation = generation;
        subject.forced = false;
        if subject.held.is_some() {
            subject.left_since.get_or_insert(now.mono);
        }
        self.reads.forget(uid);
        self.builds.forget(uid);
        self.dirty.insert(uid.clone());
    }

    fn force(&mut self, uid: &Uid) {
        if let Some(subject) = self.subjects.get_mut(uid) {
            subject.forced = true;
            for waits in [&mut self.reads, &mut self.builds, &mut self.writes] {
                waits.forget(uid);
            }
            self.dirty.insert(uid.clone());
        }
    }

    /// While an attempt fails, its waits decide: a file that is being rewritten changes many times.
    fn material_changed(&mut self, uid: &Uid) {
        let fails = |subject: &Subject| subject.verdict.as_ref().is_some_and(|verdict| verdict.result.is_err());
        if !self.subjects.get(uid).is_none_or(fails) {
            self.force(uid);
        }
    }

    /// Somebody put another credential or other material there on purpose: it acts at once, also where the last one failed
    /// or still waits at a gate.
    fn secret_changed(&mut self, uid: &Uid) {
        self.force(uid);
        if let Some(attempt) = self.subjects.get_mut(uid).and_then(|subject| subject.attempt.as_mut()) {
            attempt.superseded = true;
        }
    }

    pub(super) fn gone(&mut self, uid: &Uid) {
        if let Some(subject) = self.subjects.get_mut(uid)
            && subject.presence != Presence::Gone
        {
            subject.presence = Presence::Gone;
            self.leave_bucket(uid);
            // Whatever failed before, what is left of it can be tried to be removed at once.
            self.writes.forget(uid);
            self.startup.forget(uid);
            self.dirty.insert(uid.clone());
        }
    }

    fn listed(&mut self, kind: ExecutorKind, items: Vec<(ExecutorRef, Present)>, now: Now) {
        let listed: HashSet<Uid> = items.iter().map(|(executor, _)| Uid::from(executor.uid.as_str())).collect();
        self.startup.listed(kind, &listed);
        self.dirty.extend(listed.iter().cloned());
        for (executor, present) in items {
            self.seen(executor, present, now);
        }
        let unlisted = |(uid, subject): (&Uid, &Subject)| {
            (subject.reference.kind == kind && !listed.contains(uid)).then(|| uid.clone())
        };
        let unlisted: Vec<Uid> = self.subjects.iter().filter_map(unlisted).collect();
        for uid in unlisted {
            self.gone(&uid);
        }
        *self.synced.of(kind) = true;
        self.startup.synced(self.synced, now);
    }
}
