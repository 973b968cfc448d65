//! Figures from a real API server and the shipped programs: they are printed, with what they were measured on, and nothing
//! here passes or fails by them.

mod freshness;
mod report;
mod scale;

use anyhow::Result;

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// How soon a frozen replica shows, how soon one that is back does, and how soon one that is gone is.
    Freshness(freshness::Args),
    /// What a change costs with very many replicas.
    Scale(scale::Args),
}

/// Measures, and prints the figures.
pub async fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Freshness(args) => freshness::run(args).await,
        Bench::Scale(args) => scale::run(args).await,
    }
}
