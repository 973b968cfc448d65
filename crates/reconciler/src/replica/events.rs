//! What can happen to a replica, and what each of these changes in what it knows.

use std::collections::HashSet;
use std::time::Duration;

use muster_api::{ExecutorKind, ExecutorRef, Reason, RetryClass};
use muster_core::retry::{Retry, Step};
use rand::{Rng, RngExt as _};

use super::{Replica, missing_policy};
use crate::subject::{
    Facts, Failure, Held, Loaded, Now, Own, Presence, Present, Purpose, Subject, Uid, Verdict, Writing,
};

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
    fn wants(&mut self, uid: &Uid, generation: i64, now: Now) {
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

    fn gone(&mut self, uid: &Uid) {
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

    fn own_seen(&mut self, executor: ExecutorRef, own: Own, now: Now) {
        let uid = Uid::from(executor.uid.as_str());
        let known = *self.synced.of(executor.kind);
        let subject = self.subjects.entry(uid.clone()).or_insert_with(|| {
            let presence = if known { Presence::Gone } else { Presence::Unresolved };
            Subject::new(executor, presence, now.mono)
        });
        subject.learn_own(own);
        self.dirty.insert(uid);
    }

    fn own_gone(&mut self, executor: &Uid, object: &str) {
        if let Some(subject) = self.subjects.get_mut(executor)
            && subject.own.as_ref().is_some_and(|own| own.uid == object)
        {
            subject.own = None;
            subject.refused = None;
            self.dirty.insert(executor.clone());
        }
    }

    fn own_listed(&mut self, items: Vec<(ExecutorRef, Own)>, now: Now) {
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

    fn fetched(&mut self, uid: &Uid, loaded: Option<Loaded>, now: Now, rng: &mut dyn Rng) {
        let Some(subject) = self.subjects.get_mut(uid) else { return };
        subject.fetching = false;
        let Some(loaded) = loaded else { return self.gone(uid) };
        let Some(present) = subject.present() else { return };
        let wanted = present.generation;
        if loaded.generation < wanted {
            // A server that lags behind its own watch: asking again at once could go on for ever.
            self.reads.failed(uid.clone(), now.mono, None, rng);
        } else {
            self.reads.forget(uid);
        }
        let (generation, claims) = (loaded.generation, loaded.claims.clone());
        subject.loaded = Some(loaded);
        if generation > wanted {
            self.wants(uid, generation, now);
        }
        self.claim(uid, claims);
        self.dirty.insert(uid.clone());
    }

    fn fetch_failed(&mut self, uid: &Uid, retry: Retry, now: Now, rng: &mut dyn Rng) {
        let Some(subject) = self.subjects.get_mut(uid) else { return };
        subject.fetching = false;
        let known_for = now.mono.saturating_sub(subject.first_seen);
        let unknown = subject.loaded.is_none();
        self.reads.failed(uid.clone(), now.mono, floor(retry), rng);
        // An object that cannot be read must not hold up the younger ones of its bucket for ever.
        if unknown && known_for >= self.settings.start_grace {
            self.claim(uid, []);
        }
        self.dirty.insert(uid.clone());
    }

    /// While the wanted generation serves, waiting at a gate changes nothing: its material is still good.
    fn parked(&mut self, uid: &Uid, attempt: u64, failure: Failure) {
        if let Some(subject) = self.subjects.get_mut(uid)
            && let Some(running) = subject.attempt.as_ref().filter(|running| running.id == attempt)
            && running.purpose == Purpose::Load
        {
            subject.verdict = Some(Verdict { generation: running.generation, result: Err(failure) });
            self.dirty.insert(uid.clone());
        }
    }

    fn attempted(&mut self, uid: &Uid, attempt: u64, result: Result<Facts, Failure>, now: Now, rng: &mut dyn Rng) {
        let Some(subject) = self.subjects.get_mut(uid) else { return };
        let Some(running) = subject.attempt.take_if(|running| running.id == attempt) else { return };
        let loaded = subject.loaded(running.generation);
        let interval = loaded.and_then(|loaded| loaded.compiled.clone().ok()).flatten();
        let claims = loaded.map(|loaded| loaded.claims.clone()).unwrap_or_default();
        match &result {
            Ok(facts) => {
                let first = subject.held.is_none();
                subject.refresh_at = interval.map(|interval| now.mono.saturating_add(jittered(interval, first, rng)));
                subject.held = Some(Held { generation: running.generation, claims, facts: facts.clone() });
                let is_wanted = subject.present().is_some_and(|present| present.generation == running.generation);
                subject.left_since = (!is_wanted).then_some(now.mono);
                self.builds.forget(uid);
            }
            Err(failure) => {
                let wish = failure.retry_after;
                match failure.reason.retry_class() {
                    RetryClass::Missing => {
                        self.builds.failed_under(missing_policy(interval), uid.clone(), now.mono, wish, rng);
                    }
                    // Whether one of the last three is tried again at all is decided elsewhere.
                    RetryClass::Transient
                    | RetryClass::Throttled
                    | RetryClass::None
                    | RetryClass::Permanent
                    | RetryClass::Blocked => {
                        self.builds.failed(uid.clone(), now.mono, wish, rng);
                    }
                }
            }
        }
        subject.verdict = Some(Verdict { generation: running.generation, result });
        self.dirty.insert(uid.clone());
    }

    fn wrote(&mut self, uid: &Uid, own: Own, now: Now, rng: &mut dyn Rng) {
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

    fn erased(&mut self, uid: &Uid) {
        if let Some(subject) = self.subjects.get_mut(uid) {
            subject.writing = None;
            subject.own = None;
            self.dirty.insert(uid.clone());
        }
    }

    fn write_failed(&mut self, uid: &Uid, retry: Retry, now: Now, rng: &mut dyn Rng) {
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

const fn floor(retry: Retry) -> Option<Duration> {
    match retry.step() {
        Step::Wait { floor } => floor,
        Step::Reread | Step::Relist | Step::Stop => None,
    }
}

/// The first refresh falls anywhere within the interval, so that replicas and executors that started together do not
/// fetch together for ever (C30); later ones keep their phase, loosely.
fn jittered(interval: Duration, first: bool, rng: &mut dyn Rng) -> Duration {
    let shortest = if first { interval / 20 } else { interval / 10 * 9 };
    rng.random_range(shortest..=interval)
}

impl Failure {
    /// What is said of an attempt that waits at a gate.
    pub fn throttled(text: impl Into<String>) -> Self {
        Self::new(Reason::RateLimited, text)
    }
}
