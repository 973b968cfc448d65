//! Random histories against the truth of what was asked for: whatever fails, in whatever order, a replica never serves
//! what it must not, never plans in a circle, and ends where it should once nothing fails any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::{Reason, Serves};
use muster_core::retry::Retry;
use muster_executor::{Bucket, Scope};
use proptest::prelude::*;

use super::script::{SETTINGS, World, created, executor, uid};
use crate::decide::Plan;
use crate::replica::Event;
use crate::subject::{Facts, Failure, Loaded, Present, Uid};

const NAMES: [&str; 5] = ["a", "b", "c", "team/d", "team/e"];
const SCOPES: [&str; 3] = ["x", "y", "z"];

/// One thing that happens. Numbers choose among what is there, so that shrinking keeps histories valid.
#[derive(Clone, Debug)]
enum Op {
    Edit { name: usize, scopes: u8, broken: bool },
    Delete { name: usize },
    Annotate { name: usize, value: u8 },
    Read { name: usize, ok: bool },
    Finish { name: usize, how: u8 },
    Park { name: usize },
    Write { name: usize, how: u8 },
    Alter { name: usize, delete: bool },
    Material { name: usize },
    Sync,
    Pass { seconds: u32 },
}

/// What people asked for.
#[derive(Clone, Debug)]
struct Wish {
    incarnation: u32,
    generation: i64,
    scopes: Vec<Scope>,
    broken: bool,
    exists: bool,
}

struct Game {
    world: World,
    wishes: BTreeMap<&'static str, Wish>,
    incarnations: u32,
}

fn op() -> impl Strategy<Value = Op> {
    let name = || 0..NAMES.len();
    prop_oneof![
        4 => (name(), 0_u8..8, prop::bool::weighted(0.15))
            .prop_map(|(name, scopes, broken)| Op::Edit { name, scopes, broken }),
        1 => name().prop_map(|name| Op::Delete { name }),
        1 => (name(), 0_u8..3).prop_map(|(name, value)| Op::Annotate { name, value }),
        6 => (name(), prop::bool::weighted(0.8)).prop_map(|(name, ok)| Op::Read { name, ok }),
        6 => (name(), 0_u8..8).prop_map(|(name, how)| Op::Finish { name, how }),
        1 => name().prop_map(|name| Op::Park { name }),
        5 => (name(), 0_u8..6).prop_map(|(name, how)| Op::Write { name, how }),
        1 => (name(), any::<bool>()).prop_map(|(name, delete)| Op::Alter { name, delete }),
        1 => name().prop_map(|name| Op::Material { name }),
        1 => Just(Op::Sync),
        4 => (1_u32..400).prop_map(|seconds| Op::Pass { seconds }),
    ]
}

impl Game {
    fn new(seed: u64) -> Self {
        Self { world: World::new(seed), wishes: BTreeMap::new(), incarnations: 0 }
    }

    fn full_name(&self, name: &str) -> String {
        format!("{name}~{}", self.wishes.get(name).map_or(0, |wish| wish.incarnation))
    }

    fn uid(&self, name: &str) -> Uid {
        uid(&self.full_name(name))
    }

    fn show(&mut self, name: &'static str, retry: Option<String>) {
        let wish = &self.wishes[name];
        let full = self.full_name(name);
        let mut executor = executor(&full);
        executor.uid = uid(&full).to_string();
        let present = Present { generation: wish.generation, created: created(&full), retry, version: String::new() };
        self.world.happens(Event::Seen { executor, present });
    }

    fn loaded(&self, name: &str) -> Option<Loaded> {
        let wish = self.wishes.get(name).filter(|wish| wish.exists)?;
        let interval = Duration::from_mins(10);
        let compiled = if wish.broken { Err(Failure::new(Reason::InvalidSpec, "broken")) } else { Ok(Some(interval)) };
        Some(Loaded { generation: wish.generation, claims: wish.scopes.clone(), compiled })
    }

    fn play(&mut self, op: &Op) {
        match *op {
            Op::Edit { name, scopes, broken } => {
                let name = NAMES[name];
                let listed = SCOPES.iter().enumerate().filter(|(bit, _)| scopes & (1 << bit) != 0);
                let scopes = listed.map(|(_, scope)| scope.parse().unwrap()).collect();
                let before = self.wishes.get(name).filter(|wish| wish.exists).cloned();
                let (incarnation, generation) = if let Some(wish) = before {
                    (wish.incarnation, wish.generation + 1)
                } else {
                    self.incarnations += 1;
                    (self.incarnations, 1)
                };
                self.wishes.insert(name, Wish { incarnation, generation, scopes, broken, exists: true });
                self.show(name, None);
            }
            Op::Delete { name } => {
                let uid = self.uid(NAMES[name]);
                if let Some(wish) = self.wishes.get_mut(NAMES[name]) {
                    wish.exists = false;
                    self.world.happens(Event::Gone { uid });
                }
            }
            Op::Annotate { name, value } => {
                if self.wishes.get(NAMES[name]).is_some_and(|wish| wish.exists) {
                    self.show(NAMES[name], Some(value.to_string()));
                }
            }
            Op::Read { name, ok } => self.read(NAMES[name], ok),
            Op::Finish { name, how } => self.finish(NAMES[name], how),
            Op::Park { name } => {
                let uid = self.uid(NAMES[name]);
                let attempt = self.world.attempt(&uid);
                self.world.happens(Event::Parked { uid, attempt, failure: Failure::throttled("slow down") });
            }
            Op::Write { name, how } => self.write(&self.uid(NAMES[name]), how),
            Op::Alter { name, delete } => self.alter(NAMES[name], delete),
            Op::Material { name } => {
                let uid = self.uid(NAMES[name]);
                let files = name % 2 == 0;
                let event = if files { Event::MaterialChanged { uid } } else { Event::SecretChanged { uid } };
                self.world.happens(event);
            }
            Op::Sync => self.world.sync(),
            Op::Pass { seconds } => self.world.pass(Duration::from_secs(seconds.into())),
        }
    }

    fn read(&mut self, name: &'static str, ok: bool) {
        let uid = self.uid(name);
        if !self.world.replica.subject(&uid).is_some_and(|subject| subject.fetching) {
            return;
        }
        let loaded = self.loaded(name);
        let failed = Event::FetchFailed { uid: uid.clone(), retry: Retry::Timeout };
        self.world.happens(if ok { Event::Fetched { uid, loaded } } else { failed });
    }

    fn finish(&mut self, name: &str, how: u8) {
        let uid = self.uid(name);
        let attempt = self.world.attempt(&uid);
        let in_a_while = self.world.now().wall + jiff::SignedDuration::from_mins(i64::from(how) * 5);
        let result = match how {
            0 => Err(Failure::new(Reason::Unreachable, "no answer")),
            1 => Err(Failure::new(Reason::MissingKeys, "no such key")),
            2 => Err(Failure::new(Reason::InvalidSpec, "provider unknown")),
            3 => Ok(Facts { usable_until: Some(in_a_while), rebuild_at: Some(in_a_while), ..Facts::default() }),
            _ => Ok(Facts::default()),
        };
        self.world.happens(Event::Attempted { uid, attempt, result });
    }

    fn write(&mut self, uid: &Uid, how: u8) {
        if self.world.replica.subject(uid).is_none_or(|subject| subject.writing.is_none()) {
            return;
        }
        match how {
            0 => self.world.happens(Event::WriteFailed { uid: uid.clone(), retry: Retry::Forbidden }),
            1 => self.world.happens(Event::WriteFailed { uid: uid.clone(), retry: Retry::SchemaOutdated }),
            _ => self.world.wrote(uid),
        }
    }

    fn alter(&mut self, name: &str, delete: bool) {
        let uid = self.uid(name);
        let Some(own) = self.world.replica.subject(&uid).and_then(|subject| subject.own.clone()) else { return };
        if delete {
            return self.world.happens(Event::OwnGone { executor: uid, object: own.uid });
        }
        let full = self.full_name(name);
        let mut executor = executor(&full);
        executor.uid = uid.to_string();
        let mut altered = self.world.own(name, own.report);
        altered.uid = own.uid;
        altered.intact = false;
        self.world.happens(Event::OwnSeen { executor, own: altered });
    }

    /// What must hold at every moment.
    fn check(&self) {
        let mut serving: BTreeMap<(Bucket, Scope), Vec<String>> = BTreeMap::new();
        for (uid, subject) in self.world.replica.subjects() {
            let Some(served) = &subject.served else { continue };
            let present = subject.present().expect("what is gone serves nothing");
            let held = subject.held.as_ref().expect("what serves is held");
            assert_eq!(served.generation, held.generation, "{uid}");
            assert!(!held.is_expired(self.world.now().wall), "{uid} serves expired material");
            if let Some(loaded) = subject.loaded(present.generation) {
                assert!(loaded.compiled.is_ok(), "{uid} serves although its spec can never be built");
            }
            for scope in &held.claims {
                serving.entry((subject.bucket(), scope.clone())).or_default().push(uid.to_string());
            }
            if served.generation == present.generation {
                assert_ne!(served.serves, Serves::Older);
            } else {
                assert_eq!(served.serves, Serves::Older, "{uid}");
                let left = subject.left_since.expect("an older generation was left at some time");
                assert!(self.world.mono < left + SETTINGS.edit_grace, "{uid} serves {served:?} after the grace");
            }
        }
        for (scope, uids) in serving {
            assert_eq!(uids.len(), 1, "{scope:?} is served by {uids:?}");
        }
    }

    fn answer_all(&mut self) {
        for name in NAMES {
            self.read(name, true);
        }
        let all: BTreeSet<Uid> = self.world.replica.subjects().map(|(uid, _)| uid.clone()).collect();
        for uid in &all {
            let attempt = self.world.attempt(uid);
            self.world.happens(Event::Attempted { uid: uid.clone(), attempt, result: Ok(Facts::default()) });
            self.write(uid, 5);
        }
    }

    /// From now on nothing fails. Everything that was asked for must come about, and then nothing more be done.
    fn calm(&mut self) {
        self.world.sync();
        for _ in 0..40 {
            self.answer_all();
            self.world.pass(Duration::from_mins(1));
            self.check();
        }
        // What fell due in the last minute, and what that leads to.
        for _ in 0..4 {
            self.answer_all();
        }
        for (uid, subject) in self.world.replica.subjects() {
            assert!(subject.writing.is_none() && !subject.fetching && subject.attempt.is_none(), "{uid}: {subject:?}");
            let plan = self.world.replica.decide(uid, self.world.now());
            assert!(plan.is_rest(), "{uid} still plans {plan}");
            let report = subject.own.as_ref().and_then(|own| own.report.clone()).expect("reported");
            let present = subject.present().expect("what is gone is dropped");
            assert_eq!(report.observed_generation, present.generation, "{uid}: {report:?}");
            let serves = subject.served.is_some();
            let is_right = match report.reason {
                Reason::Built => serves,
                Reason::InvalidSpec | Reason::ScopeConflict => !serves,
                _ => false,
            };
            assert!(is_right && report.succeeded == serves, "{uid}: {report:?}");
        }
        let existing: BTreeSet<String> =
            self.wishes.iter().filter(|(_, wish)| wish.exists).map(|(name, _)| self.uid(name).to_string()).collect();
        let known: BTreeSet<String> = self.world.replica.subjects().map(|(uid, _)| uid.to_string()).collect();
        assert_eq!(known, existing, "what is gone is forgotten and what exists is known");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_the_replica_serves_what_it_may_and_ends_where_it_should(
        seed in any::<u64>(),
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut game = Game::new(seed);
        for op in &ops {
            game.play(op);
            game.check();
        }
        game.calm();
    }

    /// Deciding is a function: asked twice, it says the same, and what was begun is not planned again.
    #[test]
    fn a_plan_that_was_begun_is_not_planned_again(seed in any::<u64>(), ops in prop::collection::vec(op(), 1..80)) {
        let mut game = Game::new(seed);
        for op in &ops {
            game.play(op);
            let now = game.world.now();
            for (uid, _) in game.world.replica.subjects() {
                let plan = game.world.replica.decide(uid, now);
                prop_assert!(matches!(plan, Plan::Nothing | Plan::Wait(_)), "{uid} plans {plan}");
            }
        }
    }
}
