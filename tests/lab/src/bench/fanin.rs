//! `bench fanin`: what it costs the API server that every replica builds every executor. The design elsewhere, in which each
//! replica writes the one shared status, costs the square of the replicas; this counts ours, from the audit log.

use std::collections::BTreeMap;
use std::future::ready;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use muster_api::{Executor, ExecutorLike};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep_until};

use super::report::{self, Column};
use crate::audit::{Audit, Mark, Request};
use crate::installation::{AGGREGATOR, Installation, NAMESPACE, RECONCILER, Settings};
use crate::{admin, wait};

/// Requests of the administrator at the same time, while executors are made and edited.
const EDITORS: usize = 16;
/// No write for so long: the last change has been dealt with.
const QUIET: Duration = Duration::from_secs(3);
/// How long a change may take before the bench gives up.
const PATIENCE: Duration = Duration::from_mins(10);

/// Arguments of `bench fanin`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many replicas of the reconciler run.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=200))]
    replicas: u16,
    /// How many executors each of them builds.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=5_000))]
    executors: u16,
    /// How long builds fail, and how long nothing happens, in seconds.
    #[arg(long, default_value_t = 60)]
    window: u64,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// What all executors are made to say.
#[derive(Clone, Copy)]
enum Spec {
    /// Trusts a certificate in the spec itself; the number makes it another spec.
    Good(u32),
    /// Trusts a file that no replica has: it may come, so every replica keeps trying.
    Failing,
}

/// Runs the four phases on an installation of its own.
pub(super) async fn run(args: Args) -> Result<()> {
    report::note(&format!("{} replicas, {} executors; starting a control plane", args.replicas, args.executors));
    let bench = Bench::start(args).await?;
    let mut rows = Vec::new();
    for phase in ["create", "change", "failing", "idle"] {
        report::note(phase);
        let row = bench.measure(phase).await.with_context(|| format!("in phase {phase}"))?;
        if bench.args.json {
            report::print(&row.to_string());
        }
        rows.push(row);
    }
    if !bench.args.json {
        report::print(&text(&bench.args, &rows));
    }
    bench.installation.stop().await;
    Ok(())
}

struct Bench {
    args: Args,
    installation: Installation,
    client: Client,
    certificate: String,
    /// The replicas' trust directory: empty, and it stays so.
    _trust: TempDir,
}

impl Bench {
    async fn start(args: Args) -> Result<Self> {
        let trust = tempfile::tempdir().context("cannot make a trust directory")?;
        let installation = Installation::start(Settings {
            reconcilers: args.replicas,
            reconciler_args: vec![format!("--trust-dir={}", trust.path().display())],
            ..Settings::default()
        })
        .await?;
        installation.ready().await?;
        let client = installation.plane.client()?;
        Ok(Self { args, installation, client, certificate: authority()?, _trust: trust })
    }

    /// Plays one phase and counts what our services asked for meanwhile.
    async fn measure(&self, phase: &str) -> Result<Value> {
        let audit = self.installation.plane.audit();
        if phase == "idle" {
            self.apply(Spec::Good(2)).await?;
            self.settled(Spec::Good(2)).await?;
        }
        audit.await_quiet(QUIET, writes_of_ours).await?;
        let (mark, begun) = (audit.mark()?, Instant::now());
        let window = begun + Duration::from_secs(self.args.window);
        let settle = match phase {
            "create" => Some(self.change(Spec::Good(0)).await?),
            "change" => Some(self.change(Spec::Good(1)).await?),
            "failing" => Some(self.change(Spec::Failing).await?),
            _ => None,
        };
        if matches!(phase, "create" | "change") {
            audit.await_quiet(QUIET, writes_of_ours).await?;
        } else {
            sleep_until(window).await;
        }
        let mut row = self.figures(phase, &audit, mark)?;
        row["settle_seconds"] = json!(settle.map(|settle| settle.as_secs_f64()));
        row["seconds"] = json!(begun.elapsed().as_secs_f64());
        if phase == "failing" {
            row["failed_builds"] = json!(self.failed_builds().await?);
        }
        Ok(row)
    }

    /// Changes every executor; returns how long it took, from the first request on, until every status was right.
    async fn change(&self, spec: Spec) -> Result<Duration> {
        let begun = Instant::now();
        self.apply(spec).await?;
        self.settled(spec).await?;
        Ok(begun.elapsed())
    }

    /// Creates or edits every executor.
    async fn apply(&self, spec: Spec) -> Result<()> {
        let executors: &Api<Executor> = &Api::all(self.client.clone());
        let params = &PatchParams::apply("bench").force();
        let edit = |number: u16| async move {
            let name = format!("e{number:04}");
            let object = json!({
                "apiVersion": "config.ratify.dev/v2alpha1", "kind": "Executor", "metadata": {"name": name},
                "spec": self.spec(number, spec),
            });
            executors.patch(&name, params, &Patch::Apply(object)).await.with_context(|| format!("cannot apply {name}"))
        };
        stream::iter(0..self.args.executors).map(edit).buffer_unordered(EDITORS).try_for_each(|_| ready(Ok(()))).await
    }

    fn spec(&self, number: u16, spec: Spec) -> Value {
        let (concurrency, material) = match spec {
            Spec::Good(edit) => (1 + edit, json!({"type": "ca", "inline": {"certs": self.certificate}})),
            Spec::Failing => (1, json!({"type": "ca", "files": ["absent.crt"]})),
        };
        json!({
            "scopes": [format!("r{number}.example.com")],
            "concurrency": concurrency,
            "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
            "verifiers": [{"name": "notation", "type": "notation", "parameters": {"certificates": [material]}}],
            "policyEnforcer": {"type": "threshold-policy", "parameters": {"policy": {
                "threshold": 1, "rules": [{"verifierName": "notation"}],
            }}},
        })
    }

    /// Waits until every status counts a verdict of every replica on the executor as it is now.
    async fn settled(&self, spec: Spec) -> Result<()> {
        let executors: Api<Executor> = Api::all(self.client.clone());
        let replicas = u32::from(self.args.replicas);
        let succeeded = if matches!(spec, Spec::Failing) { 0 } else { replicas };
        wait::within(PATIENCE, "every status to be right", || async {
            for executor in executors.list(&ListParams::default()).await? {
                let (name, status) = (executor.name_any(), executor.executor_status());
                let counts = status.and_then(|status| status.replicas.as_ref());
                let counts = counts.with_context(|| format!("{name} has no counts"))?;
                let observed = status.and_then(|status| status.observed_generation);
                ensure!(observed == executor.metadata.generation, "{name}: generation {observed:?}");
                ensure!(counts.current == replicas && counts.succeeded == succeeded, "{name}: {counts:?}");
            }
            Ok::<_, anyhow::Error>(())
        })
        .await
    }

    fn figures(&self, phase: &str, audit: &Audit, mark: Mark) -> Result<Value> {
        let ours = audit.matching(mark, is_ours)?;
        let count = |pick: &dyn Fn(&Request) -> bool| ours.iter().filter(|request| pick(request)).count();
        let is_status_write = |request: &Request| request.is_write() && request.on_status_of("executors");
        Ok(json!({
            "bench": "fanin",
            "phase": phase,
            "replicas": self.args.replicas,
            "executors": self.args.executors,
            "executor_status_writes": count(&|request| is_status_write(request) && request.code == 200),
            "conflicts": count(&|request| is_status_write(request) && request.code == 409),
            "pod_status_writes": count(&|request| request.is_write() && request.on("executorpodstatuses")),
            "lists": count(&Request::is_list),
            "requests": requests(&ours),
            "build": report::BUILD,
        }))
    }

    /// Failed builds of all replicas so far: that they go on failing is what the phase is about.
    async fn failed_builds(&self) -> Result<u64> {
        let mut failed = 0;
        for pod in self.installation.reconcilers() {
            failed += admin::counter(&pod, "muster_builds_total", "reason=\"FileMissing\"").await?;
        }
        Ok(failed)
    }
}

fn is_ours(request: &Request) -> bool {
    request.by(NAMESPACE, RECONCILER) || request.by(NAMESPACE, AGGREGATOR)
}

fn writes_of_ours(request: &Request) -> bool {
    is_ours(request) && request.is_write() && !request.is_lease()
}

/// How many requests by service account, verb and resource, in this order.
fn requests(ours: &[Request]) -> Vec<Value> {
    let mut counts: BTreeMap<(&str, &str, String), usize> = BTreeMap::new();
    for request in ours {
        let account = request.user.rsplit(':').next().unwrap_or_default();
        let resource = match request.subresource.as_str() {
            "" => request.resource.clone(),
            subresource => format!("{}/{subresource}", request.resource),
        };
        *counts.entry((account, &request.verb, resource)).or_default() += 1;
    }
    let row = |((account, verb, resource), count)| json!({"account": account, "verb": verb, "resource": resource, "count": count});
    counts.into_iter().map(row).collect()
}

/// Both tables: the goals, and what they are made of.
fn text(args: &Args, rows: &[Value]) -> String {
    const PHASES: [Column; 7] = [
        ("phase", "PHASE"),
        ("settle_seconds", "SETTLED, s"),
        ("executor_status_writes", "STATUS WRITES"),
        ("conflicts", "CONFLICTS"),
        ("pod_status_writes", "POD STATUS WRITES"),
        ("lists", "LISTS"),
        ("failed_builds", "FAILED BUILDS"),
    ];
    const REQUESTS: [Column; 5] =
        [("phase", "PHASE"), ("account", "ACCOUNT"), ("verb", "VERB"), ("resource", "RESOURCE"), ("count", "REQUESTS")];
    let mut requests = Vec::new();
    for row in rows {
        for request in row["requests"].as_array().into_iter().flatten() {
            let mut request = request.clone();
            request["phase"] = row["phase"].clone();
            requests.push(request);
        }
    }
    format!(
        "{} replicas, {} executors, {} build; requests as the API server's audit log has them\n\n{}\n\n{}",
        args.replicas,
        args.executors,
        report::BUILD,
        report::table(&PHASES, rows),
        report::table(&REQUESTS, &requests)
    )
}

/// A certificate authority, PEM.
fn authority() -> Result<String> {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().context("cannot make a key")?;
    Ok(params.self_signed(&key).context("cannot make a certificate")?.pem())
}
