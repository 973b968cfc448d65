//! Scenarios by their variables, and the worst of many runs.

use std::time::Duration;

use muster_simulation::{Bucket, Call, Charge, Outcome, RetryAfter, Scenario, Upstream, run, run_observed};

/// Debt at which a limiter stops charging refusals.
pub(crate) const DEBT: Charge = Charge::Debt(60.0);

/// Refusals free or charged, announced or not.
pub(crate) const VARIANTS: [(Charge, RetryAfter); 4] = [
    (Charge::Free, RetryAfter::Absent),
    (Charge::Free, RetryAfter::Seconds),
    (DEBT, RetryAfter::Absent),
    (DEBT, RetryAfter::Seconds),
];

pub(crate) const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;

/// N resources of P processes at their gates.
pub(crate) fn gated(resources: usize, processes: usize, seed: u64) -> Scenario {
    Scenario { resources, processes, seed, ..Scenario::default() }
}

/// The slowest of the runs and the greatest share refused, over all variants of a 1/s bucket with burst 20.
pub(crate) fn worst(resources: usize, processes: usize, seeds: u64) -> (f64, f64) {
    let mut worst = (0.0_f64, 0.0_f64);
    for (charge, retry_after) in VARIANTS {
        let bucket = Bucket::new(1.0, 20, charge, retry_after);
        for seed in 1..=seeds {
            let outcome = run(&gated(resources, processes, seed), &mut bucket.clone());
            worst.0 = worst.0.max(seconds(&outcome) / bucket.ideal(2 * resources));
            worst.1 = worst.1.max(outcome.refused_share());
        }
    }
    worst
}

/// Seconds until all were synced; infinite if they never were.
pub(crate) fn seconds(outcome: &Outcome) -> f64 {
    outcome.all_synced.map_or(f64::INFINITY, |time| time.as_secs_f64())
}

/// A run with all its calls.
pub(crate) fn calls(scenario: &Scenario, upstream: &mut impl Upstream) -> (Outcome, Vec<Call>) {
    let mut calls = Vec::new();
    let outcome = run_observed(scenario, upstream, |call| calls.push(call));
    (outcome, calls)
}

/// When the answer to a call is in.
pub(crate) fn answered(call: &Call, scenario: &Scenario) -> Duration {
    call.sent + scenario.latency
}

pub(crate) fn refused(call: &Call) -> bool {
    call.reply.status != 200
}
