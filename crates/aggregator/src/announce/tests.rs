//! What is said, how often, and in which form.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use muster_api::{ExecutorKind, PodEntry, Serves, State};

use super::*;
use crate::facts::Version;

fn status(generation: i64, ready: &str, reason: &str, message: &str) -> ExecutorStatus {
    let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    ExecutorStatus {
        succeeded: ready == "True",
        observed_generation: Some(generation),
        by_pod: vec![PodEntry {
            id: "muster-a".to_owned(),
            pod_uid: "uid".to_owned(),
            observed_generation: generation,
            succeeded: false,
            error: message.to_owned(),
            brief_error: String::new(),
            last_transition_time: None,
            state: State::Current,
            reason: Reason::from(reason),
            serves: Serves::Nothing,
        }],
        conditions: vec![Condition {
            type_: CONDITION_READY.to_owned(),
            status: ready.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: Some(generation),
            last_transition_time: Time(now),
        }],
        ..ExecutorStatus::default()
    }
}

fn executor(name: &str, namespace: &str) -> Executor {
    Executor {
        kind: if namespace.is_empty() { ExecutorKind::Executor } else { ExecutorKind::NamespacedExecutor },
        namespace: namespace.into(),
        name: name.into(),
        uid: "uid".into(),
        version: Version::new("7"),
        generation: 1,
        deleting: false,
        status: None,
    }
}

fn said(announced: &mut Announced, at: u64, status: &ExecutorStatus) -> Option<String> {
    let said = announced.verdict(status, Duration::from_secs(at))?;
    Some(said.map_or_else(|_| "limited".to_owned(), |said| format!("{} {}", said.reason, said.note)))
}

#[test]
fn a_verdict_is_said_when_it_changes_and_the_steps_of_a_rollout_are_not() {
    let mut announced = Announced::new(None);
    let mut say = |at, status: &ExecutorStatus| said(&mut announced, at, status);
    let built = status(1, "True", "Built", "3/3 replicas serve generation 1");
    assert_eq!(say(0, &status(1, "False", "NotReported", "3/3 replicas unhealthy: no report yet")), None);
    assert_eq!(say(1, &built).as_deref(), Some("Built 3/3 replicas serve generation 1"));
    assert_eq!(say(2, &built), None);
    assert_eq!(say(3, &status(2, "False", "GenerationBehind", "no verdict on generation 2 yet")), None);
    let failed = status(2, "False", "InvalidSpec", "3/3 replicas unhealthy: spec.scopes[0] is empty");
    let sentence = "InvalidSpec 3/3 replicas unhealthy: spec.scopes[0] is empty; first replica: muster-a";
    assert_eq!(say(4, &failed).as_deref(), Some(sentence));
    assert_eq!(say(5, &status(2, "False", "InvalidSpec", "2/3 replicas unhealthy: spec.scopes[0] is empty")), None);
}

#[test]
fn a_new_leader_repeats_nothing() {
    let built = status(1, "True", "Built", "all");
    assert_eq!(said(&mut Announced::new(Some(&built)), 0, &built), None);
}

#[test]
fn one_that_flaps_is_limited() {
    let mut announced = Announced::new(None);
    let lines: Vec<_> = (0..8)
        .map(|round| {
            let status =
                if round % 2 == 0 { status(1, "True", "Built", "") } else { status(1, "False", "NotServing", "") };
            said(&mut announced, round, &status).unwrap() == "limited"
        })
        .collect();
    assert_eq!(lines, [false, false, false, false, false, true, true, true]);
    assert_ne!(said(&mut announced, 120, &status(1, "False", "AuthFailed", "")).unwrap(), "limited");
}

#[test]
fn c63_an_event_fits_whatever_the_names_and_texts() {
    let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let long = status(1, "False", "AuthFailed", &"ä".repeat(1_000));
    let mut announced = Announced::new(None);
    let announcement = announced.verdict(&long, Duration::ZERO).unwrap().unwrap();
    assert!(announcement.note.len() <= 1_024 && announcement.note.ends_with("muster-a"));

    let event = event(&announcement, &executor(&"x.".repeat(126), ""), "muster-aggregator", &"p".repeat(253), now);
    let name = event.metadata.name.as_deref().unwrap();
    assert!(name.len() <= 253 && !name.contains(".."), "{name}");
    assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(event.reporting_instance.unwrap().len(), 128);
    assert_eq!(event.regarding.unwrap().namespace, None);

    let event = super::event(&announcement, &executor("cosign", "team-a"), "muster-aggregator", "p", now);
    assert_eq!(event.metadata.namespace.as_deref(), Some("team-a"));
    assert_eq!(event.regarding.unwrap().namespace.as_deref(), Some("team-a"));

    let writer = announced.foreign_writer(&"m\n".repeat(500), Duration::ZERO).unwrap();
    assert!(writer.note.len() < 400 && !writer.note.contains('\n') && writer.warning);
}
