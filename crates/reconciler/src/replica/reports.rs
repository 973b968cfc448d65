//! What news of the own objects and the answers to writes change.

use std::collections::HashSet;

use muster_api::ExecutorRef;
use muster_core::retry::{Retry, Step};
use rand::Rng;

use super::{Replica, floor};
use crate::subject::{Now, Own, Presence, Subject, Uid, Writing};

impl Replica {
    pub(super) fn own_seen(&mut self, executor: ExecutorRef, own: Own, now: Now) {
        let uid = Uid::from(executor.uid.as_str());
        let known = *self.synced.of(executor.kind);
        let subject = self.subjects.entry(uid.clone()).or_insert_with(|| {
            let presence = if known { Presence::Gone } else { Presence::Unresolved };
            Subject::new(executor, presence, now.mono)
        });
        subject.learn_own(own);
        self.dirty.insert(uid);
    }

    pub(super) fn own_gone(&mut self, executor: &Uid, object: &str) {
        if let Some(subject) = self.subjects.get_mut(executor)
            && subject.own.as_ref().is_some_and(|own| own.uid == object)
        {
            subject.own = None;
            subject.refused = None;
            self.dirty.insert(executor.clone());
        }
    }

    pub(super) fn own_listed(&mut self, items: Vec<(ExecutorRef, Own)>, now: Now) {
        let listed: HashSet<&str> = items.iter().map(|(executor, _)| executor.uid.as_str()).collect();
        for (uid, subject) in &mut self.subjects {
            // A changed definition ends the watch, so what was refused before may be accepted now.
            subject.refused = None;
            if !listed.contains(uid.as_str()) {
                subject.own = None;
            }
            self.dirty.insert(uid.clone());
        }
        for (executor, own) in items {
            self.own_seen(executor, own, now);
        }
        self.synced.own = true;
        self.startup.synced(self.synced, now);
    }

    pub(super) fn wrote(&mut self, uid: &Uid, own: Own, now: Now, rng: &mut dyn Rng) {
        let Some(subject) = self.subjects.get_mut(uid) else { return };
        let Some(Writing::Report(report)) = subject.writing.take() else { return };
        if own.says(&report) {
            subject.acknowledged = true;
            self.writes.forget(uid);
        } else {
            // Something between us and the store rewrites the object; writing again at once would go on for ever.
            self.writes.failed(uid.clone(), now.mono, None, rng);
        }
        subject.learn_own(own);
        self.dirty.insert(uid.clone());
    }

    pub(super) fn erased(&mut self, uid: &Uid) {
        if let Some(subject) = self.subjects.get_mut(uid) {
            subject.writing = None;
            subject.own = None;
            self.dirty.insert(uid.clone());
        }
    }

    pub(super) fn write_failed(&mut self, uid: &Uid, retry: Retry, now: Now, rng: &mut dyn Rng) {
        let Some(subject) = self.subjects.get_mut(uid) else { return };
        match (subject.writing.take(), retry) {
            // The object we meant is not there any more: that is what was wanted.
            (Some(Writing::Delete), Retry::NotFound | Retry::Conflict) => return self.erased(uid),
            (Some(Writing::Report(report)), _) if retry.step() == Step::Stop => subject.refused = Some(report),
            (Some(_), _) => {
                self.writes.failed(uid.clone(), now.mono, floor(retry), rng);
            }
            (None, _) => {}
        }
        self.dirty.insert(uid.clone());
    }
}

impl Subject {
    /// Keeps the newer of what is known and what is told: a watch lags behind the answers to our own writes.
    fn learn_own(&mut self, own: Own) {
        let newer = |known: &Own| own.version == 0 || own.version >= known.version;
        if self.own.as_ref().is_none_or(newer) {
            self.own = Some(own);
        }
    }
}
