//! Decisions as data: `cases.yaml` says what happens and what has to be written, in virtual time.

use proptest::prelude::*;
use serde::Deserialize;

use crate::simulation::{Event, Simulation};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    from: From,
    replicas: usize,
    events: Vec<(f64, Event)>,
    #[serde(default = "a_minute")]
    until: f64,
    writes: Vec<String>,
    #[serde(default)]
    conflicts: u32,
    #[serde(default)]
    reads: u32,
    #[serde(default)]
    contests: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum From {
    Settled,
    Fresh,
}

fn a_minute() -> f64 {
    60.0
}

fn check(case: &Case) -> Option<String> {
    let mut world = match case.from {
        From::Settled => Simulation::settled(case.replicas),
        From::Fresh => Simulation::fresh(case.replicas),
    };
    world.run(&case.events, case.until);
    let got = (&world.writes, world.conflicts, world.reads, world.contests);
    let expected = (&case.writes, case.conflicts, case.reads, case.contests);
    if got != expected {
        return Some(format!("expected {expected:?}\n     got {got:?}"));
    }
    (!world.is_right()).then(|| "the last status is wrong".to_owned())
}

#[test]
fn cases() {
    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("cases.yaml")).unwrap();
    assert!(cases.len() > 15);
    let failed: String =
        cases.iter().filter_map(|case| check(case).map(|why| format!("\n{}: {why}", case.name))).collect();
    assert!(failed.is_empty(), "{failed}");
}

/// When the reports of ten replicas arrive, in milliseconds after the edit, and what they say.
fn reports(within: u64) -> impl Strategy<Value = Vec<(u64, usize, &'static str)>> {
    let text = prop::sample::select(vec!["", "no answer", "waits at a gate", "!spec.scopes[0] is empty"]);
    prop::collection::vec((0..within, 0..10usize, text), 10..40).prop_map(|mut reports| {
        // Every replica reports at least once.
        for (pod, report) in reports.iter_mut().take(10).enumerate() {
            report.1 = pod;
        }
        reports
    })
}

fn change(reports: &[(u64, usize, &'static str)]) -> Vec<(f64, Event)> {
    let at = |millis: u64| 20.0 + millis as f64 / 1_000.0;
    let mut events = vec![(20.0, Event::Edit)];
    events.extend(reports.iter().map(|(millis, pod, text)| (at(*millis), Event::Report(*pod, (*text).to_owned()))));
    events
}

#[test]
fn the_time_an_edit_takes_is_told_once_when_every_replica_has_a_verdict() {
    let mut world = Simulation::settled(3);
    let say = |millis: u64, pod| (millis, pod, "");
    world.run(&change(&[say(1_000, 0), say(2_000, 1)]), 60.0);
    assert!(world.rolls.is_empty(), "one is missing");
    world.run(&[(70.0, Event::Report(2, String::new())), (80.0, Event::Report(1, "no answer".to_owned()))], 120.0);
    assert_eq!(world.rolls.iter().map(std::time::Duration::as_secs).collect::<Vec<_>>(), [50]);
}

proptest! {
    /// One verdict of each replica within five seconds of an edit costs at most three writes, and they end right.
    #[test]
    fn an_edit_costs_at_most_three_writes(reports in reports(5_000)) {
        let first: Vec<_> = reports.into_iter().take(10).collect();
        let mut world = Simulation::settled(10);
        world.run(&change(&first), 200.0);
        prop_assert!(world.writes.len() <= 3, "{:?}", world.writes);
        prop_assert!(world.is_right());
    }

    /// Spread wider, it costs three and one more for each ten seconds.
    #[test]
    fn a_slow_edit_costs_one_more_for_each_ten_seconds(spread in 5_000..120_000u64, reports in reports(5_000)) {
        let first: Vec<_> = reports.into_iter().take(10).map(|(at, pod, text)| (at * spread / 5_000, pod, text)).collect();
        let mut world = Simulation::settled(10);
        world.run(&change(&first), 400.0);
        let bound = 3 + usize::try_from(spread.div_ceil(10_000)).unwrap();
        prop_assert!(world.writes.len() <= bound, "{:?}", world.writes);
        prop_assert!(world.is_right());
    }

    /// Whatever happens, the status ends right, and writes stay far between.
    #[test]
    fn whatever_happens_the_status_ends_right(events in prop::collection::vec((0..60_000u64, 0..14u8, 0..5usize), 0..60)) {
        let events: Vec<(f64, Event)> = events
            .into_iter()
            .map(|(at, what, pod)| {
                let event = match what {
                    0 | 1 => Event::Edit,
                    2..=5 => Event::Report(pod, String::new()),
                    6 => Event::Report(pod, "no answer".to_owned()),
                    7 => Event::Report(pod, "!wrong".to_owned()),
                    8 => Event::Silent(pod),
                    9 => Event::Serving(pod),
                    10 => Event::Label,
                    11 => Event::DelayWatch(700),
                    12 => Event::Race,
                    _ => Event::Gone(pod),
                };
                (at as f64 / 1_000.0, event)
            })
            .collect();
        let edits = events.iter().filter(|(_, event)| matches!(event, Event::Edit)).count();
        let mut world = Simulation::settled(5);
        world.run(&events, 400.0);
        prop_assert!(world.is_right(), "{:?}", world.writes);
        prop_assert!(world.writes.len() <= 3 * edits + 3 + 7 + 7, "{:?}", world.writes);
    }
}
