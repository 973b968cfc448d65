//! Prints how retry policies fare behind one rate-limited credential: requests and refusals first, then time.
//!
//! One token of 1/s with a burst of 20, two calls per resource, 50 ms of latency. Refusals are free or charged (down to
//! 60 tokens of debt), with or without `Retry-After` in whole seconds. Each row is the slowest of several seeded runs.
//! A run is given up once nothing was synced for two hours. The same over real HTTP, in real time, is an example of
//! `muster-executor`.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Parser;
use muster_simulation::report::{self, CALLS, Row};
use muster_simulation::{Bucket, Charge, Outcome, Policy, RetryAfter, Scenario, run};

/// Retry policies behind one rate-limited credential, in virtual time.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    /// Runs per row, of which the slowest is shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Without a gate a refused resource makes all its calls again, as operators do that keep nothing between two
    /// reconciles. By default it goes on with the call that was refused, so that the policies differ in nothing else.
    #[arg(long)]
    starts_over: bool,
}

/// The variables of a row.
#[derive(Debug, Clone, Copy)]
struct Case {
    policy: Policy,
    n: usize,
    processes: usize,
    charged: bool,
    retry_after: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let rows = measure(&cases(), &args);
    Ok(report::print(&mut io::stdout().lock(), &rows, args.json)?)
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for n in [29, 300, 1_000, 10_000] {
        for processes in [1, 3] {
            for charged in [false, true] {
                for retry_after in [false, true] {
                    for policy in [Policy::Fixed(Duration::from_secs(20)), Policy::Seed, Policy::Muster] {
                        cases.push(Case { policy, n, processes, charged, retry_after });
                    }
                }
            }
        }
    }
    cases
}

/// Measures all cases, on all processors, in their order.
fn measure(cases: &[Case], args: &Args) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::with_capacity(cases.len()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&case) = cases.get(index) else { return };
                    let row = slowest(case, args);
                    rows.lock().unwrap_or_else(PoisonError::into_inner).push((index, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.sort_by_key(|(index, _)| *index);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn slowest(case: Case, args: &Args) -> Row {
    let charge = if case.charged { Charge::Debt(60.0) } else { Charge::Free };
    let retry_after = if case.retry_after { RetryAfter::Seconds } else { RetryAfter::Absent };
    let bucket = Bucket::new(1.0, 20, charge, retry_after);
    let outcome = (1..=args.seeds)
        .map(|seed| {
            let scenario = Scenario {
                policy: case.policy,
                resources: case.n,
                calls: CALLS,
                processes: case.processes,
                starts_over: args.starts_over,
                patience: Duration::from_hours(2),
                seed,
                ..Scenario::default()
            };
            run(&scenario, &mut bucket.clone())
        })
        .max_by_key(|outcome| (outcome.all_synced.is_none(), outcome.all_synced))
        .unwrap_or(Outcome { synced: 0, all_synced: None, requests: 0, refused: 0 });
    let ideal = bucket.ideal(CALLS * case.n);
    let seconds = outcome.all_synced.map(|time| time.as_secs_f64());
    Row {
        bench: report::BENCH,
        real: false,
        policy: match case.policy {
            Policy::Fixed(_) => "fixed",
            Policy::Seed => "seed",
            Policy::Muster => "muster",
        },
        n: case.n,
        processes: case.processes,
        charged: case.charged,
        retry_after: case.retry_after,
        synced: outcome.synced,
        ratio: seconds.map(|seconds| seconds / ideal),
        requests: outcome.requests,
        refused: outcome.refused,
        seconds,
        ideal_seconds: ideal,
        starts_over: args.starts_over,
        seeds: args.seeds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(arguments: &[&str]) -> Args {
        Args::parse_from(["livelock"].iter().chain(arguments))
    }

    #[test]
    fn arguments_are_consistent() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn a_row_has_the_keys_that_are_promised() {
        let cases: Vec<_> = cases().into_iter().filter(|case| case.n == 300 && case.charged).collect();
        let rows = measure(&cases, &args(&["--json", "--seeds", "1"]));
        let row = |policy| rows.iter().find(|row| row.policy == policy).unwrap();
        let value = serde_json::to_value(row("muster")).unwrap();
        for key in
            ["bench", "policy", "n", "processes", "charged", "retry_after", "synced", "ratio", "requests", "refused"]
        {
            assert!(value.get(key).is_some_and(|value| !value.is_null()), "{key}: {value}");
        }
        assert!(serde_json::to_value(row("fixed")).unwrap()["ratio"].is_null(), "never is null");
    }

    #[test]
    fn rows_keep_the_order_of_the_cases() {
        let cases: Vec<_> = cases().into_iter().filter(|case| case.n == 29).collect();
        let rows = measure(&cases, &args(&["--seeds", "1"]));
        let order = |row: &Row| (row.processes, row.charged, row.retry_after);
        assert_eq!(rows.len(), 24);
        assert!(rows.is_sorted_by_key(order));
    }
}
