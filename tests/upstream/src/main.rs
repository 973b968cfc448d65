//! Runs the upstream on its own, for the demo and for trying things out by hand.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use muster_upstream::{Behaviour, Config, Limit, RetryAfter, Upstream, authority_pem, azure};

/// An upstream that misbehaves on request: vault APIs behind rate limits. `/_control` shows and changes what it does.
#[derive(Debug, Parser)]
#[command(name = "muster-upstream")]
struct Args {
    /// Address for plain HTTP; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Address for HTTPS.
    #[arg(long)]
    listen_tls: Option<SocketAddr>,
    /// Name in the HTTPS certificate besides those of this machine.
    #[arg(long)]
    name: Option<String>,
    /// File to write the authority of the HTTPS certificate to, as PEM.
    #[arg(long)]
    ca_out: Option<PathBuf>,
    /// Calls per second and token; unlimited if absent.
    #[arg(long)]
    rate: Option<f64>,
    /// Calls at once, where there is a rate.
    #[arg(long, default_value_t = 20.0)]
    burst: f64,
    /// A refused call costs a token too.
    #[arg(long)]
    charged: bool,
    /// What a refusal announces.
    #[arg(long, value_enum, default_value_t = Announce::None)]
    retry_after: Announce,
    /// Seconds before each answer.
    #[arg(long, default_value_t = 0.05)]
    latency: f64,
    /// Scaled seconds in one real second.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// JSON file with the whole behaviour, instead of the flags for limit and latency.
    #[arg(long)]
    behaviour: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Announce {
    None,
    Seconds,
    Date,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let config = Config {
        http: args.listen,
        https: args.listen_tls,
        names: args.name.iter().cloned().collect(),
        scale: args.scale,
        behaviour: behaviour(&args)?,
    };
    let upstream = Upstream::start(config).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", upstream.url())?;
    if let Some(url) = upstream.https_url() {
        writeln!(out, "{url}")?;
    }
    if let (Some(path), Some(pem)) = (&args.ca_out, upstream.ca_pem()) {
        fs::write(path, pem).with_context(|| format!("cannot write {}", path.display()))?;
    }
    tokio::signal::ctrl_c().await.context("cannot wait for a signal")
}

/// Every certificate that is asked for exists: the same self-signed one.
fn behaviour(args: &Args) -> anyhow::Result<Behaviour> {
    if let Some(path) = &args.behaviour {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        return serde_json::from_slice(&text).with_context(|| format!("{} is no behaviour", path.display()));
    }
    let retry_after = match args.retry_after {
        Announce::None => RetryAfter::None,
        Announce::Seconds => RetryAfter::Seconds,
        Announce::Date => RetryAfter::Date,
    };
    let pem = authority_pem("Demo trust")?;
    let mut behaviour = Behaviour { latency: args.latency, ..Behaviour::default() };
    if let Some(rate) = args.rate {
        behaviour.limit = Limit::Bucket { rate, burst: args.burst, charged: args.charged, retry_after };
    }
    behaviour.azure.any_secret = Some(azure::Secret::pem(pem.clone()));
    behaviour.ferrvault.any_value = Some(pem);
    Ok(behaviour)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn arguments_are_consistent() {
        super::Args::command().debug_assert();
    }
}
