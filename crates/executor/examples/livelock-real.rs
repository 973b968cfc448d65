//! The bench `livelock` over real HTTP and in real time: providers, gates and client as they ship, against a server that
//! limits each token. All scenarios run beside each other, each with a server of its own, so that the whole takes as long
//! as the slowest.
//!
//! `--json` prints one object a line; otherwise a table for each number of resources and processes.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use futures::future::{BoxFuture, FutureExt as _, join_all};
use jiff::Timestamp;
use muster_api::ExecutorSpec;
use muster_core::gate::Line;
use muster_executor::trust::azure::AzureOptions;
use muster_executor::trust::ferrvault::FerrVaultOptions;
use muster_executor::trust::gate::{Patience, Stage};
use muster_executor::trust::http::{Http, HttpOptions};
use muster_executor::trust::time::{Time, TokioTime};
use muster_executor::trust::{SecretData, SecretError, SecretReader, Surroundings, Upstreams};
use muster_executor::{BuildError, CompileOptions, Compiled, ProviderKind, build, compile};
use muster_simulation::report::{self, CALLS, Row};
use muster_upstream::{Behaviour, Config, Limit, RetryAfter, Upstream, authority_pem, ferrvault};
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

/// Trust stores of each resource.
const TYPES: [&str; CALLS] = ["ca", "signingAuthority"];
/// The one token of all resources.
const TOKEN: &str = "fft_bench";
/// The limit: tokens per second, and at once.
const RATE: f64 = 1.0;
const BURST: f64 = 20.0;
/// From a call's arrival to its answer, in seconds; as in virtual time.
const LATENCY: f64 = 0.05;
/// A run is given up after so many ideal times.
const PATIENCE: f64 = 6.0;
/// Time that one call may take; as the replica's default.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// Muster behind one rate-limited credential, over real HTTP and in real time.
#[derive(Debug, Parser)]
struct Args {
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// The variables of a row.
#[derive(Debug, Clone, Copy)]
struct Case {
    n: usize,
    processes: usize,
    charged: bool,
    retry_after: bool,
}

/// The one Secret, which holds the token.
struct Token;

/// Nobody has to be told of waits here, and there are workers for all.
struct Endless;

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    // The first of this program, so there is none yet that it could be in the way of.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut cases = Vec::new();
    for n in [29, 100] {
        for processes in [1, 3] {
            for charged in [false, true] {
                cases.extend([false, true].map(|retry_after| Case { n, processes, charged, retry_after }));
            }
        }
    }
    let rows = join_all(cases.into_iter().map(measure)).await.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(report::print(&mut io::stdout().lock(), &rows, args.json)?)
}

/// Lets all resources begin at once and waits for the last.
async fn measure(case: Case) -> Result<Row> {
    let Case { n, processes, charged, retry_after } = case;
    let announced = if retry_after { RetryAfter::Seconds } else { RetryAfter::None };
    let behaviour = Behaviour {
        limit: Limit::Bucket { rate: RATE, burst: BURST, charged, retry_after: announced },
        latency: LATENCY,
        ferrvault: ferrvault::Content { any_value: Some(authority_pem("Bench")?), ..ferrvault::Content::default() },
        ..Behaviour::default()
    };
    let upstream = Upstream::start(Config::from(behaviour)).await.context("cannot start the upstream")?;
    let replicas = (0..processes as u64).map(|seed| replica(&upstream, seed)).collect::<Result<Vec<_>>>()?;
    let compiled = compiled(&upstream)?;
    let ideal = ((CALLS * n) as f64 - BURST) / RATE;
    let begun = Instant::now();
    let limit = begun + Duration::from_secs_f64(PATIENCE * ideal);
    let resources = (0..n).map(|number| {
        let (replica, compiled) = (&replicas[number % processes], &compiled);
        async move { timeout_at(limit, sync(replica, compiled, number)).await.unwrap_or(false) }
    });
    let synced = join_all(resources).await.into_iter().filter(|synced| *synced).count();
    let seconds = (synced == n).then(|| begun.elapsed().as_secs_f64());
    let counts = upstream.count(TOKEN);
    Ok(Row {
        bench: report::BENCH,
        real: true,
        policy: "muster",
        n,
        processes,
        charged,
        retry_after,
        synced,
        ratio: seconds.map(|seconds| seconds / ideal),
        requests: counts.sent,
        refused: counts.refused,
        seconds,
        ideal_seconds: ideal,
        starts_over: false,
        seeds: 1,
    })
}

/// What one process has: gates of its own, a client of its own.
fn replica(upstream: &Upstream, seed: u64) -> Result<Upstreams> {
    let time: Arc<dyn Time> = Arc::new(TokioTime::starting(now()));
    let surroundings = Surroundings {
        http: Http::new(&HttpOptions::default(), Arc::clone(&time))?.with_deadline(CALL_DEADLINE),
        secrets: Arc::new(Token),
        azure: AzureOptions {
            authority: upstream.url().parse()?,
            tenant_id: String::new(),
            client_id: String::new(),
            token_file: None,
            machine: upstream.url().parse()?,
            vault_hosts: Vec::new(),
        },
        ferrvault: FerrVaultOptions { token_dirs: Vec::new(), namespace: "muster-system".to_owned() },
        time,
    };
    Ok(Upstreams::new(surroundings, Xoshiro256PlusPlus::seed_from_u64(seed)))
}

/// A spec that needs [`CALLS`] calls: each entry is asked for by itself.
fn compiled(upstream: &Upstream) -> Result<Compiled> {
    let entry = |kind: &str| {
        json!({"type": kind, "ferrvault": {
            "url": upstream.url(), "organization": "o", "project": "p", "vault": "v", "certs": [kind],
            "tokenSecretRef": {"name": "vault", "key": "token"},
        }})
    };
    let certificates = TYPES.map(entry);
    let spec: ExecutorSpec = serde_json::from_value(json!({
        "scopes": ["registry.example"],
        "verifiers": [{"name": "v", "type": "notation", "parameters": {"certificates": certificates}}],
        "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
    }))?;
    let providers = BTreeSet::from([ProviderKind::FerrVault]);
    Ok(compile(&spec, &CompileOptions { providers, ..CompileOptions::default() })?)
}

/// One build, as a replica does it; true once it is built.
async fn sync(replica: &Upstreams, compiled: &Compiled, number: usize) -> bool {
    let (sources, visit) = replica.visit(format!("e{number}").into(), Line::Urgent, Arc::new(Endless));
    let built = build(compiled, &sources, now()).await.is_ok();
    visit.end(built);
    built
}

impl SecretReader for Token {
    fn read<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Option<SecretData>, SecretError>> {
        async { Ok(Some([("token", TOKEN)].into_iter().collect())) }.boxed()
    }
}

impl Patience for Endless {
    fn enter(&self, _stage: Stage) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    fn waits(&self, _why: BuildError) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

/// The wall time that certificates made now are valid at.
#[expect(clippy::disallowed_methods, reason = "a program of its own, whose clock is the machine's")]
fn now() -> Timestamp {
    Timestamp::now()
}
