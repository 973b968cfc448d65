//! Figures from a real API server and the shipped programs: they are printed, with what they were measured on, and nothing
//! here passes or fails by them.

mod failover;
mod fanin;
mod freshness;
mod probes;
mod report;
mod scale;
mod seen;

use anyhow::Result;

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// How soon another aggregator writes when the leader is gone, and how probes fare meanwhile.
    Failover(failover::Args),
    /// How soon a frozen replica shows, how soon one that is back does, and how soon one that is gone is.
    Freshness(freshness::Args),
    /// What a change costs with very many replicas.
    Scale(scale::Args),
    /// Requests that one change of every spec, failing builds and idleness cost.
    Fanin(fanin::Args),
}

/// Measures, and prints the figures.
pub async fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Failover(args) => failover::run(args).await,
        Bench::Freshness(args) => freshness::run(args).await,
        Bench::Scale(args) => scale::run(args).await,
        Bench::Fanin(args) => fanin::run(args).await,
    }
}
