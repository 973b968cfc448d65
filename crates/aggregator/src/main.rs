//! The binary: arguments in, exit code out.

use std::process::ExitCode;

use clap::Parser as _;
use muster_aggregator::{Args, Error, run};

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        // Already told in the log, in order with everything else.
        Err(Error::Run(_)) => ExitCode::FAILURE,
        Err(error) => {
            let category = error.category();
            #[expect(clippy::print_stderr, reason = "logging may not be set up yet")]
            {
                eprintln!("muster-aggregator: {category}: {:#}", anyhow::Error::from(error));
            }
            ExitCode::FAILURE
        }
    }
}
