//! What probes take to answer while many executors change, and how soon a replica with many executors is ready.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::report::{self, Column};
use super::seen::apply;
use crate::installation::{Installation, RECONCILER};
use crate::wait;

/// Port of the shipped Deployments.
const HEALTH: u16 = 8086;
/// Those who change executors, and those who ask each process.
const EDITORS: u32 = 8;
const ASKERS: usize = 4;
/// Between two looks at a replica that is starting.
const LOOK: Duration = Duration::from_millis(10);
/// As the shipped probes.
const PATIENCE: Duration = Duration::from_secs(2);

/// Both figures, each a row.
pub(super) async fn measure(installation: &Installation, executors: u32, load: Duration) -> Result<[Value; 2]> {
    report::note(&format!("{executors} executors"));
    let client = installation.plane.client()?;
    for number in 0..executors {
        apply(&client, &name(number), 1).await?;
    }
    let start = start(installation).await?;
    report::note("probes under load");
    let ends = Instant::now() + load;
    let edits = (0..EDITORS).map(|editor| {
        let client = client.clone();
        async move {
            let mut edits = 0_u64;
            for number in (editor..executors).step_by(usize::try_from(EDITORS)?).cycle() {
                if Instant::now() >= ends {
                    break;
                }
                edits += 1;
                apply(&client, &name(number), 1 + edits % 60).await?;
            }
            anyhow::Ok(edits)
        }
    });
    let pods = installation.reconcilers().into_iter().chain(installation.aggregators());
    let asked = pods.flat_map(|pod| (0..ASKERS).map(move |_| ask_until(pod.ip, ends)));
    let (edits, answers) = tokio::join!(try_join_all(edits), join_all(asked));
    let edits: u64 = edits?.into_iter().sum();
    let failed: usize = answers.iter().map(|(_, failed)| failed).sum();
    let mut times: Vec<f64> = answers.into_iter().flat_map(|(times, _)| times).map(|time| time.as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    let probes = json!({
        "bench": "probes",
        "executors": executors,
        "edits": edits,
        "answers": times.len(),
        "failed": failed,
        "median_seconds": report::median(&times),
        "p99_seconds": report::p99(&times),
        "max_seconds": times.last(),
        "build": report::BUILD,
    });
    let start = json!({
        "bench": "start", "executors": executors, "ready_seconds": start.as_secs_f64(), "build": report::BUILD,
    });
    Ok([start, probes])
}

fn name(number: u32) -> String {
    format!("e{number}")
}

/// From the start of the only replica's process until it is ready, with all executors there.
async fn start(installation: &Installation) -> Result<Duration> {
    installation.scale(RECONCILER, 0).await?;
    wait::until("the replica to be gone", || async {
        let left = installation.reconcilers().len();
        ensure!(left == 0, "{left} left");
        Ok(())
    })
    .await?;
    installation.scale(RECONCILER, 1).await?;
    let limit = Instant::now() + wait::patience();
    let mut begun = None;
    loop {
        ensure!(Instant::now() < limit, "the replica is not ready");
        let pod = installation.reconcilers().into_iter().find(|pod| pod.pid.is_some());
        if let Some(pod) = pod {
            let begun = *begun.get_or_insert_with(Instant::now);
            if ask(pod.ip, "readiness").await.unwrap_or_default() {
                return Ok(begun.elapsed());
            }
        }
        sleep(LOOK).await;
    }
}

/// Asks both services in turn; the time of each answer, and how many were none.
async fn ask_until(ip: Ipv4Addr, ends: Instant) -> (Vec<Duration>, usize) {
    let (mut times, mut failed) = (Vec::new(), 0);
    for service in ["liveness", "readiness"].into_iter().cycle() {
        let begun = Instant::now();
        if begun >= ends {
            break;
        }
        match ask(ip, service).await {
            Ok(true) => times.push(begun.elapsed()),
            Ok(false) | Err(_) => failed += 1,
        }
    }
    (times, failed)
}

/// Whether a service is SERVING, asked over a connection of its own as the kubelet does.
async fn ask(ip: Ipv4Addr, service: &str) -> Result<bool> {
    let asked = async {
        let channel = Endpoint::from_shared(format!("http://{ip}:{HEALTH}"))?.connect().await?;
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = HealthClient::new(channel).check(request).await?.into_inner();
        anyhow::Ok(answer.status() == ServingStatus::Serving)
    };
    timeout(PATIENCE, asked).await.context("no answer")?
}

pub(super) fn text([start, probes]: &[Value; 2]) -> String {
    const PROBES: [Column; 6] = [
        ("edits", "EDITS"),
        ("answers", "ANSWERS"),
        ("failed", "NOT SERVING"),
        ("median_seconds", "MEDIAN, s"),
        ("p99_seconds", "P99, s"),
        ("max_seconds", "MAX, s"),
    ];
    const START: [Column; 2] = [("executors", "EXECUTORS"), ("ready_seconds", "READY AFTER, s")];
    format!(
        "a replica, from its process's start until readiness is SERVING\n\n{}\n\nprobes of all processes, each over a \
         connection of its own, while specs change\n\n{}",
        report::table(&START, std::slice::from_ref(start)),
        report::table(&PROBES, std::slice::from_ref(probes))
    )
}
