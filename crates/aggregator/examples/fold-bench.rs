//! How long a fold takes, by the number of replicas: all healthy, and all failing with long texts of their own.
//!
//! `--json` prints one object a line with `bench`, `entries`, `micros` and what the replicas say; otherwise a table.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use muster_aggregator::facts::{Life, Name, Outcome, Owner, Pod, Report, Version};
use muster_aggregator::fold::{BY_POD_BYTES, FoldInput, Health, Replica, fold};
use muster_api::{ExecutorKind, ExecutorStatus, Reason, Serves};

const SIZES: [usize; 4] = [100, 1_000, 3_000, 10_000];
/// Time spent on each measurement.
const BUDGET: Duration = Duration::from_millis(500);

/// What all replicas say.
#[derive(Clone, Copy, Debug)]
enum Say {
    Built,
    Failed,
}

fn main() {
    let json = std::env::args().any(|arg| arg == "--json");
    if !json {
        print(&format!("{:>8}  {:<16}  {:>10}  {:>12}", "ENTRIES", "REPLICAS", "MICROS", "NANOS/ENTRY"));
    }
    for say in [Say::Built, Say::Failed] {
        for entries in SIZES {
            let micros = measure(entries, say);
            let what = say.as_str();
            print(&if json {
                serde_json::json!({"bench": "fold", "entries": entries, "micros": micros, "replicas": what}).to_string()
            } else {
                let each = micros * 1_000.0 / entries as f64;
                format!("{entries:>8}  {what:<16}  {micros:>10.0}  {each:>12.0}")
            });
        }
    }
}

/// The median of many folds, each upon the status of the one before.
fn measure(entries: usize, say: Say) -> f64 {
    let pods: Vec<Pod> = (0..entries).map(pod).collect();
    let replicas: Vec<Replica<'_>> = pods.iter().map(|pod| Replica { pod, health: Health::Serving }).collect();
    let reports: Vec<Report> = pods.iter().enumerate().map(|(index, pod)| report(index, pod, say)).collect();
    let reports: Vec<&Report> = reports.iter().collect();
    let mut previous: Option<Arc<ExecutorStatus>> = None;
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.len() < 5 || begun.elapsed() < BUDGET {
        let start = Instant::now();
        let folded = fold(&FoldInput {
            executor_uid: "executor",
            generation: 7,
            replicas: &replicas,
            reports: &reports,
            previous: previous.as_deref(),
            now: Timestamp::UNIX_EPOCH,
            by_pod_max_bytes: BY_POD_BYTES,
        });
        times.push(start.elapsed());
        previous = Some(folded.status);
    }
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

impl Say {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Built => "built",
            Self::Failed => "failed, 1 KiB",
        }
    }
}

fn pod(index: usize) -> Pod {
    Pod {
        name: format!("muster-reconciler-6c9f7d5b8-{index:05}").into(),
        uid: format!("6f1c1f0e-8f6b-4c55-9d2e-{index:012}").into(),
        life: Life::Expected,
        ip: None,
        health_port: Some(8086),
    }
}

fn report(index: usize, pod: &Pod, say: Say) -> Report {
    let (succeeded, serves, reason, error) = match say {
        Say::Built => (true, Serves::Wanted, Reason::Built, String::new()),
        Say::Failed => (false, Serves::Nothing, Reason::Unreachable, format!("{index}: {}", "no answer; ".repeat(92))),
    };
    Report {
        name: format!("base-{}", pod.name).into(),
        uid: pod.uid.clone(),
        version: Version::new("1"),
        executor: Name { kind: ExecutorKind::Executor, namespace: "".into(), name: "base".into() },
        executor_uid: "executor".into(),
        pod_name: pod.name.clone(),
        pod_uid: pod.uid.clone(),
        owner: Owner::ItsPod,
        outcome: Some(Outcome {
            generation: 7,
            succeeded,
            serves,
            reason,
            error: error.into(),
            trust_expires_at: None,
            warnings: Arc::from([]),
        }),
    }
}

#[expect(clippy::print_stdout, reason = "a command line program")]
fn print(line: &str) {
    println!("{line}");
}
