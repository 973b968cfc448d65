//! The flags of `muster-aggregator`. Every flag is also a variable; nothing else reads the environment.

use std::num::NonZeroUsize;

use clap::Parser;
use muster_core::go_duration::GoDuration;
use muster_runtime::args::LeaseArgs;
use muster_runtime::process::ProcessArgs;

use crate::fold::{BY_POD_BYTES, BY_POD_BYTES_MAX};

/// Folds the replicas' reports into the status of each Executor
#[derive(Clone, Debug, Parser)]
#[command(name = "muster-aggregator", version)]
pub struct Args {
    /// What every process has.
    #[command(flatten)]
    pub process: ProcessArgs,
    /// Leader election.
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// What an aggregator does.
    #[command(flatten)]
    pub aggregator: AggregatorArgs,
}

/// What an aggregator does.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Aggregator")]
pub struct AggregatorArgs {
    /// Work only while holding the Lease. Without it every aggregator writes; nothing is lost, but work is done twice
    #[arg(long, env = "MUSTER_LEADER_ELECT", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub leader_elect: bool,
    /// Labels that select the reconciler's pods in this namespace
    #[arg(
        long,
        env = "MUSTER_RECONCILER_SELECTOR",
        value_name = "SELECTOR",
        default_value = "app.kubernetes.io/name=muster,app.kubernetes.io/component=reconciler"
    )]
    pub reconciler_selector: String,
    /// Most bytes that status.byPod may take; what does not fit is counted in status.byPodOmitted
    #[arg(long, env = "MUSTER_BY_POD_MAX_BYTES", value_name = "BYTES", default_value_t = BY_POD_BYTES, value_parser = by_pod_bytes)]
    pub by_pod_max_bytes: usize,
    /// Statuses that are written at the same time
    #[arg(long, env = "MUSTER_WRITE_WORKERS", value_name = "COUNT", default_value = "8")]
    pub write_workers: NonZeroUsize,
    /// How long a report must have been a leftover, by all that is known, before it is deleted
    #[arg(long, env = "MUSTER_SWEEP_GRACE", value_name = "DURATION", default_value = "2m")]
    pub sweep_grace: GoDuration,
    /// Ask each replica's health port. Without it the last word of a silent replica stands until its pod goes
    #[arg(long, env = "MUSTER_WATCH_HEALTH", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub watch_health: bool,
}

/// Room for a handful of entries at least: below that nothing could ever be listed.
const BY_POD_BYTES_MIN: usize = 2_048;

fn by_pod_bytes(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|error| format!("{error}"))?;
    if (BY_POD_BYTES_MIN..=BY_POD_BYTES_MAX).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("{bytes} is not in {BY_POD_BYTES_MIN} to {BY_POD_BYTES_MAX}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_flags_fit_together_and_each_has_a_variable_and_an_explanation() {
        let command = Args::command();
        command.clone().debug_assert();
        for arg in command.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")) {
            assert!(arg.get_env().is_some(), "--{} has no variable", arg.get_id());
            assert!(arg.get_help().is_some(), "--{} is not explained", arg.get_id());
        }
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let args = Args::parse_from(["muster-aggregator"]).aggregator;
        assert_eq!((args.by_pod_max_bytes, args.write_workers.get()), (65_536, 8));
        assert!(args.leader_elect && args.watch_health);
        assert_eq!(args.sweep_grace.to_string(), "2m");
        assert_eq!(args.reconciler_selector, "app.kubernetes.io/name=muster,app.kubernetes.io/component=reconciler");
    }

    #[test]
    fn c65_more_than_an_object_can_hold_is_refused() {
        let with = |bytes: &str| Args::try_parse_from(["muster-aggregator", "--by-pod-max-bytes", bytes]);
        assert!(with("512000").is_ok() && with("2048").is_ok());
        for refused in ["512001", "100", "-1", "64k"] {
            assert!(with(refused).is_err(), "{refused}");
        }
    }

    #[cfg(not(feature = "fault"))]
    #[test]
    fn faults_cannot_be_asked_for_in_a_default_build() {
        for flag in ["--hang=fold", "--delay=fold=1s"] {
            let error = Args::try_parse_from(["muster-aggregator", flag]).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{flag}");
        }
    }

    #[cfg(feature = "fault")]
    #[test]
    fn faults_can_be_asked_for_with_the_feature() {
        assert!(Args::try_parse_from(["muster-aggregator", "--hang=fold", "--delay=fold=1s"]).is_ok());
    }
}
