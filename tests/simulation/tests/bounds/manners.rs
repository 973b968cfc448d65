//! What an upstream asked for is kept to.

use std::time::Duration;

use muster_simulation::{Bucket, Charge, Prolonged, Prolonging, Quota, RetryAfter};

use crate::support::{SEEDS, answered, calls, gated, refused, seconds};

/// What a refused call of the C19 kind costs.
const WINDOW: Duration = Duration::from_secs(10);

#[test]
fn c19_a_window_that_each_call_prolongs_is_left_alone() {
    // What is in flight at the first refusal is about a quarter of the burst: the window in flight grew by that much.
    for (burst, most_in_window) in [(10, 3), (20, 5)] {
        for kind in [Prolonged::ByTenSeconds, Prolonged::ToTenSecondsFromNow] {
            for retry_after in [RetryAfter::Absent, RetryAfter::Seconds] {
                for seed in SEEDS {
                    let bucket = Bucket::new(1.0, burst, Charge::Free, RetryAfter::Absent);
                    leaves_alone(bucket, kind, retry_after, seed, most_in_window);
                }
            }
        }
    }
}

fn leaves_alone(bucket: Bucket, kind: Prolonged, retry_after: RetryAfter, seed: u64, most_in_window: usize) {
    let case = format!("burst {}, {kind:?}, {retry_after:?}, seed {seed}", bucket.burst);
    let ideal = bucket.ideal(100);
    let scenario = gated(50, 1, seed);
    let (outcome, calls) = calls(&scenario, &mut Prolonging::new(bucket, kind, retry_after));
    let time = seconds(&outcome);
    assert!(time <= 2.5 * ideal, "{case}: {time} s, ideal {ideal} s");
    let (mut until, mut known, mut in_window) = (Duration::ZERO, Duration::ZERO, 0);
    for call in calls.iter().filter(|call| refused(call)) {
        if call.arrived >= until {
            (until, known, in_window) = (call.arrived + WINDOW, answered(call, &scenario), 0);
            continue;
        }
        until = match kind {
            Prolonged::ByTenSeconds => until + WINDOW,
            Prolonged::ToTenSecondsFromNow => call.arrived + WINDOW,
        };
        in_window += 1;
        assert!(call.sent <= known, "{case}: sent at {:?}, although refused at {known:?}", call.sent);
        assert!(in_window <= most_in_window, "{case}: {in_window} calls in one window");
    }
}

#[test]
fn an_hours_retry_after_is_waited_for_and_ended_by_one_probe() {
    for retry_after in [RetryAfter::Exact, RetryAfter::Seconds] {
        for seed in SEEDS {
            let scenario = gated(600, 1, seed);
            let (outcome, calls) = calls(&scenario, &mut Quota::per_hour(1_000, retry_after));
            assert_eq!(outcome.synced, 600);
            let first = calls.iter().position(refused).expect("the quota is used up");
            let known = answered(&calls[first], &scenario);
            let over = known + calls[first].reply.retry_after.expect("the end of the hour is announced");
            let after: Vec<_> = calls.iter().filter(|call| call.sent > known).collect();
            let probe = after.first().expect("work is left");
            assert!(probe.sent >= over, "seed {seed}: a call at {:?}, before {over:?}", probe.sent);
            assert!(probe.sent <= over + Duration::from_mins(2), "seed {seed}: idle until {:?}", probe.sent);
            assert_eq!(probe.in_flight, 1);
            assert!(after[1].sent >= answered(probe, &scenario), "seed {seed}: the probe was not alone");
        }
    }
}
