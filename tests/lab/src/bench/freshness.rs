//! `bench freshness`: how long `byPod` is wrong about a replica that freezes, comes back, or is deleted. Measured from the
//! outside, by a watch of the executor, since that is how anybody else would learn of it.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use muster_api::{ExecutorStatus, State};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::report::{self, Column};
use super::seen::Seen;
use crate::installation::{Installation, NAMESPACE, Settings};
use crate::kubelet::Signal;

/// Replicas. One of them is the victim of each round.
const REPLICAS: u16 = 3;
/// What happens to the victim, in this order, and how soon it should show, in seconds.
const EVENTS: [(&str, f64); 3] = [("stop", 12.0), ("cont", 2.0), ("delete", 2.0)];

/// Arguments of `bench freshness`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How often a replica is frozen, let go on and deleted.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Pause between two rounds, in seconds. A round takes the three writes that an executor may have at once, of which
    /// one comes back in 10 s.
    #[arg(long, default_value_t = 30)]
    pause: u64,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Runs all rounds on an installation of its own.
pub(super) async fn run(args: Args) -> Result<()> {
    report::note("starting a control plane");
    let installation = Installation::start(Settings { reconcilers: REPLICAS, ..Settings::default() }).await?;
    installation.ready().await?;
    let mut seen = Seen::of(&installation).await?;
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 1..=args.rounds {
        seen.until("every replica to be current", |status| {
            status.succeeded && status.replicas.as_ref().is_some_and(|counts| counts.current == u32::from(REPLICAS))
        })
        .await?;
        report::note(&format!("round {round} of {}", args.rounds));
        let measured = play(&installation, &mut seen).await.with_context(|| format!("in round {round}"))?;
        for (times, time) in times.iter_mut().zip(measured) {
            times.push(time.as_secs_f64());
        }
        if round < args.rounds {
            sleep(Duration::from_secs(args.pause)).await;
        }
    }
    let rows: Vec<Value> =
        EVENTS.into_iter().zip(&mut times).map(|((event, goal), times)| row(event, goal, times)).collect();
    if args.json {
        for row in &rows {
            report::print(&row.to_string());
        }
    } else {
        report::print(&text(&rows));
    }
    installation.stop().await;
    Ok(())
}

/// Freezes a replica, lets it go on, and deletes it; returns how long each took to show.
async fn play(installation: &Installation, seen: &mut Seen) -> Result<[Duration; 3]> {
    let victim = installation.reconcilers().into_iter().next().context("no replica")?;
    let state = |status: &ExecutorStatus| {
        status.by_pod.iter().find(|entry| entry.id == victim.name).map(|entry| entry.state.clone())
    };
    let begun = Instant::now();
    installation.kubelet.signal(&victim, Signal::SIGSTOP)?;
    seen.until("the frozen replica to be stale", |status| state(status) == Some(State::Stale)).await?;
    let stopped = begun.elapsed();

    let begun = Instant::now();
    installation.kubelet.signal(&victim, Signal::SIGCONT)?;
    seen.until("the replica to be current again", |status| state(status) == Some(State::Current)).await?;
    let continued = begun.elapsed();

    let pods: Api<Pod> = Api::namespaced(installation.plane.client()?, NAMESPACE);
    let begun = Instant::now();
    pods.delete(&victim.name, &DeleteParams::default()).await.context("cannot delete the replica")?;
    seen.until("the deleted replica to be gone", |status| state(status).is_none()).await?;
    Ok([stopped, continued, begun.elapsed()])
}

fn row(event: &str, goal: f64, times: &mut [f64]) -> Value {
    times.sort_by(f64::total_cmp);
    json!({
        "bench": "freshness",
        "event": event,
        "rounds": times.len(),
        "median_seconds": report::median(times),
        "max_seconds": times.last(),
        "goal_seconds": goal,
        "replicas": REPLICAS,
        "build": report::BUILD,
    })
}

fn text(rows: &[Value]) -> String {
    const COLUMNS: [Column; 5] = [
        ("event", "EVENT"),
        ("rounds", "ROUNDS"),
        ("median_seconds", "MEDIAN, s"),
        ("max_seconds", "MAX, s"),
        ("goal_seconds", "GOAL, s"),
    ];
    format!(
        "{REPLICAS} replicas, {} build; stop: SIGSTOP until Stale, cont: SIGCONT until Current, delete: pod deleted until \
         its entry is gone\n\n{}",
        report::BUILD,
        report::table(&COLUMNS, rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_keys_that_are_promised_and_the_middle_and_the_worst() {
        let row = row("stop", 12.0, &mut [9.5, 10.5, 8.0]);
        assert_eq!((row["median_seconds"].as_f64(), row["max_seconds"].as_f64()), (Some(9.5), Some(10.5)));
        assert_eq!(
            (row["bench"].as_str(), row["event"].as_str(), row["rounds"].as_u64()),
            (Some("freshness"), Some("stop"), Some(3))
        );
    }
}
