//! The situations that have killed healthy processes, and those that have spared dead ones.

#![expect(clippy::unchecked_time_subtraction, reason = "time that runs backwards is a failed test")]

use proptest::prelude::*;

use super::*;

const MINUTE: Duration = minutes(1);
const THRESHOLD: Duration = minutes(15);

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn replica() -> Ledger {
    Ledger::new(THRESHOLD, LoopId::RECONCILER)
}

fn aggregator() -> Ledger {
    Ledger::new(THRESHOLD, LoopId::AGGREGATOR)
}

/// The one stall, or none.
fn stall(ledger: &Ledger, now: Duration) -> Option<Stall> {
    match ledger.verdict(now) {
        Verdict::Healthy => None,
        Verdict::Stalled(mut stalls) => {
            assert_eq!(stalls.len(), 1, "{stalls:?}");
            stalls.pop()
        }
    }
}

fn facts(ledger: &Ledger, loop_id: LoopId, now: Duration) -> LoopSnapshot {
    ledger.snapshot(now).into_iter().find(|facts| facts.loop_id == loop_id).unwrap()
}

/// The work of a loop that is always busy: each run ends after `takes`, and the next is due at once.
fn live(ledger: &mut Ledger, loop_id: LoopId, from: Duration, until: Duration, takes: Duration) -> Ticket<Due> {
    let mut now = from;
    let mut due = ledger.due(loop_id, "watch", now);
    while now < until {
        let run = ledger.start(due, now);
        now += takes;
        due = ledger.complete_then_due(run, now, now);
    }
    due
}

#[test]
fn an_idle_process_is_healthy_for_ever() {
    for now in [Duration::ZERO, THRESHOLD, minutes(60 * 24 * 365), Duration::MAX] {
        assert_eq!(replica().verdict(now), Verdict::Healthy);
        assert_eq!(aggregator().verdict(now), Verdict::Healthy);
    }
}

#[test]
fn a_standby_is_healthy_while_only_its_lease_loop_works() {
    let mut ledger = aggregator();
    let _due = live(&mut ledger, LoopId::LEASE, Duration::ZERO, minutes(120), Duration::from_secs(15));
    assert_eq!(ledger.verdict(minutes(120)), Verdict::Healthy);
    assert_eq!(facts(&ledger, LoopId::FOLD, minutes(120)).stuck_for, Duration::ZERO);
}

#[test]
fn winning_an_election_after_two_hours_is_not_a_stall() {
    let mut ledger = aggregator();
    let won = minutes(120);
    let fold = ledger.due(LoopId::FOLD, "executor akv-prod", won);
    assert_eq!(ledger.verdict(won), Verdict::Healthy);
    assert_eq!(ledger.verdict(won + THRESHOLD), Verdict::Healthy);
    // It is one from here on: the clock started with the term.
    let stall = stall(&ledger, won + THRESHOLD + MINUTE).unwrap();
    assert_eq!((stall.loop_id, stall.owed, stall.since), (LoopId::FOLD, Owed::Start, won));
    let run = ledger.start(fold, won + THRESHOLD + MINUTE);
    ledger.complete(run, won + THRESHOLD + MINUTE);
    assert_eq!(ledger.verdict(won + THRESHOLD + MINUTE), Verdict::Healthy);
}

#[test]
fn losing_an_election_owes_nothing_and_winning_again_starts_anew() {
    let mut ledger = aggregator();
    let fold = ledger.due(LoopId::FOLD, "all", minutes(1));
    let write = ledger.due(LoopId::WRITE, "executor a", minutes(1));
    let write = ledger.start(write, minutes(2));
    ledger.withdraw(fold);
    ledger.withdraw(write);
    assert_eq!(ledger.verdict(minutes(600)), Verdict::Healthy);
    let _fold = ledger.due(LoopId::FOLD, "all", minutes(600));
    assert_eq!(ledger.verdict(minutes(615)), Verdict::Healthy);
    assert!(stall(&ledger, minutes(616)).is_some());
}

#[test]
fn the_first_object_after_a_quiet_night_is_not_a_stall() {
    let mut ledger = replica();
    let due = ledger.due(LoopId::BUILD, "executor old", minutes(1));
    let run = ledger.start(due, minutes(1));
    ledger.complete(run, minutes(1));
    let morning = minutes(600);
    let _due = ledger.due(LoopId::BUILD, "executor new", morning);
    assert_eq!(ledger.verdict(morning), Verdict::Healthy);
    assert_eq!(facts(&ledger, LoopId::BUILD, morning).stuck_for, Duration::ZERO);
    assert_eq!(stall(&ledger, morning + THRESHOLD + MINUTE).unwrap().since, morning);
}

#[test]
fn an_hourly_refresh_and_a_long_retry_after_are_due_later() {
    let mut ledger = replica();
    let due = ledger.due(LoopId::REFRESH, "executor a", minutes(60));
    assert_eq!(ledger.verdict(minutes(60)), Verdict::Healthy);
    // At the hour the upstream asks for another one: the due time moves.
    ledger.reschedule(&due, minutes(120));
    for minute in 60..=135 {
        assert_eq!(ledger.verdict(minutes(minute)), Verdict::Healthy, "minute {minute}");
    }
    assert_eq!(stall(&ledger, minutes(136)).unwrap().since, minutes(120));
    // And it can move to the front: a changed Secret.
    ledger.reschedule(&due, minutes(130));
    assert_eq!(ledger.verdict(minutes(136)), Verdict::Healthy);
    assert_eq!(facts(&ledger, LoopId::REFRESH, minutes(136)).due_since, Some(minutes(130)));
}

#[test]
fn a_wait_at_a_gate_is_neither_due_nor_started() {
    let mut ledger = replica();
    let due = ledger.due(LoopId::BUILD, "executor a", minutes(0));
    let run = ledger.start(due, minutes(0));
    let parked = ledger.park(run);
    assert_eq!(ledger.verdict(minutes(10_000)), Verdict::Healthy);
    assert_eq!(facts(&ledger, LoopId::BUILD, minutes(10_000)).parked, 1);
    // The gate lets it pass: its own clock starts.
    let run = ledger.resume(parked, minutes(10_000));
    assert_eq!(ledger.verdict(minutes(10_015)), Verdict::Healthy);
    let stall = stall(&ledger, minutes(10_016)).unwrap();
    assert_eq!((stall.owed, stall.since), (Owed::Completion, minutes(10_000)));
    ledger.complete(run, minutes(10_016));
    assert_eq!(ledger.verdict(minutes(10_016)), Verdict::Healthy);
}

#[test]
fn a_dead_loop_is_seen_behind_every_live_one() {
    for dead in LoopId::RECONCILER {
        let mut ledger = replica();
        for alive in LoopId::RECONCILER.into_iter().filter(|alive| *alive != dead) {
            let _ = live(&mut ledger, alive, Duration::ZERO, minutes(30), Duration::from_secs(50));
        }
        let due = ledger.due(dead, "its work", minutes(2));
        let _run = ledger.start(due, minutes(3));
        assert_eq!(ledger.verdict(minutes(18)), Verdict::Healthy);
        let stall = stall(&ledger, minutes(19)).unwrap();
        assert_eq!(
            stall,
            Stall {
                loop_id: dead,
                what: "its work".to_owned(),
                owed: Owed::Completion,
                since: minutes(3),
                last_completed: None,
                stuck_for: minutes(16),
            }
        );
    }
}

#[test]
fn one_stuck_run_is_no_stall_while_its_loop_completes_others() {
    let mut ledger = replica();
    let stuck = ledger.due(LoopId::BUILD, "executor stuck", minutes(0));
    let stuck = ledger.start(stuck, minutes(0));
    for minute in (5..=60).step_by(5) {
        let other = ledger.due(LoopId::BUILD, format!("executor {minute}"), minutes(minute));
        let other = ledger.start(other, minutes(minute));
        ledger.complete(other, minutes(minute));
        assert_eq!(ledger.verdict(minutes(minute)), Verdict::Healthy);
    }
    assert_eq!(ledger.verdict(minutes(75)), Verdict::Healthy);
    let stall = stall(&ledger, minutes(76)).unwrap();
    assert_eq!((stall.what.as_str(), stall.since), ("executor stuck", minutes(0)));
    assert_eq!((stall.last_completed, stall.stuck_for), (Some(minutes(60)), minutes(16)));
    ledger.complete(stuck, minutes(76));
}

#[test]
fn failure_completes_too_so_an_outage_of_an_hour_is_healthy() {
    // A run does not tell the ledger how it went; there is nothing to tell it.
    let mut ledger = replica();
    let mut due = ledger.due(LoopId::BUILD, "executor a", Duration::ZERO);
    let mut now = Duration::ZERO;
    while now < minutes(60) {
        let run = ledger.start(due, now);
        now += MINUTE;
        due = ledger.complete_then_due(run, now, now + minutes(5));
        now += minutes(5);
        assert_eq!(ledger.verdict(now), Verdict::Healthy);
    }
    assert_eq!(facts(&ledger, LoopId::BUILD, now).completed, 10);
}

#[test]
fn work_that_is_due_and_never_started_is_a_stall() {
    let mut ledger = replica();
    let _first = ledger.due(LoopId::REPORT, "executor a", minutes(10));
    let _second = ledger.due(LoopId::REPORT, "executor b", minutes(20));
    assert_eq!(ledger.verdict(minutes(25)), Verdict::Healthy);
    let stall = stall(&ledger, minutes(26)).unwrap();
    assert_eq!((stall.what.as_str(), stall.owed, stall.since), ("executor a", Owed::Start, minutes(10)));
}

#[test]
fn the_threshold_itself_is_still_healthy() {
    let mut ledger = replica();
    let _due = ledger.due(LoopId::REPORT, "executor a", Duration::ZERO);
    assert!(ledger.verdict(THRESHOLD).is_healthy());
    assert!(!ledger.verdict(THRESHOLD + Duration::from_nanos(1)).is_healthy());
}

#[test]
fn a_threshold_of_zero_disables_the_verdict_and_keeps_the_facts() {
    let mut ledger = Ledger::new(Duration::ZERO, LoopId::RECONCILER);
    let _due = ledger.due(LoopId::REPORT, "executor a", Duration::ZERO);
    assert_eq!(ledger.verdict(minutes(10_000)), Verdict::Healthy);
    assert_eq!(facts(&ledger, LoopId::REPORT, minutes(10_000)).stuck_for, minutes(10_000));
}

#[test]
fn the_sentence_names_loop_work_and_times() {
    let mut ledger = replica();
    assert_eq!(ledger.verdict(minutes(20)).to_string(), "every loop makes progress");
    let due = ledger.due(LoopId::BUILD, "executor a", Duration::ZERO);
    let _run = ledger.start(due, MINUTE);
    let _due = ledger.due(LoopId::REPORT, "executor b", minutes(2));
    assert_eq!(
        ledger.verdict(minutes(20)).to_string(),
        "loop build has stalled: executor a is running since 60s after start and was not completed, nothing moved for \
         1140s; loop report has stalled: executor b is due since 120s after start and was not started, nothing moved \
         for 1080s"
    );
}

#[test]
fn the_snapshot_counts_each_state() {
    let mut ledger = replica();
    let start = |ledger: &mut Ledger, minute| {
        let due = ledger.due(LoopId::BUILD, "executor", minutes(minute));
        ledger.start(due, minutes(minute))
    };
    let done = start(&mut ledger, 1);
    ledger.complete(done, minutes(2));
    let _running = (start(&mut ledger, 3), start(&mut ledger, 4));
    let parked = start(&mut ledger, 5);
    let _parked = ledger.park(parked);
    let _due = (ledger.due(LoopId::BUILD, "a", minutes(6)), ledger.due(LoopId::BUILD, "b", minutes(7)));
    let _later = (ledger.due(LoopId::BUILD, "c", minutes(30)), ledger.due(LoopId::BUILD, "d", minutes(40)));
    assert_eq!(
        facts(&ledger, LoopId::BUILD, minutes(10)),
        LoopSnapshot {
            loop_id: LoopId::BUILD,
            overdue: 2,
            scheduled: 2,
            running: 2,
            parked: 1,
            due_since: Some(minutes(6)),
            next_due: Some(minutes(30)),
            running_since: Some(minutes(3)),
            last_completed: Some(minutes(2)),
            completed: 1,
            stuck_for: minutes(7),
        }
    );
    assert_eq!(ledger.snapshot(minutes(10)).len(), LoopId::RECONCILER.len());
}

#[test]
fn loop_names_are_distinct_and_found() {
    for loops in [LoopId::RECONCILER.as_slice(), LoopId::AGGREGATOR.as_slice()] {
        for id in loops {
            assert_eq!(LoopId::find(id.as_str(), loops), Some(*id));
            assert_eq!(loops.iter().filter(|other| *other == id).count(), 1);
        }
    }
    assert_eq!(LoopId::find("fold", &LoopId::RECONCILER), None);
}

#[test]
fn a_threshold_under_twice_the_longest_deadline_is_refused() {
    let deadlines = [("--api-timeout", Duration::from_secs(10)), ("--watch-timeout", Duration::from_secs(55))];
    assert_eq!(validate_threshold(Duration::from_secs(110), deadlines), Ok(()));
    assert_eq!(validate_threshold(THRESHOLD, deadlines), Ok(()));
    assert_eq!(validate_threshold(Duration::ZERO, deadlines), Ok(()));
    assert_eq!(validate_threshold(MINUTE, []), Ok(()));
    assert_eq!(
        validate_threshold(Duration::from_millis(109_999), deadlines).unwrap_err().to_string(),
        "a stall threshold of 1m49.999s is below twice the longest deadline (--watch-timeout: 55s); \
         use at least 1m50s, or 0 to disable the check"
    );
    assert!(validate_threshold(MINUTE, [("endless", Duration::MAX)]).is_err());
}

/// One step of a random history of one loop.
#[derive(Debug, Clone)]
enum Step {
    Due { after: u64 },
    Start { which: usize },
    Complete { which: usize },
    Withdraw { which: usize },
    Wait { minutes: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u64..60).prop_map(|after| Step::Due { after }),
        (0_usize..8).prop_map(|which| Step::Start { which }),
        (0_usize..8).prop_map(|which| Step::Complete { which }),
        (0_usize..8).prop_map(|which| Step::Withdraw { which }),
        (0_u64..20).prop_map(|minutes| Step::Wait { minutes }),
    ]
}

proptest! {
    /// The verdict against the definition, evaluated naively over the whole history.
    #[test]
    fn the_verdict_is_the_definition(steps in prop::collection::vec(step(), 0..60)) {
        let mut ledger = replica();
        let mut now = Duration::ZERO;
        let (mut due, mut running) = (Vec::new(), Vec::new());
        let mut completions = Vec::new();
        for step in steps {
            match step {
                Step::Due { after } => {
                    let at = now + minutes(after);
                    due.push((ledger.due(LoopId::BUILD, "x", at), at));
                }
                Step::Start { which } if which < due.len() => {
                    let (ticket, _) = due.swap_remove(which);
                    running.push((ledger.start(ticket, now), now));
                }
                Step::Complete { which } if which < running.len() => {
                    let (ticket, _) = running.swap_remove(which);
                    ledger.complete(ticket, now);
                    completions.push(now);
                }
                Step::Withdraw { which } if which < due.len() => ledger.withdraw(due.swap_remove(which).0),
                Step::Wait { minutes: wait } => now += minutes(wait),
                _ => {}
            }
            let owed = due.iter().map(|(_, at)| *at).filter(|at| *at <= now);
            let stalled = owed.chain(running.iter().map(|(_, since)| *since)).any(|since| {
                now - since > THRESHOLD && !completions.iter().any(|at| *at >= since && now - *at <= THRESHOLD)
            });
            prop_assert_eq!(!ledger.verdict(now).is_healthy(), stalled);
        }
    }
}
