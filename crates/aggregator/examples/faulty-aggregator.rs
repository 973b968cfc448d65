//! The aggregator with injected faults, `--hang LOOP` and `--delay LOOP=TIME`, for the tests on a real API server. Being an
//! example that requires the feature, it can be built beside the real binary and is never part of a release.

use std::process::ExitCode;

use clap::Parser as _;
use muster_aggregator::{Args, run};

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a test's process; its log is kept with the test's")]
            {
                eprintln!("faulty-aggregator: {:#}", anyhow::Error::from(error));
            }
            ExitCode::FAILURE
        }
    }
}
