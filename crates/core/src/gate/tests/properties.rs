//! What holds for any limiter and any interleaving.

use std::time::Duration;

use proptest::prelude::*;

use super::driver::{Driver, Event, Moment, Script, Step, scripts, unlimited};
use crate::gate::pace::{Leave, Phase, WIDEST_WINDOW};
use crate::gate::{Answer, Line, Refusal};
use crate::retry_after;

/// Rounding of instants to nanoseconds, twice.
const ROUNDING: Duration = Duration::from_nanos(2);

/// The time announced by an answer, within what is believed.
fn announced(answer: Answer) -> Duration {
    match answer {
        Answer::Throttled(Refusal::RetryAfter(wish)) => wish.min(retry_after::MAX),
        _ => Duration::ZERO,
    }
}

fn refused(answer: Answer) -> bool {
    matches!(answer, Answer::Throttled(_))
}

fn nothing_before_a_hold(trace: &[Moment]) {
    let mut announced_until = Duration::ZERO;
    for moment in trace {
        match moment.event {
            Event::Answered { answer, .. } => {
                announced_until = announced_until.max(moment.now + announced(answer));
            }
            Event::Sent { call, .. } => {
                assert!(moment.now >= moment.before.hold, "call {call} before the hold was over");
                assert!(moment.now + ROUNDING >= announced_until, "call {call} before the announced time was over");
            }
            Event::Other => {}
        }
    }
}

/// Calls sent from the last refusal on are told by their number: those before belong to the same event.
fn one_probe_at_a_time(trace: &[Moment]) {
    let (mut sent, mut boundary, mut holding) = (0, 0, false);
    let mut out = Vec::new();
    for moment in trace {
        match moment.event {
            Event::Sent { call, .. } => {
                sent = call + 1;
                out.push(call);
                let since = out.iter().filter(|call| **call >= boundary).count();
                assert!(!holding || since <= 1, "{since} calls in flight that were sent after a refusal");
            }
            Event::Answered { call, answer } => {
                out.retain(|other| *other != call);
                if call >= boundary && refused(answer) {
                    (boundary, holding) = (sent, true);
                } else if call >= boundary && answer == Answer::Admitted {
                    holding = false;
                }
            }
            Event::Other => {}
        }
    }
}

fn paced_sends_keep_their_gap(trace: &[Moment]) {
    // The send before (the probe, for the first paced one) and the gap after it.
    let mut previous: Option<(Duration, f64)> = None;
    let mut probe_sent = Duration::ZERO;
    for moment in trace {
        match moment.event {
            Event::Sent { call, .. } if moment.was_paced() => {
                let (at, gap) = previous.expect("a probe was admitted");
                assert!(moment.now + ROUNDING >= at + Duration::from_secs_f64(gap), "call {call} came too early");
                assert!(
                    moment.after.gap >= gap / 2.0 && moment.after.gap <= 60.0,
                    "gap {} after {gap}",
                    moment.after.gap
                );
                previous = Some((moment.now, moment.after.gap));
            }
            Event::Sent { .. } => probe_sent = moment.now,
            Event::Answered { .. } if moment.was_holding() && matches!(moment.after.phase, Phase::Paced(_)) => {
                previous = Some((probe_sent, moment.after.gap));
            }
            _ => {}
        }
    }
}

fn window_is_kept(trace: &[Moment]) {
    for moment in trace {
        assert!((1.0..=WIDEST_WINDOW).contains(&moment.after.window));
        if matches!(moment.event, Event::Sent { .. }) && !moment.was_holding() {
            assert!((moment.before.in_flight as f64) < moment.before.window.floor());
        }
    }
}

fn the_next_instant_is_near(trace: &[Moment]) {
    let mut longest = Duration::ZERO;
    let mut prolonged = Duration::ZERO;
    for moment in trace {
        match moment.event {
            Event::Answered { answer, .. } => {
                longest = longest.max(announced(answer));
                if answer == Answer::Throttled(Refusal::Prolonging) {
                    prolonged += Duration::from_secs(10);
                }
            }
            Event::Sent { .. } if moment.was_holding() => prolonged = Duration::ZERO,
            _ => {}
        }
        if moment.waiting && moment.after.in_flight == 0 {
            // 1.25 times the longest own wait; an upstream that prolongs adds its ten seconds for each straggler.
            let bound = Duration::from_secs(375).max(longest.max(prolonged) + Duration::from_mins(2));
            match moment.leave {
                Leave::Now => {}
                Leave::At(instant) => {
                    assert!(instant <= moment.now + bound + ROUNDING, "{instant:?} at {:?}", moment.now);
                }
                Leave::AfterAnswer => panic!("waits for an answer with nothing in flight"),
            }
        }
    }
}

fn failures_change_nothing_learned(trace: &[Moment]) {
    let mut failed = false;
    for Moment { now, event, before, after, .. } in trace {
        match event {
            Event::Answered { answer: Answer::Failed, .. } => {
                failed = true;
                assert_eq!((before.window, &before.wait), (after.window, &after.wait));
                assert_eq!((before.measure.rate(), before.gap), (after.measure.rate(), after.gap));
                if let (Phase::Paced(before), Phase::Paced(after)) = (&before.phase, &after.phase) {
                    assert!(after.pace(*now) >= before.pace(*now));
                }
                assert!(after.in_flight + 1 == before.in_flight);
            }
            // A measure with a failure in it can only raise the rate: calls that were admitted are certain.
            Event::Answered { answer: Answer::Throttled(_), .. }
                if after.hold > before.hold || after.next > before.next =>
            {
                if let (true, Some(was), Some(is)) = (failed, before.measure.rate(), after.measure.rate()) {
                    assert!(is >= was * (1.0 - 1e-9), "{was} became {is}");
                }
                failed = false;
            }
            _ => {}
        }
    }
}

fn numbers_stay_sane(trace: &[Moment]) {
    for Moment { after, .. } in trace {
        for number in [after.measure.calls, after.measure.time, after.gap, after.wait.own] {
            assert!(number.is_finite() && number >= 0.0, "{after:?}");
        }
        if let Phase::Paced(search) = &after.phase {
            assert!(search.rate.is_finite() && search.rate > 0.0, "{search:?}");
            assert!((2.0..=25.0).contains(&search.calls), "{search:?}");
            assert!(search.period > 0.0 && search.period <= 60.0, "{search:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn property_01_nothing_is_sent_before_a_hold_or_an_announced_time(script in scripts()) {
        nothing_before_a_hold(&Driver::play(&script).trace);
    }

    #[test]
    fn property_02_from_a_refusal_to_an_admitted_probe_one_call_is_in_flight(script in scripts()) {
        one_probe_at_a_time(&Driver::play(&script).trace);
    }

    #[test]
    fn property_03_paced_sends_keep_their_gap(script in scripts()) {
        paced_sends_keep_their_gap(&Driver::play(&script).trace);
    }

    #[test]
    fn property_04_the_window_is_kept_and_every_permit_gives_its_slot_back(script in scripts()) {
        let mut driver = Driver::play(&script);
        window_is_kept(&driver.trace);
        driver.end(|call| [Answer::Admitted, Answer::Failed, Answer::Throttled(Refusal::Plain)][call % 3]);
        prop_assert_eq!(driver.gate.stats(driver.now).in_flight, 0);
    }

    #[test]
    fn property_05_with_a_waiter_and_nothing_in_flight_the_next_instant_is_near(script in scripts()) {
        the_next_instant_is_near(&Driver::play(&script).trace);
    }

    #[test]
    fn property_06_never_refused_is_never_paced(script in unlimited()) {
        let trace = Driver::play(&script).trace;
        window_is_kept(&trace);
        for moment in trace {
            prop_assert_eq!(&moment.after.phase, &Phase::Open);
            prop_assert!(!matches!(moment.leave, Leave::At(_)));
        }
    }

    #[test]
    fn property_07_failures_neither_slow_nor_lengthen_nor_widen(script in scripts()) {
        failures_change_nothing_learned(&Driver::play(&script).trace);
    }

    #[test]
    fn property_08_a_ticket_is_overtaken_by_none_of_its_line(script in scripts()) {
        for moment in Driver::play(&script).trace {
            if let Event::Sent { ticket, first_in_line, .. } = moment.event {
                prop_assert_eq!(ticket, first_in_line);
            }
        }
    }

    #[test]
    fn property_09_two_gates_share_nothing(script in scripts(), other in scripts()) {
        let (mut one, mut two) = (Driver::new(&script), Driver::new(&other));
        let mut others = other.steps.iter().cycle();
        for step in &script.steps {
            one.step(step);
            others.next().into_iter().for_each(|step| two.step(step));
        }
        prop_assert_eq!(one.trace, Driver::play(&script).trace);
    }

    #[test]
    fn property_10_the_same_seed_and_script_give_the_same_sends(script in scripts()) {
        prop_assert_eq!(Driver::play(&script).sends(), Driver::play(&script).sends());
    }

    #[test]
    fn property_11_nobody_waiting_means_no_call_and_no_wake_up(script in scripts(), time in 0u64..100_000) {
        let mut driver = Driver::play(&script);
        for key in 0..6 {
            driver.step(&Step::Leave(key));
        }
        let calls = driver.sends().len();
        driver.step(&Step::Wait(Duration::from_secs(time)));
        // The driver asserts that the gate names neither a call nor an instant while nobody waits.
        prop_assert!(!driver.trace.last().unwrap().waiting);
        prop_assert_eq!(driver.sends().len(), calls);
    }

    #[test]
    fn property_12_no_number_goes_astray(script in scripts()) {
        numbers_stay_sane(&Driver::play(&script).trace);
    }
}

proptest! {
    // Ten thousand refusals each.
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn property_13_waits_grow_to_five_minutes_and_stay(seed: u64, learned in 0usize..60) {
        let mut driver = Driver::new(&Script { eager: true, seed, steps: Vec::new() });
        driver.step(&Step::Ask(0, Line::Urgent));
        let refuse = Step::Answer(0, Answer::Throttled(Refusal::Plain));
        for call in 0..learned {
            driver.step(&if call == learned / 2 { refuse.clone() } else { Step::Answer(0, Answer::Admitted) });
            driver.step(&Step::WakeUp);
        }
        let mut waits = Vec::with_capacity(10_000);
        while waits.len() < 10_000 {
            driver.trace.clear();
            driver.step(&refuse);
            waits.push(driver.gate.pace.hold.saturating_sub(driver.now).as_secs_f64());
            driver.step(&Step::WakeUp);
        }
        numbers_stay_sane(&driver.trace);
        let longest = waits.iter().copied().fold(0.0, f64::max);
        prop_assert!(longest <= 375.0, "{}", longest);
        // From 1 s it takes nine doublings; a learned gap starts no lower than twice its length.
        prop_assert!(waits[40..].iter().all(|wait| (225.0..=375.0).contains(wait)));
    }
}
