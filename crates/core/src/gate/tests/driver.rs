//! Plays a script of steps against a gate and keeps a trace that properties are read from.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{SeedableRng, TryRng};

use crate::gate::pace::{Leave, Pace, Phase};
use crate::gate::{Answer, Gate, Line, Next, Permit, Refusal, Ticket};

/// A source of randomness that returns the given uniform draws.
pub(super) struct Draws<'a> {
    left: std::slice::Iter<'a, f64>,
}

impl<'a> Draws<'a> {
    pub(super) fn new(draws: &'a [f64]) -> Self {
        Self { left: draws.iter() }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left.len() == 0
    }
}

impl TryRng for Draws<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|bits| (bits >> 32) as u32)
    }

    #[expect(clippy::cast_sign_loss, reason = "draws are in [0, 1)")]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let draw = self.left.next().expect("a draw for each refusal");
        // The inverse of how `rand` makes a f64 of 64 bits: the upper 53, as a fraction.
        Ok(((draw * 2f64.powi(53)) as u64) << 11)
    }

    fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
        unreachable!("the gate draws numbers")
    }
}

/// See [`Step::Answer`]. Answering the newest first leaves stragglers behind.
const NEWEST: usize = usize::MAX;

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Time passes.
    Wait(Duration),
    /// Time passes until the gate allows the next call, if it named an instant.
    WakeUp,
    Ask(u8, Line),
    Withdraw(u8),
    Leave(u8),
    /// One of the calls in flight is answered: the oldest for 0, the newest for [`NEWEST`].
    Answer(usize, Answer),
}

#[derive(Debug, Clone)]
pub(super) struct Script {
    /// Each call sent is followed by a wish for another, so that somebody waits at all times.
    pub(super) eager: bool,
    pub(super) seed: u64,
    pub(super) steps: Vec<Step>,
}

/// What happened at one moment, and the gate before and after.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moment {
    pub(super) now: Duration,
    pub(super) event: Event,
    pub(super) before: Pace,
    pub(super) after: Pace,
    /// Whether anybody still waits, and until when.
    pub(super) waiting: bool,
    pub(super) leave: Leave,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// The call of this number went out.
    Sent {
        call: usize,
        ticket: Ticket,
        first_in_line: Ticket,
    },
    Answered {
        call: usize,
        answer: Answer,
    },
    Other,
}

pub(super) struct Driver {
    pub(super) gate: Gate<u8>,
    pub(super) now: Duration,
    pub(super) trace: Vec<Moment>,
    in_flight: Vec<(usize, Permit)>,
    /// Calls each ticket waits for, and in which line: kept apart from the gate, to judge its order by.
    wanted: BTreeMap<Ticket, (Line, usize)>,
    calls: usize,
    eager: bool,
    rng: Xoshiro256PlusPlus,
}

impl Driver {
    pub(super) fn new(script: &Script) -> Self {
        Self {
            gate: Gate::new(),
            now: Duration::ZERO,
            trace: Vec::new(),
            in_flight: Vec::new(),
            wanted: BTreeMap::new(),
            calls: 0,
            eager: script.eager,
            rng: Xoshiro256PlusPlus::seed_from_u64(script.seed),
        }
    }

    pub(super) fn play(script: &Script) -> Self {
        let mut driver = Self::new(script);
        for step in &script.steps {
            driver.step(step);
        }
        driver
    }

    pub(super) fn step(&mut self, step: &Step) {
        let before = self.gate.pace.clone();
        let mut event = Event::Other;
        match *step {
            Step::Wait(time) => self.now += time,
            Step::WakeUp => {
                if let Leave::At(instant) = self.gate.pace.may_send(self.now) {
                    self.now = instant;
                }
            }
            Step::Ask(key, line) => {
                let ticket = self.gate.join(&key, line, self.now);
                assert!(self.gate.ask(ticket));
                let (in_line, wanted) = self.wanted.entry(ticket).or_insert((line, 0));
                *wanted += 1;
                if line == Line::Urgent {
                    *in_line = line;
                }
            }
            Step::Withdraw(key) => {
                let ticket = self.gate.join(&key, Line::Refresh, self.now);
                self.gate.withdraw(ticket);
                if let Some((_, wanted)) = self.wanted.get_mut(&ticket) {
                    *wanted = wanted.saturating_sub(1);
                }
            }
            Step::Leave(key) => {
                let ticket = self.gate.join(&key, Line::Refresh, self.now);
                self.gate.leave(ticket);
                assert!(!self.gate.ask(ticket), "a ticket lapses with its resource");
                self.wanted.remove(&ticket);
            }
            Step::Answer(index, answer) => {
                if !self.in_flight.is_empty() {
                    let count = self.in_flight.len();
                    let index = if index == NEWEST { count - 1 } else { index % count };
                    let (call, permit) = self.in_flight.remove(index);
                    self.gate.answered(permit, self.now, answer, &mut self.rng);
                    event = Event::Answered { call, answer };
                }
            }
        }
        self.record(before, event);
        self.send_all();
    }

    /// Every call still in flight is answered, nothing is sent any more.
    pub(super) fn end(&mut self, answer: impl Fn(usize) -> Answer) {
        for (call, permit) in std::mem::take(&mut self.in_flight) {
            self.gate.answered(permit, self.now, answer(call), &mut self.rng);
        }
    }

    pub(super) fn sends(&self) -> Vec<(Duration, Event)> {
        let sent = |moment: &&Moment| matches!(moment.event, Event::Sent { .. });
        self.trace.iter().filter(sent).map(|moment| (moment.now, moment.event.clone())).collect()
    }

    fn send_all(&mut self) {
        loop {
            let before = self.gate.pace.clone();
            match self.gate.poll(self.now) {
                Next::Send { ticket, permit } => {
                    let (line, _) = self.wanted[&ticket];
                    let waits = |&(_, &(other, wanted)): &(_, &(Line, usize))| other == line && wanted > 0;
                    let first_in_line = *self.wanted.iter().find(waits).expect("who sends has waited").0;
                    if self.eager {
                        self.gate.ask(ticket);
                    } else if let Some((_, wanted)) = self.wanted.get_mut(&ticket) {
                        *wanted -= 1;
                    }
                    self.in_flight.push((self.calls, permit));
                    assert!(self.in_flight.len() <= 33, "a full window and a probe");
                    self.record(before, Event::Sent { call: self.calls, ticket, first_in_line });
                    self.calls += 1;
                }
                Next::At(instant) => {
                    assert!(instant > self.now && !self.gate.lines.nobody_waits());
                    return;
                }
                Next::AfterAnswer => return assert!(!self.in_flight.is_empty() && !self.gate.lines.nobody_waits()),
                Next::Idle => return assert!(self.gate.lines.nobody_waits()),
            }
        }
    }

    fn record(&mut self, before: Pace, event: Event) {
        let after = self.gate.pace.clone();
        let (waiting, leave) = (!self.gate.lines.nobody_waits(), after.may_send(self.now));
        self.trace.push(Moment { now: self.now, event, before, after, waiting, leave });
    }
}

impl Moment {
    pub(super) fn was_paced(&self) -> bool {
        matches!(self.before.phase, Phase::Paced(_))
    }

    pub(super) fn was_holding(&self) -> bool {
        matches!(self.before.phase, Phase::Hold(_))
    }
}

/// Any script: any limiter (also one that answers at random), any interleaving.
pub(super) fn scripts() -> impl Strategy<Value = Script> {
    let refusals = prop_oneof![Just(2), Just(20), Just(150)];
    let failures = prop_oneof![Just(0), Just(5), Just(50)];
    (any::<bool>(), any::<u64>(), 0usize..40, refusals, failures).prop_flat_map(
        |(eager, seed, admitted, refusals, failures)| {
            proptest::collection::vec(step(refusals, failures), 1..150).prop_map(move |steps| Script {
                eager,
                seed,
                steps: opened(admitted, steps),
            })
        },
    )
}

/// Scripts of an upstream that never refuses, long enough for the window to open wholly.
pub(super) fn unlimited() -> impl Strategy<Value = Script> {
    (any::<bool>(), any::<u64>(), 0usize..160, proptest::collection::vec(step(0, 10), 1..50))
        .prop_map(|(eager, seed, admitted, steps)| Script { eager, seed, steps: opened(admitted, steps) })
}

/// Calls admitted first widen the window, so that a refusal has stragglers.
fn opened(admitted: usize, steps: Vec<Step>) -> Vec<Step> {
    let opening = [Step::Ask(0, Line::Urgent), Step::Answer(0, Answer::Admitted)];
    opening.into_iter().cycle().take(2 * admitted).chain(steps).collect()
}

/// Weights of refusals and failures against 100 for an admitted call.
fn step(refusals: u32, failures: u32) -> impl Strategy<Value = Step> {
    let line = prop_oneof![Just(Line::Urgent), Just(Line::Refresh)];
    // From a millisecond to two hours, every order of magnitude as often.
    let time = (-3.0..3.86).prop_map(|exponent: f64| Duration::from_secs_f64(10f64.powf(exponent)));
    let announced = prop_oneof![
        5 => (-2.0..3.0).prop_map(|exponent: f64| Duration::from_secs_f64(10f64.powf(exponent))),
        1 => Just(Duration::ZERO),
        1 => (3_000u64..20_000).prop_map(Duration::from_secs),
    ];
    let refusal = prop_oneof![
        3 => Just(Refusal::Plain),
        3 => announced.prop_map(Refusal::RetryAfter),
        1 => Just(Refusal::Prolonging),
    ];
    let answer = prop_oneof![
        100 => Just(Answer::Admitted),
        refusals => refusal.prop_map(Answer::Throttled),
        failures => Just(Answer::Failed),
    ];
    prop_oneof![
        2 => time.prop_map(Step::Wait),
        6 => Just(Step::WakeUp),
        6 => (0u8..6, line).prop_map(|(key, line)| Step::Ask(key, line)),
        1 => (0u8..6).prop_map(Step::Withdraw),
        1 => (0u8..6).prop_map(Step::Leave),
        14 => (prop_oneof![Just(0usize), Just(NEWEST), 0usize..32], answer).prop_map(|(index, answer)| Step::Answer(index, answer)),
    ]
}
