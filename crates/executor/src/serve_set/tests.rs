//! What lookups find after each change, and that no change shows halfway.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;

use muster_api::ExecutorSpec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

use super::*;
use crate::compile::{CompileOptions, compile};
use crate::trust::{Sources, testing};

/// An executor that lists `scopes`; without verifier material, which lookups do not look at.
fn built(scopes: &[&str]) -> Arc<Built> {
    let spec: ExecutorSpec = serde_json::from_value(json!({
        "scopes": scopes,
        "verifiers": [{ "name": "n", "type": "notation", "parameters": { "certificates": [{}] } }],
        "stores": [{ "type": "filesystem-oci-store", "parameters": { "path": "/layout" } }],
    }))
    .unwrap();
    let compiled = compile(&spec, &CompileOptions::default()).unwrap();
    let built = futures::executor::block_on(crate::build::build(&compiled, &Sources::local(), testing::now()));
    Arc::new(built.unwrap())
}

/// `name`, or `namespace/name`; the UID is the same, the age is the name's first byte.
fn resident(name: &str) -> Resident {
    let (bucket, short) = match name.split_once('/') {
        Some((namespace, short)) => (Bucket::Namespace(namespace.to_owned()), short),
        None => (Bucket::Cluster, name),
    };
    let created = Timestamp::from_second(i64::from(short.as_bytes()[0])).unwrap();
    Resident { uid: name.to_owned(), name: short.to_owned(), created, bucket }
}

fn served(name: &str, generation: i64, scopes: &[&str]) -> Served {
    Served { resident: resident(name), generation, serves: Serves::Wanted, built: built(scopes) }
}

/// A set that serves the given executors.
fn serving(executors: &[(&str, &[&str])]) -> ServeSet {
    let set = ServeSet::new();
    for (name, scopes) in executors {
        set.announce(resident(name));
        assert!(set.serve(served(name, 1, scopes)));
    }
    set
}

/// The UID of what answers, or why nothing does.
fn find(set: &ServeSet, namespace: &str, reference: &str) -> String {
    set.lookup(namespace, reference).map_or_else(|error| error.to_string(), |served| served.resident.uid.clone())
}

#[test]
fn a_repository_wins_over_a_registry_and_a_registry_over_a_wildcard() {
    let set = serving(&[("wild", &["*.reg.io"]), ("registry", &["eu.reg.io"]), ("exact", &["eu.reg.io/team/app"])]);
    for (reference, holder) in [
        ("eu.reg.io/team/app:v1", "exact"),
        ("eu.reg.io/team/app/sub", "registry"),
        ("eu.reg.io/team", "registry"),
        ("us.reg.io/team/app", "wild"),
        ("a.us.reg.io/team/app", "no executor is configured for the artifact \"a.us.reg.io/team/app\""),
        ("app", "the reference \"app\" names no registry"),
    ] {
        assert_eq!(find(&set, "default", reference), holder, "{reference}");
    }
}

#[test]
fn a_namespaced_executor_closes_the_fallback_from_its_creation_on() {
    let set = serving(&[("base", &["reg.io"])]);
    assert_eq!(find(&set, "team-a", "reg.io/app"), "base");

    set.announce(resident("team-a/own"));
    let closed = "no executor of namespace team-a is configured for the artifact \"reg.io/app\"";
    assert_eq!(find(&set, "team-a", "reg.io/app"), closed);
    assert_eq!(find(&set, "team-b", "reg.io/app"), "base");

    assert!(set.serve(served("team-a/own", 1, &["other.io"])));
    assert_eq!(find(&set, "team-a", "other.io/app"), "team-a/own");
    assert_eq!(find(&set, "team-a", "reg.io/app"), closed);

    set.withdraw("team-a/own");
    assert_eq!(find(&set, "team-a", "reg.io/app"), closed);

    set.remove("team-a/own");
    assert_eq!(find(&set, "team-a", "reg.io/app"), "base");
}

#[test]
fn a_namespace_opens_again_with_its_last_executor() {
    let set = serving(&[("base", &["reg.io"]), ("team-a/one", &["one.io"]), ("team-a/two", &["two.io"])]);
    set.remove("team-a/one");
    assert_ne!(find(&set, "team-a", "reg.io/app"), "base");
    assert_eq!(find(&set, "team-a", "two.io/app"), "team-a/two");
    set.remove("team-a/two");
    assert_eq!(find(&set, "team-a", "reg.io/app"), "base");
}

#[test]
fn an_edit_replaces_every_scope_at_once() {
    let set = serving(&[("e", &["old.io", "both.io"])]);
    assert!(set.serve(served("e", 2, &["both.io", "new.io"])));
    assert_eq!(set.lookup("default", "both.io/app").unwrap().generation, 2);
    assert_eq!(find(&set, "default", "new.io/app"), "e");
    assert_ne!(find(&set, "default", "old.io/app"), "e");
    assert_eq!(set.served("e").unwrap().generation, 2);
}

#[test]
fn a_build_that_ends_late_brings_no_deleted_executor_back() {
    let set = serving(&[("e", &["reg.io"])]);
    set.remove("e");
    assert!(!set.serve(served("e", 2, &["reg.io"])));
    assert_ne!(find(&set, "default", "reg.io/app"), "e");
    assert!(set.served("e").is_none());
}

#[test]
fn announcing_again_changes_nothing() {
    let set = serving(&[("e", &["reg.io"])]);
    set.announce(resident("e"));
    assert_eq!(find(&set, "default", "reg.io/app"), "e");
}

#[test]
fn should_two_overlap_the_older_one_answers() {
    let set = serving(&[("b", &["reg.io"]), ("a", &["reg.io", "own.io"])]);
    assert_eq!(find(&set, "default", "reg.io/app"), "a");
    set.withdraw("a");
    assert_eq!(find(&set, "default", "reg.io/app"), "b");
    assert_ne!(find(&set, "default", "own.io/app"), "a");
}

/// Each edit moves two scopes to the next generation, and a neighbour comes and goes. No reader may see the two scopes of
/// different snapshots answer with falling generations, the neighbour's absence as anything but an error, or a gap.
#[test]
fn readers_never_see_an_edit_halfway() {
    const EDITS: i64 = 400;
    let set = serving(&[("e", &["one.io", "two.io"]), ("team-a/own", &["one.io"])]);
    let (done, lookups) = (AtomicBool::new(false), AtomicUsize::new(0));
    let built = built(&["one.io", "two.io"]);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let first = set.lookup("default", "one.io/app").unwrap().generation;
                    let second = set.lookup("default", "two.io/app").unwrap().generation;
                    assert!(last <= first && first <= second, "{last} {first} {second}");
                    last = second;
                    // The tenant's executor comes and goes; the cluster's never answers for it.
                    if let Ok(served) = set.lookup("team-a", "one.io/app") {
                        assert_eq!(served.resident.uid, "team-a/own");
                    }
                    assert!(set.lookup("team-a", "two.io/app").is_err());
                    lookups.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for generation in 2..=EDITS {
            let served =
                Served { resident: resident("e"), generation, serves: Serves::Wanted, built: Arc::clone(&built) };
            assert!(set.serve(served));
            if generation % 2 == 0 {
                set.withdraw("team-a/own");
            } else {
                assert!(set.serve(self::served("team-a/own", generation, &["one.io"])));
            }
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(set.lookup("default", "one.io/app").unwrap().generation, EDITS);
    assert!(lookups.load(Ordering::Relaxed) > 0);
}

/// An executor is edited, turns out wrong or loses its scope, and is deleted and made again, while readers look it up: what
/// was taken away before somebody asks is never the answer, however the two race.
#[test]
fn readers_never_get_what_was_taken_away_before_they_asked() {
    const ROUNDS: i64 = 400;
    let set = serving(&[("e", &["one.io"])]);
    // The last generation that was taken away: the rounds count on through all incarnations.
    let (gone, done, found) = (AtomicI64::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let built = built(&["one.io"]);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let gone = gone.load(Ordering::Acquire);
                    if let Ok(served) = set.lookup("default", "one.io/app") {
                        assert!(served.generation > gone, "{} of {gone}", served.generation);
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        while found.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        for generation in 2..=ROUNDS {
            let served =
                Served { resident: resident("e"), generation, serves: Serves::Wanted, built: Arc::clone(&built) };
            assert!(set.serve(served));
            thread::yield_now();
            if generation % 3 == 0 {
                set.remove("e");
                set.announce(resident("e"));
            } else if generation % 3 == 1 {
                set.withdraw("e");
            } else {
                continue;
            }
            gone.store(generation, Ordering::Release);
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
}

proptest! {
    #[test]
    fn lookups_follow_the_scopes_rules(
        scopes in subsequence(vec!["a.b", "b.b", "*.b", "a.b/x", "a.b/x/y", "b.b/x"], 1..6),
        reference in select(vec!["a.b/x", "a.b/x/y", "a.b/z", "b.b/x", "c.b/x", "a.a.b/x"]),
    ) {
        // One executor for each scope, named after its place.
        let names: Vec<_> = (0..scopes.len()).map(|index| index.to_string()).collect();
        let executors: Vec<_> = names.iter().zip(scopes.chunks(1)).map(|(name, scopes)| (&**name, scopes)).collect();
        let set = serving(&executors);
        let parsed = Reference::parse(reference).unwrap();
        // The order of the variants is the order of precedence.
        let holder = executors
            .iter()
            .map(|(name, scopes)| (scopes[0].parse::<Scope>().unwrap(), *name))
            .filter(|(scope, _)| scope.covers(&parsed))
            .min();
        let found = set.lookup("default", reference).ok();
        prop_assert_eq!(found.as_ref().map(|served| &*served.resident.uid), holder.as_ref().map(|(_, name)| *name));
    }
}
