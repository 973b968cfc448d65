//! How long a replica waits between attempts, reads and writes; asserted on the instants at which something is sent.

use std::time::Duration;

use muster_api::Reason;
use muster_core::retry::Retry;

use super::script::{World, executor, uid};
use crate::replica::Event;
use crate::subject::{Failure, Loaded, Present};

/// A replica whose Executors of these names are read and being loaded.
fn loading(names: &[&str], refresh: Option<Duration>, seed: u64) -> World {
    let mut world = World::new(seed);
    world.sync();
    for name in names {
        let present =
            Present { generation: 1, created: super::script::created(name), retry: None, version: String::new() };
        world.happens(Event::Seen { executor: executor(name), present });
        let loaded =
            Loaded { generation: 1, claims: vec![format!("scope-{name}").parse().unwrap()], compiled: Ok(refresh) };
        world.happens(Event::Fetched { uid: uid(name), loaded: Some(loaded) });
    }
    world.log.clear();
    world
}

fn fail(world: &mut World, name: &str, reason: Reason, retry_after: Option<u64>) {
    let failure = Failure { reason, text: "why".into(), retry_after: retry_after.map(Duration::from_secs) };
    let attempt = world.attempt(&uid(name));
    assert_ne!(attempt, 0, "{name} has no attempt running");
    world.happens(Event::Attempted { uid: uid(name), attempt, result: Err(failure) });
}

fn succeed(world: &mut World, name: &str) {
    let attempt = world.attempt(&uid(name));
    world.happens(Event::Attempted { uid: uid(name), attempt, result: Ok(crate::subject::Facts::default()) });
}

/// Lets time pass until the executor is tried again, and says how long that took, in seconds.
fn until_tried(world: &mut World, name: &str) -> f64 {
    let begun = world.mono;
    while world.attempt(&uid(name)) == 0 {
        let wake = world.next_wake().expect("something falls due");
        world.pass(wake.saturating_sub(world.mono));
    }
    world.mono.saturating_sub(begun).as_secs_f64()
}

fn assert_within(wait: f64, full: f64) {
    assert!(wait >= full / 2.0 && wait <= full, "waited {wait} s, not within [{}, {full}]", full / 2.0);
}

#[test]
fn c23_a_failing_upstream_is_asked_after_5_s_doubling_to_5_min() {
    for seed in 0..20 {
        let mut world = loading(&["a"], None, seed);
        for full in [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0] {
            fail(&mut world, "a", Reason::Unreachable, None);
            assert_within(until_tried(&mut world, "a"), full);
        }
    }
}

#[test]
fn c23_half_an_hour_of_failures_is_at_most_18_attempts() {
    for seed in 0..20 {
        let mut world = loading(&["a"], None, seed);
        let mut attempts = 1;
        loop {
            fail(&mut world, "a", Reason::Unreachable, None);
            until_tried(&mut world, "a");
            if world.mono > Duration::from_mins(30) {
                break;
            }
            attempts += 1;
        }
        assert!((12..=18).contains(&attempts), "{attempts}");
    }
}

#[test]
fn c24_a_missing_item_is_asked_for_at_most_as_often_as_it_would_be_refreshed() {
    let day = Duration::from_hours(24);
    for seed in 0..20 {
        let mut world = loading(&["a"], Some(day), seed);
        let mut attempts = 1;
        while world.mono < day {
            fail(&mut world, "a", Reason::MissingKeys, None);
            until_tried(&mut world, "a");
            attempts += 1;
        }
        assert!(attempts <= 30, "{attempts}");
    }
    let mut world = loading(&["a"], None, 1);
    let mut longest = 0.0;
    for _ in 0..20 {
        fail(&mut world, "a", Reason::VaultNotFound, None);
        longest = f64::max(longest, until_tried(&mut world, "a"));
    }
    assert!((1_800.0..=3_600.0).contains(&longest), "{longest}");
}

#[test]
fn c31_a_success_forgets_and_objects_know_nothing_of_each_other() {
    let mut world = loading(&["a", "b"], Some(Duration::from_mins(1)), 3);
    for _ in 0..5 {
        fail(&mut world, "a", Reason::Unreachable, None);
        until_tried(&mut world, "a");
    }
    fail(&mut world, "b", Reason::Unreachable, None);
    assert_within(until_tried(&mut world, "b"), 5.0);

    succeed(&mut world, "a");
    until_tried(&mut world, "a");
    fail(&mut world, "a", Reason::Unreachable, None);
    assert_within(until_tried(&mut world, "a"), 5.0);
}

#[test]
fn a_new_spec_forgets() {
    let mut world = loading(&["a"], None, 4);
    for _ in 0..5 {
        fail(&mut world, "a", Reason::Unreachable, None);
        until_tried(&mut world, "a");
    }
    fail(&mut world, "a", Reason::Unreachable, None);
    let present = Present { generation: 2, created: super::script::created("a"), retry: None, version: String::new() };
    world.happens(Event::Seen { executor: executor("a"), present });
    let loaded = Loaded { generation: 2, claims: Vec::new(), compiled: Ok(None) };
    world.happens(Event::Fetched { uid: uid("a"), loaded: Some(loaded) });
    assert!(until_tried(&mut world, "a") < f64::EPSILON);
    fail(&mut world, "a", Reason::Unreachable, None);
    assert_within(until_tried(&mut world, "a"), 5.0);
}

#[test]
fn a_changed_secret_is_tried_at_once_and_forgets() {
    let mut world = loading(&["a"], None, 7);
    for _ in 0..5 {
        fail(&mut world, "a", Reason::AuthFailed, None);
        until_tried(&mut world, "a");
    }
    fail(&mut world, "a", Reason::AuthFailed, None);
    world.happens(Event::SecretChanged { uid: uid("a") });
    assert!(until_tried(&mut world, "a") < f64::EPSILON);
    fail(&mut world, "a", Reason::AuthFailed, None);
    assert_within(until_tried(&mut world, "a"), 5.0);
}

#[test]
fn c21_nothing_that_happens_during_a_wait_sends_or_counts() {
    let mut world = loading(&["a"], None, 5);
    for _ in 0..3 {
        fail(&mut world, "a", Reason::Unreachable, None);
        until_tried(&mut world, "a");
    }
    fail(&mut world, "a", Reason::Unreachable, None);
    let due = world.next_wake().unwrap();
    world.wrote(&uid("a"));
    for _ in 0..20 {
        world.pass(due.saturating_sub(world.mono) / 25);
        let present =
            Present { generation: 1, created: super::script::created("a"), retry: None, version: String::new() };
        world.happens(Event::Seen { executor: executor("a"), present });
        world.replica.touch(&uid("a"));
        world.settle();
        assert_eq!(world.attempt(&uid("a")), 0, "at {:?}, due {due:?}", world.mono);
    }
    until_tried(&mut world, "a");
    assert_eq!(world.mono, due);
    fail(&mut world, "a", Reason::Unreachable, None);
    assert_within(until_tried(&mut world, "a"), 80.0);
}

#[test]
fn a_wish_of_the_upstream_is_a_floor_with_jitter_on_top() {
    let mut waits = Vec::new();
    for seed in 0..10 {
        let mut world = loading(&["a"], None, seed);
        fail(&mut world, "a", Reason::RateLimited, Some(60));
        waits.push(until_tried(&mut world, "a"));
    }
    assert!(waits.iter().all(|wait| (60.0..=65.0).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| (wait - waits[0]).abs() > 0.1), "all alike: {waits:?}");
}

#[test]
fn c30_refreshes_spread_over_the_interval_after_a_start_and_keep_near_it_later() {
    let hour = Duration::from_hours(1);
    let mut first = Vec::new();
    for seed in 0..200 {
        let mut world = loading(&["a"], Some(hour), seed);
        succeed(&mut world, "a");
        first.push(until_tried(&mut world, "a"));
        succeed(&mut world, "a");
        let second = until_tried(&mut world, "a");
        assert!((3_240.0..=3_600.0).contains(&second), "{second}");
    }
    for quarter in 0..4 {
        let (low, high) = (f64::from(quarter) * 900.0, f64::from(quarter + 1) * 900.0);
        let count = first.iter().filter(|wait| (low..high).contains(*wait)).count();
        assert!((25..=75).contains(&count), "{count} of 200 first refreshes in quarter {quarter}");
    }
}

#[test]
fn reads_and_writes_that_fail_wait_and_heed_the_server() {
    let mut world = loading(&["a"], None, 6);
    succeed(&mut world, "a");
    world.log.clear();
    let retry = Retry::Throttled { retry_after: Some(Duration::from_secs(30)) };
    world.happens(Event::WriteFailed { uid: uid("a"), retry });
    world.pass(Duration::from_secs(29));
    assert_eq!(world.log, Vec::<String>::new());
    world.pass(Duration::from_secs(6));
    assert_eq!(world.log, ["a report 1 ok Wanted Built"]);

    let present = Present { generation: 2, created: super::script::created("a"), retry: None, version: String::new() };
    world.happens(Event::Seen { executor: executor("a"), present });
    world.log.clear();
    world.happens(Event::FetchFailed { uid: uid("a"), retry });
    world.pass(Duration::from_secs(29));
    assert_eq!(world.log, Vec::<String>::new());
    world.pass(Duration::from_secs(6));
    assert_eq!(world.log, ["a fetch 2"]);
}
