//! Whose turn it is.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::gate::{Answer, Gate, Line, Next, Permit, Refusal, Ticket};

const START: Duration = Duration::ZERO;

/// A gate whose calls are answered one by one, as tests of order need it.
struct Counter {
    gate: Gate<&'static str>,
    now: Duration,
    rng: Xoshiro256PlusPlus,
}

impl Counter {
    fn new() -> Self {
        Self { gate: Gate::new(), now: START, rng: Xoshiro256PlusPlus::seed_from_u64(7) }
    }

    fn ask(&mut self, key: &'static str, line: Line) -> Ticket {
        let ticket = self.gate.join(&key, line, self.now);
        assert!(self.gate.ask(ticket));
        ticket
    }

    /// Waits for the next call and returns whose it is.
    fn next(&mut self) -> Option<(Ticket, Permit)> {
        loop {
            match self.gate.poll(self.now) {
                Next::Send { ticket, permit } => return Some((ticket, permit)),
                Next::At(instant) => self.now = instant,
                Next::AfterAnswer => panic!("every call is answered before the next"),
                Next::Idle => return None,
            }
        }
    }

    fn serve(&mut self, answer: Answer) -> Option<Ticket> {
        let (ticket, permit) = self.next()?;
        self.gate.answered(permit, self.now, answer, &mut self.rng);
        Some(ticket)
    }
}

#[test]
fn a_refused_resource_is_first_again() {
    let mut counter = Counter::new();
    let first = counter.ask("first", Line::Urgent);
    let second = counter.ask("second", Line::Urgent);
    assert_eq!(counter.serve(Answer::Throttled(Refusal::Plain)), Some(first));
    counter.ask("first", Line::Urgent);
    assert_eq!(counter.serve(Answer::Admitted), Some(first));
    // Its second call, asked for only now, still comes before the younger ticket.
    counter.ask("first", Line::Urgent);
    assert_eq!(counter.serve(Answer::Admitted), Some(first));
    assert_eq!(counter.serve(Answer::Admitted), Some(second));
    assert_eq!(counter.serve(Answer::Admitted), None);
}

#[test]
fn every_eighth_call_is_a_refresh() {
    let mut counter = Counter::new();
    let refresh = counter.ask("refresh", Line::Refresh);
    let edit = counter.gate.join(&"edit", Line::Urgent, START);
    for _ in 0..40 {
        counter.gate.ask(edit);
        counter.gate.ask(refresh);
    }
    let turns: Vec<_> = (0..40).map(|_| counter.serve(Answer::Admitted).unwrap()).collect();
    for (call, ticket) in turns.iter().enumerate() {
        assert_eq!(*ticket, if call % 8 == 7 { refresh } else { edit }, "call {call}");
    }
}

#[test]
fn refreshes_have_all_calls_while_nothing_is_urgent() {
    let mut counter = Counter::new();
    let refreshes = ["a", "b", "c"].map(|key| counter.ask(key, Line::Refresh));
    assert_eq!(refreshes.map(|_| counter.serve(Answer::Admitted).unwrap()), refreshes);
}

#[test]
fn an_edit_among_many_refreshes_waits_for_at_most_one_of_them() {
    let mut counter = Counter::new();
    let refreshes = ["a", "b", "c", "d"].map(|key| counter.ask(key, Line::Refresh));
    assert_eq!(counter.serve(Answer::Admitted), Some(refreshes[0]));
    let edit = counter.ask("edit", Line::Urgent);
    assert_eq!(counter.serve(Answer::Admitted), Some(edit));
}

#[test]
fn a_changed_spec_takes_its_ticket_along_to_the_urgent_line() {
    let mut counter = Counter::new();
    let older = counter.ask("older edit", Line::Urgent);
    let (_, permit) = counter.next().unwrap();
    counter.ask("older edit", Line::Urgent);
    let refresh = counter.ask("refresh", Line::Refresh);
    let changed = counter.ask("changed", Line::Refresh);
    let younger = counter.ask("younger edit", Line::Urgent);
    assert_eq!(counter.gate.join(&"changed", Line::Urgent, START), changed);
    // A routine refresh of it later takes nothing back.
    assert_eq!(counter.gate.join(&"changed", Line::Refresh, START), changed);
    counter.gate.answered(permit, START, Answer::Admitted, &mut counter.rng);
    let turns: Vec<_> = (0..4).map(|_| counter.serve(Answer::Admitted).unwrap()).collect();
    assert_eq!(turns, [older, changed, younger, refresh]);
}

#[test]
fn a_ticket_lapses_when_its_resource_leaves() {
    let mut counter = Counter::new();
    let gone = counter.ask("gone", Line::Urgent);
    let stays = counter.ask("stays", Line::Urgent);
    counter.gate.leave(gone);
    assert!(!counter.gate.ask(gone));
    assert_eq!(counter.serve(Answer::Admitted), Some(stays));
    let back = counter.ask("gone", Line::Urgent);
    assert!(back > stays, "a resource that comes back draws a new ticket");
}

#[test]
fn a_dropped_task_keeps_the_place_of_its_resource() {
    let mut counter = Counter::new();
    let edited = counter.ask("edited", Line::Urgent);
    let other = counter.ask("other", Line::Urgent);
    counter.gate.withdraw(edited);
    counter.gate.withdraw(edited);
    assert_eq!(counter.gate.stats(START).waiting_urgent, 1);
    assert_eq!(counter.ask("edited", Line::Urgent), edited);
    assert_eq!(counter.serve(Answer::Admitted), Some(edited));
    assert_eq!(counter.serve(Answer::Admitted), Some(other));
}

#[test]
fn a_gate_is_unused_once_nobody_holds_a_ticket_and_nothing_is_in_flight() {
    let mut counter = Counter::new();
    assert!(counter.gate.is_unused());
    let only = counter.ask("only", Line::Refresh);
    let (_, permit) = counter.next().unwrap();
    counter.gate.leave(only);
    assert!(!counter.gate.is_unused());
    counter.gate.answered(permit, START, Answer::Failed, &mut counter.rng);
    assert!(counter.gate.is_unused());
}

#[test]
fn the_snapshot_tells_who_waits_and_why() {
    let mut counter = Counter::new();
    counter.ask("a", Line::Urgent);
    counter.now = Duration::from_secs(5);
    counter.ask("b", Line::Refresh);
    counter.ask("c", Line::Refresh);
    let stats = counter.gate.stats(counter.now);
    assert_eq!((stats.waiting_urgent, stats.waiting_refresh), (1, 2));
    assert_eq!(stats.oldest_wait, Some(Duration::from_secs(5)));
    assert_eq!((stats.pace, stats.refused, stats.hold_until, stats.probing), (None, 0, None, false));

    let announced = Duration::from_secs(30);
    counter.serve(Answer::Throttled(Refusal::RetryAfter(announced)));
    let stats = counter.gate.stats(counter.now);
    assert_eq!((stats.waiting_urgent, stats.oldest_wait, stats.refused), (0, Some(Duration::ZERO), 1));
    assert!(stats.probing && stats.hold_until >= Some(counter.now + announced));

    counter.serve(Answer::Admitted);
    let stats = counter.gate.stats(counter.now);
    assert!(!stats.probing && stats.hold_until.is_none() && stats.pace.is_some());
}
