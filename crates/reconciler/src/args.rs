//! The flags of `muster-reconciler`. Every flag is also a variable; nothing else reads the environment.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Parser;
use muster_core::go_duration::GoDuration;
use muster_executor::ProviderKind;
use muster_runtime::process::ProcessArgs;

use crate::decide::Settings;
use crate::upstreams::UpstreamArgs;

/// Builds every Executor for itself and reports its own ExecutorPodStatus
#[derive(Clone, Debug, Parser)]
#[command(name = "muster-reconciler", version)]
pub struct Args {
    /// What every process has.
    #[command(flatten)]
    pub process: ProcessArgs,
    /// What a replica does.
    #[command(flatten)]
    pub replica: ReplicaArgs,
    /// How it reaches upstreams.
    #[command(flatten)]
    pub upstreams: UpstreamArgs,
}

/// What a replica does.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Replica")]
pub struct ReplicaArgs {
    /// Run as the only process, without a pod: outcomes go into the executors' own status. Refused in a pod
    #[arg(long, env = "MUSTER_STANDALONE")]
    pub standalone: bool,
    /// How long the generation before an edit goes on serving while the new one cannot be loaded
    #[arg(long, env = "MUSTER_EDIT_GRACE", value_name = "DURATION", default_value = "2m")]
    pub edit_grace: GoDuration,
    /// How long a first verdict may take before the replica is ready without it
    #[arg(long, env = "MUSTER_START_GRACE", value_name = "DURATION", default_value = "90s")]
    pub start_grace: GoDuration,
    /// Executors that are built at the same time
    #[arg(long, env = "MUSTER_BUILD_WORKERS", value_name = "COUNT", default_value = "8")]
    pub build_workers: NonZeroUsize,
    /// How long building one executor may take
    #[arg(long, env = "MUSTER_BUILD_DEADLINE", value_name = "DURATION", default_value = "60s")]
    pub build_deadline: GoDuration,
    /// Directory below which specs may name files; without it, none may
    #[arg(long, env = "MUSTER_TRUST_DIR", value_name = "DIRECTORY")]
    pub trust_dir: Option<PathBuf>,
    /// How often trust files are compared with what was loaded
    #[arg(long, env = "MUSTER_FILE_INTERVAL", value_name = "DURATION", default_value = "10s")]
    pub file_interval: GoDuration,
    /// Providers that NamespacedExecutors may use besides inline: each lets their authors read what this process can
    #[arg(long, env = "MUSTER_TENANT_PROVIDERS", value_name = "PROVIDER", value_delimiter = ',')]
    pub tenant_providers: Vec<ProviderKind>,
}

impl ReplicaArgs {
    /// What decisions go by.
    pub fn settings(&self) -> Settings {
        Settings { edit_grace: self.edit_grace.get(), start_grace: self.start_grace.get() }
    }
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
        let args = Args::parse_from(["muster-reconciler"]).replica;
        assert_eq!(args.edit_grace.to_string(), "2m");
        assert_eq!(args.start_grace.to_string(), "1m30s");
        assert_eq!(args.build_workers.get(), 8);
        assert_eq!(args.build_deadline.to_string(), "1m");
        assert!(!args.standalone && args.trust_dir.is_none() && args.tenant_providers.is_empty());
    }

    #[cfg(not(feature = "fault"))]
    #[test]
    fn faults_cannot_be_asked_for_in_a_default_build() {
        for flag in ["--hang=build", "--delay=build=1s"] {
            let error = Args::try_parse_from(["muster-reconciler", flag]).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{flag}");
        }
    }

    #[cfg(feature = "fault")]
    #[test]
    fn faults_can_be_asked_for_with_the_feature() {
        assert!(Args::try_parse_from(["muster-reconciler", "--hang=build", "--delay=build=1s"]).is_ok());
    }
}
