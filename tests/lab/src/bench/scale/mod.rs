//! `bench scale`: what an aggregator costs, and how long `byPod` takes, with very many replicas. The pods are real and the
//! processes in them are not: kwok plays the node, and one program reports and answers for all of them, so that what is
//! measured is the API server and the aggregator, which is the shipped one.

mod cast;
mod load;
mod meter;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use muster_api::Executor;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::report::{self, Column};
use crate::audit::Request;
use crate::installation::{AGGREGATOR, Installation, NAMESPACE, Settings, rolled_out};
use crate::wait;
use cast::Cast;
use meter::{Meter, Usage};

/// No status write for so long: the last change has been dealt with. Progress of a rollout is written every 10 s.
const QUIET: Duration = Duration::from_secs(11);
/// How long a change may take to converge before the bench gives up.
const PATIENCE: Duration = Duration::from_hours(1);
/// How often an executor is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Arguments of `bench scale`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many replicas there are, one cluster for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 2_000], value_parser = clap::value_parser!(u16).range(1..=10_000))]
    replicas: Vec<u16>,
    /// How many executors each of them builds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    executors: u16,
    /// Which changes are made, in this order. The first is always made, since without it there are no reports.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Phase::One, Phase::All])]
    changes: Vec<Phase>,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Which change is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Phase {
    /// Every replica reports on every executor for the first time.
    First,
    /// The spec of one executor is edited.
    One,
    /// The specs of all are.
    All,
}

/// Measures one size after the other.
pub(super) async fn run(args: Args) -> Result<()> {
    let mut rows = Vec::new();
    for replicas in &args.replicas {
        let bench = Bench::start(*replicas, args.executors).await?;
        let changes = args.changes.iter().copied().filter(|phase| *phase != Phase::First);
        for phase in [Phase::First].into_iter().chain(changes) {
            report::note(&format!("{replicas} replicas: {}", phase.as_str()));
            let row = bench.measure(phase).await.with_context(|| format!("{replicas} replicas, {}", phase.as_str()))?;
            if args.json {
                report::print(&row.to_string());
            }
            rows.push(row);
        }
        bench.stop().await;
    }
    if args.json {
        for row in growth(&rows) {
            report::print(&row.to_string());
        }
    } else {
        report::print(&text(&rows));
    }
    Ok(())
}

impl Phase {
    const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::One => "one",
            Self::All => "all",
        }
    }
}

/// One cluster with its pretended replicas.
struct Bench {
    installation: Installation,
    client: Client,
    cast: Cast,
    executors: u16,
    /// How the aggregator, the pretended replicas, and one watch as each replica holds it, reach the API server.
    aggregator: Meter,
    replicas: Meter,
    watching: Meter,
    /// Events that the watch has brought.
    events: Arc<AtomicU64>,
    watch: AbortOnDropHandle<()>,
}

impl Bench {
    async fn start(replicas: u16, executors: u16) -> Result<Self> {
        report::note(&format!("{replicas} replicas: starting a control plane and as many pods"));
        let settings = Settings { reconcilers: 0, aggregators: 0, ..Settings::default() };
        let installation = Installation::start(settings).await?;
        let plane = &installation.plane;
        let (aggregator, watching) = (Meter::open(plane).await?, Meter::open(plane).await?);
        let url = aggregator.url();
        installation.kubelet.customise(move |_pod, launch| launch.api_server.clone_from(&url));
        let cast = Cast::start(plane, replicas).await?;
        let events = Arc::<AtomicU64>::default();
        let watch = watch(watching.client(plane)?, events.clone());
        let (client, meter) = (plane.client()?, Meter::open(plane).await?);
        let bench = Self {
            client,
            cast,
            executors,
            aggregator,
            replicas: meter,
            watching,
            events,
            watch: AbortOnDropHandle::new(watch),
            installation,
        };
        bench.installation.scale(AGGREGATOR, 1).await?;
        rolled_out(&bench.client, AGGREGATOR).await?;
        Ok(bench)
    }

    async fn stop(self) {
        let Self { installation, cast, watch, .. } = self;
        drop((cast, watch));
        installation.stop().await;
    }

    fn usage(&self) -> Result<Usage> {
        let pod = self.installation.aggregators().pop().context("no aggregator")?;
        ensure!(pod.restarts == 0, "the aggregator was restarted");
        Usage::of(pod.pid.context("the aggregator does not run")?)
    }

    /// Makes the change, lets the replicas follow it, and counts until all is quiet.
    async fn measure(&self, phase: Phase) -> Result<Value> {
        let audit = self.installation.plane.audit();
        let (mark, before, begun) = (audit.mark()?, self.usage()?, Instant::now());
        let bytes = || self.aggregator.bytes() + self.replicas.bytes();
        let (bytes_before, watched, events) = (bytes(), self.watching.received(), self.events.load(Ordering::Relaxed));
        let executors = self.edit(phase).await?;
        let client = self.replicas.client(&self.installation.plane)?;
        let (done, converged) =
            tokio::try_join!(load::play(&client, &self.cast.pods, &executors), self.converged(&executors, begun))?;
        let converge = converged.as_secs_f64();
        let bytes_per_second = (bytes() - bytes_before) as f64 / converge;
        let requests = audit.since(mark)?.len() as f64 / converge;
        audit.await_quiet(QUIET, is_status_write).await?;

        let writes = audit.matching(mark, |request| is_status_write(request) && request.code == 200)?;
        let of = |name: &str| writes.iter().filter(|write| write.name == name).count();
        let most = executors.iter().map(|executor| of(&executor.name_any())).max().unwrap_or_default();
        let usage = self.usage()?;
        let events = self.events.load(Ordering::Relaxed) - events;
        let get_bytes = done.get_bytes as f64 / done.gets.max(1) as f64;
        let all_gets = get_bytes * self.cast.pods.len() as f64 * executors.len() as f64;
        Ok(json!({
            "bench": "scale",
            "phase": phase.as_str(),
            "replicas": self.cast.pods.len(),
            "executors": self.executors,
            "executors_changed": executors.len(),
            "converge_seconds": converge,
            "spread_seconds": done.spread.as_secs_f64(),
            "executor_status_writes": writes.len(),
            "most_writes_of_an_executor": most,
            "requests_per_second": requests,
            "mib_per_second": bytes_per_second / f64::from(1 << 20),
            "watch_events": events,
            "bytes_per_event": (self.watching.received() - watched) as f64 / events.max(1) as f64,
            "bytes_per_get": get_bytes,
            "gets_made": done.gets,
            "mib_of_all_gets_extrapolated": all_gets / f64::from(1 << 20),
            "cpu_seconds": usage.cpu_seconds - before.cpu_seconds,
            "rss_mib": usage.peak_mib,
            "build": report::BUILD,
        }))
    }

    /// Creates or edits executors, and returns them as they are then.
    async fn edit(&self, phase: Phase) -> Result<Vec<Executor>> {
        let (number, edit) = match phase {
            Phase::First => (self.executors, 1),
            Phase::One => (1, 2),
            Phase::All => (self.executors, 3),
        };
        let executors: Api<Executor> = Api::all(self.client.clone());
        let mut edited = Vec::new();
        for number in 0..number {
            let name = format!("e{number:03}");
            let object = json!({
                "apiVersion": "config.ratify.dev/v2alpha1", "kind": "Executor", "metadata": {"name": name},
                "spec": spec(number, edit),
            });
            let params = PatchParams::apply("bench").force();
            edited.push(executors.patch(&name, &params, &Patch::Apply(object)).await.context("cannot apply")?);
        }
        Ok(edited)
    }

    /// Waits until every status counts a success of every replica on the generation; returns how long that took.
    async fn converged(&self, executors: &[Executor], begun: Instant) -> Result<Duration> {
        let api: Api<Executor> = Api::all(self.client.clone());
        let all = self.cast.pods.len() as u32;
        for executor in executors {
            let name = executor.name_any();
            let what = format!("the status of {name}");
            wait::within(PATIENCE, what, || async {
                tokio::time::sleep(LOOK).await;
                let status = api.get_status(&name).await?.status.context("no status")?;
                let counts = status.replicas.context("no counts")?;
                let is_new = status.observed_generation == executor.metadata.generation;
                ensure!(is_new && counts.current == all && counts.succeeded == all, "{counts:?}");
                Ok::<_, anyhow::Error>(())
            })
            .await?;
        }
        Ok(begun.elapsed())
    }
}

/// Watches executors as every replica does, by their metadata alone, and counts what comes.
fn watch(client: Client, events: Arc<AtomicU64>) -> tokio::task::JoinHandle<()> {
    let executors: Api<PartialObjectMeta<Executor>> = Api::all(client);
    tokio::spawn(async move {
        let mut seen = watcher(executors, watcher::Config::default()).boxed();
        while let Some(event) = seen.next().await {
            match event {
                Ok(Event::Apply(_)) => drop(events.fetch_add(1, Ordering::Relaxed)),
                Ok(_) => {}
                Err(error) => report::note(&format!("watch: {error}")),
            }
        }
    })
}

fn is_status_write(request: &Request) -> bool {
    request.by(NAMESPACE, AGGREGATOR) && request.is_write() && request.on_status_of("executors")
}

fn spec(number: u16, edit: i32) -> Value {
    json!({
        "scopes": [format!("r{number}.example.com")],
        "concurrency": edit,
        "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
        "verifiers": [{"name": "cosign", "type": "cosign", "parameters": {"trustPolicies": [{
            "certificateIdentity": "release@example.com", "certificateOIDCIssuer": "https://issuer.example.com",
        }]}}],
        "policyEnforcer": {"type": "threshold-policy", "parameters": {"policy": {
            "threshold": 1, "rules": [{"verifierName": "cosign"}],
        }}},
    })
}

/// Three tables: what a change takes, what it costs, and how both grow.
fn text(rows: &[Value]) -> String {
    const TIMES: [Column; 7] = [
        ("replicas", "REPLICAS"),
        ("phase", "CHANGE"),
        ("executors_changed", "EXECUTORS"),
        ("spread_seconds", "SPREAD, s"),
        ("converge_seconds", "CONVERGED, s"),
        ("executor_status_writes", "STATUS WRITES"),
        ("most_writes_of_an_executor", "MOST OF ONE"),
    ];
    const COSTS: [Column; 9] = [
        ("replicas", "REPLICAS"),
        ("phase", "CHANGE"),
        ("requests_per_second", "REQUESTS/s"),
        ("mib_per_second", "MiB/s"),
        ("bytes_per_event", "BYTES/EVENT"),
        ("bytes_per_get", "BYTES/GET"),
        ("mib_of_all_gets_extrapolated", "ALL GETS, MiB"),
        ("cpu_seconds", "CPU, s"),
        ("rss_mib", "PEAK MEMORY, MiB"),
    ];
    const GROWTH: [Column; 7] = [
        ("growth", "FROM, TO"),
        ("phase", "CHANGE"),
        ("replicas", "REPLICAS"),
        ("converge_seconds", "CONVERGED"),
        ("cpu_seconds", "CPU"),
        ("rss_mib", "PEAK MEMORY"),
        ("mib_of_all_gets_extrapolated", "ALL GETS"),
    ];
    format!(
        "{} executors, {} build; reports by a generator with at most {} requests on their way; all gets are extrapolated \
         from those of {} replicas\n\n{}\n\n{}\n\nGrowth from size to size, times\n\n{}",
        rows.first().map_or(&Value::Null, |row| &row["executors"]),
        report::BUILD,
        load::AT_ONCE,
        load::READERS,
        report::table(&TIMES, rows),
        report::table(&COSTS, rows),
        report::table(&GROWTH, &growth(rows))
    )
}

/// From each size to the next, how many times as much of everything.
fn growth(rows: &[Value]) -> Vec<Value> {
    let step = |pair: &[&Value]| {
        let times = |key: &str| {
            let value = |row: &Value| row[key].as_f64().filter(|value| *value > 0.0);
            value(pair[1]).zip(value(pair[0])).map(|(after, before)| after / before)
        };
        let growth = format!("{} to {}", pair[0]["replicas"], pair[1]["replicas"]);
        let mut row = json!({"bench": "scale", "growth": growth, "phase": pair[0]["phase"]});
        for key in ["replicas", "converge_seconds", "cpu_seconds", "rss_mib", "mib_of_all_gets_extrapolated"] {
            row[key] = json!(times(key));
        }
        row
    };
    let of_a_phase = |phase: Phase| {
        let alike: Vec<&Value> = rows.iter().filter(|row| row["phase"] == phase.as_str()).collect();
        alike.windows(2).map(step).collect::<Vec<_>>()
    };
    [Phase::First, Phase::One, Phase::All].into_iter().flat_map(of_a_phase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_of_the_same_change_from_size_to_size() {
        let row = |phase: Phase, replicas: u32, cpu: f64| json!({"phase": phase.as_str(), "replicas": replicas, "cpu_seconds": cpu, "rss_mib": 10.0});
        let rows = [row(Phase::First, 100, 2.0), row(Phase::One, 1_000, 7.0), row(Phase::First, 1_000, 18.0)];
        let growth = growth(&rows);
        assert_eq!((growth.len(), &growth[0]["phase"]), (1, &json!("first")));
        assert_eq!((growth[0]["replicas"].as_f64(), growth[0]["cpu_seconds"].as_f64()), (Some(10.0), Some(9.0)));
        assert!(growth[0]["converge_seconds"].is_null());
    }
}
