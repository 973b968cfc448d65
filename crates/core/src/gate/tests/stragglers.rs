//! Calls that were sent before a refusal was known and are refused after it.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::gate::{Answer, Gate, Line, Next, Permit, Refusal};

const PLAIN: Answer = Answer::Throttled(Refusal::Plain);
const ANNOUNCED: Duration = Duration::from_secs(2_000);
const LONG: Answer = Answer::Throttled(Refusal::RetryAfter(ANNOUNCED));

/// One resource that always wants a call.
struct Storm {
    gate: Gate<()>,
    now: Duration,
    rng: Xoshiro256PlusPlus,
}

impl Storm {
    /// A gate of whose three calls in flight the last was refused and the first admitted; the second is the straggler.
    fn new() -> (Self, Permit) {
        let mut storm = Self { gate: Gate::new(), now: Duration::ZERO, rng: Xoshiro256PlusPlus::seed_from_u64(7) };
        let ticket = storm.gate.join(&(), Line::Urgent, storm.now);
        for _ in 0..1_000 {
            storm.gate.ask(ticket);
        }
        for _ in 0..8 {
            let permit = storm.send();
            storm.answer(permit, Answer::Admitted);
        }
        let (first, straggler, refused) = (storm.send(), storm.send(), storm.send());
        storm.answer(refused, PLAIN);
        storm.answer(first, Answer::Admitted);
        (storm, straggler)
    }

    /// Waits until a call may be sent.
    fn send(&mut self) -> Permit {
        loop {
            match self.gate.poll(self.now) {
                Next::Send { permit, .. } => return permit,
                Next::At(instant) => self.now = instant,
                other => panic!("{other:?} instead of a call"),
            }
        }
    }

    fn answer(&mut self, permit: Permit, answer: Answer) {
        self.gate.answered(permit, self.now, answer, &mut self.rng);
    }
}

#[test]
fn an_announced_time_moves_the_hold() {
    let (mut storm, straggler) = Storm::new();
    let announced = storm.now + ANNOUNCED;
    storm.answer(straggler, LONG);
    let _probe = storm.send();
    assert_eq!(storm.now, announced);
}

#[test]
fn an_announced_time_outlasts_an_admitted_probe() {
    let (mut storm, straggler) = Storm::new();
    let probe = storm.send();
    let announced = storm.now + ANNOUNCED;
    storm.answer(straggler, LONG);
    storm.answer(probe, Answer::Admitted);
    let _paced = storm.send();
    assert_eq!(storm.now, announced);
}

#[test]
fn an_announced_time_interrupts_the_pace() {
    let (mut storm, straggler) = Storm::new();
    for _ in 0..3 {
        let permit = storm.send();
        storm.answer(permit, Answer::Admitted);
    }
    let announced = storm.now + ANNOUNCED;
    storm.answer(straggler, LONG);
    let _paced = storm.send();
    assert_eq!(storm.now, announced);
}

#[test]
fn an_announced_time_outlasts_a_refused_probe() {
    let (mut storm, straggler) = Storm::new();
    let probe = storm.send();
    let announced = storm.now + ANNOUNCED;
    storm.answer(straggler, LONG);
    storm.answer(probe, PLAIN);
    let _probe = storm.send();
    assert_eq!(storm.now, announced);
}

#[test]
fn an_announced_time_is_not_forgotten_with_the_past() {
    let (mut storm, straggler) = Storm::new();
    let mut probe = storm.send();
    for _ in 0..12 {
        storm.answer(probe, PLAIN);
        probe = storm.send();
    }
    let announced = storm.now + ANNOUNCED;
    storm.answer(straggler, LONG);
    storm.answer(probe, Answer::Admitted);
    assert!(storm.gate.stats(storm.now).pace.is_none(), "waits of five minutes void what was learned");
    let _call = storm.send();
    assert_eq!(storm.now, announced);
}

#[test]
fn c19_each_call_refused_by_an_upstream_that_prolongs_adds_ten_seconds() {
    let (mut storm, straggler) = Storm::new();
    let hold = storm.gate.stats(storm.now).hold_until.unwrap();
    storm.answer(straggler, Answer::Throttled(Refusal::Prolonging));
    assert_eq!(storm.gate.stats(storm.now).hold_until, Some(hold + Duration::from_secs(10)));
}

#[test]
fn a_plain_refusal_of_a_straggler_changes_nothing() {
    let (mut storm, straggler) = Storm::new();
    let hold = storm.gate.stats(storm.now).hold_until;
    storm.answer(straggler, PLAIN);
    assert_eq!(storm.gate.stats(storm.now).hold_until, hold);
}
