//! `bench failover`: how long nothing is written when the leading aggregator is killed, told to go, or frozen; and what
//! probes take to answer while a hundred executors change.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::probes;
use super::report::{self, Column};
use super::seen::{self, Seen};
use crate::installation::{AGGREGATOR, Installation, NAMESPACE, Settings};
use crate::kubelet::{PodView, Signal};

/// What is sent to the leader, in this order, and within how many seconds the next should write: the lease and 5 s, or
/// 2 s where the leader can give the Lease back.
const SIGNALS: [(&str, Signal, f64); 3] =
    [("SIGKILL", Signal::SIGKILL, 20.0), ("SIGTERM", Signal::SIGTERM, 2.0), ("SIGSTOP", Signal::SIGSTOP, 20.0)];

/// Arguments of `bench failover`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How often the leader gets each signal.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Executors that change while probes are asked.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    executors: u32,
    /// For how long probes are asked, in seconds.
    #[arg(long, default_value_t = 20)]
    load_seconds: u64,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Runs all rounds on an installation of its own.
pub(super) async fn run(args: Args) -> Result<()> {
    report::note("starting a control plane");
    let installation = Installation::start(Settings { reconcilers: 1, aggregators: 2, ..Settings::default() }).await?;
    installation.ready().await?;
    let mut seen = Seen::of(&installation).await?;
    let mut times: [Vec<f64>; 3] = Default::default();
    // Alternates, so that each edit is one.
    let mut concurrency = [20, 30].into_iter().cycle();
    for round in 1..=args.rounds {
        for ((name, signal, _), times) in SIGNALS.into_iter().zip(&mut times) {
            report::note(&format!("round {round} of {}: {name}", args.rounds));
            let concurrency = concurrency.next().unwrap_or_default();
            let took = play(&installation, &mut seen, signal, concurrency).await;
            times.push(took.with_context(|| format!("{name} in round {round}"))?.as_secs_f64());
        }
    }
    let rows: Vec<Value> =
        SIGNALS.into_iter().zip(&mut times).map(|((name, _, goal), times)| row(name, goal, times)).collect();
    let probed = probes::measure(&installation, args.executors, Duration::from_secs(args.load_seconds)).await?;
    if args.json {
        for row in rows.iter().chain(&probed) {
            report::print(&row.to_string());
        }
    } else {
        report::print(&format!("{}\n\n{}", text(&rows), probes::text(&probed)));
    }
    installation.stop().await;
    Ok(())
}

/// Sends the signal to the leader and a change to the API server; returns the time from the signal until the change is
/// in the status, which only another leader can write. Leaves both aggregators ready.
async fn play(installation: &Installation, seen: &mut Seen, signal: Signal, concurrency: u64) -> Result<Duration> {
    let client = installation.plane.client()?;
    let leader = leader(installation).await?;
    let begun = Instant::now();
    if signal == Signal::SIGKILL {
        // With its pod, as when a machine burns: a container restarted in place would go on where it was.
        installation.kubelet.crash(&leader).await?;
    } else {
        installation.kubelet.signal(&leader, signal)?;
    }
    let edited = seen::apply(&client, seen::NAME, concurrency).await?.metadata.generation;
    seen.until("the change to show", |status| status.observed_generation == edited).await?;
    let took = begun.elapsed();
    if signal == Signal::SIGSTOP {
        installation.kubelet.signal(&leader, Signal::SIGCONT)?;
    }
    installation.ready().await?;
    Ok(took)
}

/// The aggregator that the Lease names.
async fn leader(installation: &Installation) -> Result<PodView> {
    let leases: Api<Lease> = Api::namespaced(installation.plane.client()?, NAMESPACE);
    let holder = leases.get(AGGREGATOR).await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    let mut pods = installation.aggregators().into_iter();
    pods.find(|pod| holder == format!("{}_{}", pod.name, pod.uid)).with_context(|| format!("{holder:?} leads"))
}

fn row(signal: &str, goal: f64, times: &mut [f64]) -> Value {
    times.sort_by(f64::total_cmp);
    json!({
        "bench": "failover",
        "signal": signal,
        "rounds": times.len(),
        "median_seconds": report::median(times),
        "max_seconds": times.last(),
        "goal_seconds": goal,
        "build": report::BUILD,
    })
}

fn text(rows: &[Value]) -> String {
    const COLUMNS: [Column; 5] = [
        ("signal", "SIGNAL"),
        ("rounds", "ROUNDS"),
        ("median_seconds", "MEDIAN, s"),
        ("max_seconds", "MAX, s"),
        ("goal_seconds", "GOAL, s"),
    ];
    format!(
        "2 aggregators, {} build; from the signal to the leader until a change made after it is in the status\n\n{}",
        report::BUILD,
        report::table(&COLUMNS, rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_keys_that_are_promised() {
        let row = row("SIGKILL", 20.0, &mut [16.0, 14.0, 15.0]);
        assert_eq!((row["median_seconds"].as_f64(), row["max_seconds"].as_f64()), (Some(15.0), Some(16.0)));
        assert_eq!(
            (row["bench"].as_str(), row["signal"].as_str(), row["rounds"].as_u64()),
            (Some("failover"), Some("SIGKILL"), Some(3))
        );
    }
}
