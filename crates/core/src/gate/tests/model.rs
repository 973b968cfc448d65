//! The same draws and the same answers give the same sends as the model the algorithm was found with.
//!
//! `model.json` was made by running that model (written in Python, on floating-point seconds) 208 times: three in eight
//! runs against a token bucket (0.1 to 100/s, burst 1 to 50, refusals free or charged, with or without `Retry-After`,
//! with idle hours or a client only just fast enough, with failures), the others against random answers of several
//! mixtures. A run lists the uniform draws it used, seven latencies in microseconds taken in turn, pauses (before that
//! call nobody waits for so many seconds after the send before), the answer to each call in the order of sending (`a`
//! admitted, `f` failed, `t` refused, `p` refused by an upstream that prolongs, a number: refused with that
//! `Retry-After`) and when each call was sent, in seconds rounded to a tenth of a millisecond. In none of them does a
//! refused straggler announce a time that outlasts the probe: there the model forgets the announced time, while the gate
//! keeps to it (property 1).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::driver::Draws;
use crate::gate::{Answer, Gate, Line, Next, Permit, Refusal};

/// Half of the last digit kept, and some nanoseconds of rounding.
const TOLERANCE: f64 = 0.000_051;

#[derive(Deserialize)]
struct Run {
    draws: Vec<f64>,
    latency_us: Vec<u64>,
    pauses: Vec<(usize, f64)>,
    answers: String,
    sends: Vec<f64>,
}

fn answer(word: &str) -> Answer {
    match word {
        "a" => Answer::Admitted,
        "f" => Answer::Failed,
        "t" => Answer::Throttled(Refusal::Plain),
        "p" => Answer::Throttled(Refusal::Prolonging),
        seconds => Answer::Throttled(Refusal::RetryAfter(Duration::from_secs_f64(seconds.parse().unwrap()))),
    }
}

/// Plays the script: one client that wants a call at all times but in its pauses.
fn play(run: &Run) -> Vec<f64> {
    let answers: Vec<_> = run.answers.split(' ').map(answer).collect();
    let pauses: BTreeMap<_, _> = run.pauses.iter().copied().collect();
    let mut rng = Draws::new(&run.draws);
    let mut gate = Gate::new();
    let ticket = gate.join(&(), Line::Urgent, Duration::ZERO);
    let mut in_flight: BTreeMap<(Duration, usize), Permit> = BTreeMap::new();
    let (mut now, mut wants_at, mut asked) = (Duration::ZERO, Duration::ZERO, false);
    let mut sends = Vec::new();
    while sends.len() < answers.len() || !in_flight.is_empty() {
        if !asked && sends.len() < answers.len() && wants_at <= now {
            asked = gate.ask(ticket);
        }
        let answered_at = in_flight.first_key_value().map(|(&(at, _), _)| at);
        if answered_at != Some(now) {
            let wakes_at = match gate.poll(now) {
                Next::Send { permit, .. } => {
                    let call = sends.len();
                    let latency = Duration::from_micros(run.latency_us[call % run.latency_us.len()]);
                    in_flight.insert((now + latency, call), permit);
                    sends.push(now.as_secs_f64());
                    asked = false;
                    wants_at = now + Duration::from_secs_f64(pauses.get(&(call + 1)).copied().unwrap_or(0.0));
                    continue;
                }
                Next::At(instant) => Some(instant),
                Next::AfterAnswer => None,
                Next::Idle => Some(wants_at).filter(|_| sends.len() < answers.len()),
            };
            now = answered_at.into_iter().chain(wakes_at).min().expect("something is still to come");
        }
        if answered_at == Some(now)
            && let Some(((_, call), permit)) = in_flight.pop_first()
        {
            gate.answered(permit, now, answers[call], &mut rng);
        }
    }
    assert!(rng.is_spent(), "each refusal takes one draw");
    assert!(gate.stats(now).in_flight == 0);
    sends
}

#[test]
fn sends_when_the_model_sends() {
    let runs: Vec<Run> = serde_json::from_str(include_str!("model.json")).unwrap();
    assert_eq!(runs.len(), 208);
    for (number, run) in runs.iter().enumerate() {
        let sends = play(run);
        assert_eq!(sends.len(), run.sends.len(), "run {number}");
        for (call, (ours, model)) in sends.iter().zip(&run.sends).enumerate() {
            assert!(
                (ours - model).abs() <= TOLERANCE,
                "run {number}, call {call}: sent at {ours} s, by the model at {model} s"
            );
        }
    }
}
