//! The main job, end to end, on a real API server: replicas, an aggregator, executors, and the table of who runs what.
//!
//! Nothing here is a stand-in for the product: the Deployments, roles and definitions are those under `deploy`, the
//! processes are the shipped programs under their own bound tokens. Only the kubelet is ours.

mod cell;
mod live;
mod setup;
mod table;
mod vault;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{Api, ListParams, ObjectList};
use kube::{Client, ResourceExt};
use muster_api::{Executor, ExecutorLike, NamespacedExecutor};
use serde_json::json;

use crate::installation::Installation;
use crate::wait;
use table::Row;
use vault::Vault;

/// How long the demo waits for every executor to be folded before it shows what there is.
const SETTLE: Duration = Duration::from_mins(1);

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the table once and end, instead of staying up.
    #[arg(long)]
    once: bool,
    /// Print the executors as one Kubernetes List instead of the table.
    #[arg(long)]
    json: bool,
    /// Manifests of your own to apply besides the samples: a file or a folder.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many replicas of the reconciler run.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=50))]
    replicas: u16,
    /// How many aggregators run; one of them leads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=5))]
    aggregators: u16,
}

/// Runs the demo; returns when it was asked for one table, or at the first signal.
pub async fn run(args: Args) -> Result<()> {
    let installation = setup::install(args.replicas, args.aggregators).await?;
    let client = installation.plane.client()?;
    let vault = Vault::open(&client).await?;
    show(&args, &installation, &client, &vault).await?;
    installation.stop().await;
    Ok(())
}

async fn show(args: &Args, installation: &Installation, client: &Client, vault: &Vault) -> Result<()> {
    setup::apply_executors(client, &args.files).await?;
    vault.apply_executors(client).await?;
    if let Err(late) = wait::within(wait::scaled(SETTLE), "every executor to be folded", || settled(client, args)).await
    {
        setup::note(&format!("{late:#}; this is how far it came:"));
    }
    if args.json {
        setup::print(&serde_json::to_string_pretty(&list(client).await?)?);
    } else {
        setup::print(&table::render(&rows(client).await?));
    }
    if args.once {
        return Ok(());
    }
    live::run(installation, client).await
}

/// Every executor has a status about its current generation, with a word of every expected replica.
async fn settled(client: &Client, args: &Args) -> Result<()> {
    for row in rows(client).await? {
        let status = row.status.with_context(|| format!("{} has no status", row.name))?;
        let counts = status.replicas.with_context(|| format!("{} has no counts", row.name))?;
        ensure!(
            status.observed_generation == Some(row.generation)
                && counts.expected == u32::from(args.replicas)
                && counts.current == counts.expected,
            "{}: generation {:?} of {}, {} of {} replicas current",
            row.name,
            status.observed_generation,
            row.generation,
            counts.current,
            counts.expected
        );
    }
    Ok(())
}

/// All executors of both kinds, cluster-wide ones first, by name.
async fn rows(client: &Client) -> Result<Vec<Row>> {
    let mut rows = rows_of(&fetch::<Executor>(client).await?);
    rows.extend(rows_of(&fetch::<NamespacedExecutor>(client).await?));
    Ok(rows)
}

/// The executors as one Kubernetes List, as `kubectl get -o json` gives them.
async fn list(client: &Client) -> Result<serde_json::Value> {
    let mut items = Vec::new();
    for executor in fetch::<Executor>(client).await? {
        items.push(serde_json::to_value(executor)?);
    }
    for executor in fetch::<NamespacedExecutor>(client).await? {
        items.push(serde_json::to_value(executor)?);
    }
    Ok(json!({ "apiVersion": "v1", "kind": "List", "items": items }))
}

async fn fetch<K: ExecutorLike>(client: &Client) -> Result<ObjectList<K>> {
    let list = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    list.with_context(|| format!("cannot list {}", K::KIND.plural()))
}

fn rows_of<K: ExecutorLike>(list: &ObjectList<K>) -> Vec<Row> {
    let row = |object: &K| Row {
        name: match object.namespace() {
            Some(namespace) => format!("{namespace}/{}", object.name_any()),
            None => object.name_any(),
        },
        generation: object.meta().generation.unwrap_or_default(),
        status: object.executor_status().cloned(),
    };
    list.iter().map(row).collect()
}
