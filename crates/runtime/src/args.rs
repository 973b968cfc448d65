//! Flags every Muster process shares, as groups to flatten into a binary's own arguments. Each flag is also a `MUSTER_*`
//! variable (the pod's identity uses the downward API's usual names); nothing reads the environment after these.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use muster_core::go_duration::GoDuration;
use muster_core::heartbeat::{ThresholdError, validate_threshold};

/// How the API server is reached and how long a call may take.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "API server")]
pub struct ClientArgs {
    /// Kubeconfig file; without it $KUBECONFIG, ~/.kube/config, then the pod's service account
    #[arg(long, env = "MUSTER_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use
    #[arg(long, env = "MUSTER_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// Deadline of a call on a single object, answer body included
    #[arg(long, env = "MUSTER_REQUEST_TIMEOUT", value_name = "DURATION", default_value = "10s")]
    pub request_timeout: GoDuration,
    /// Deadline of one page of a list
    #[arg(long, env = "MUSTER_LIST_TIMEOUT", value_name = "DURATION", default_value = "30s")]
    pub list_timeout: GoDuration,
    /// How long a watch asks to last, ±10 %: a silently cut connection is noticed within this plus 10 s
    #[arg(long, env = "MUSTER_WATCH_TIMEOUT", value_name = "DURATION", default_value = "50s")]
    pub watch_timeout: GoDuration,
}

/// Where probes and scrapes are answered.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Health and metrics")]
pub struct HealthArgs {
    /// Plain gRPC health; an unspecified IPv6 address falls back to IPv4 where the kernel has no IPv6
    #[arg(long, env = "MUSTER_HEALTH_ADDR", value_name = "ADDRESS:PORT", default_value_t = any(8086))]
    pub health_addr: SocketAddr,
    /// HTTP: /metrics, /healthz, /readyz
    #[arg(long, env = "MUSTER_ADMIN_ADDR", value_name = "ADDRESS:PORT", default_value_t = any(8080))]
    pub admin_addr: SocketAddr,
}

/// What is logged and exported. Beside the endpoints all of OTLP is configured by the standard `OTEL_*` variables.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Telemetry")]
pub struct TelemetryArgs {
    /// Log filter in the syntax of tracing's EnvFilter, such as "info,muster_reconciler=debug"
    // kube's watcher repeats each refused list in full; ours tells the first one in a sentence.
    #[arg(
        long,
        visible_alias = "log-level",
        env = "MUSTER_LOG_FILTER",
        value_name = "FILTER",
        default_value = "info,kube_runtime=error"
    )]
    pub log_filter: String,
    /// Form of a log line
    #[arg(long, env = "MUSTER_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// OTLP collector for traces and metrics over gRPC, such as http://collector:4317; no export without one
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// OTLP collector for traces, if another
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value_name = "URL")]
    pub otlp_traces_endpoint: Option<String>,
    /// OTLP collector for metrics, if another
    #[arg(long, env = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", value_name = "URL")]
    pub otlp_metrics_endpoint: Option<String>,
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// When a loop without progress counts as stalled.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Liveness")]
pub struct LivenessArgs {
    /// Work due or running this long without any completion in its loop fails liveness; 0s disables.
    /// Refused below twice the longest deadline
    #[arg(long, env = "MUSTER_STALL_THRESHOLD", value_name = "DURATION", default_value = "15m")]
    pub stall_threshold: GoDuration,
}

/// How the process ends.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Shutdown")]
pub struct ShutdownArgs {
    /// How long running work may take after the first SIGTERM; below the pod's terminationGracePeriodSeconds
    #[arg(long, env = "MUSTER_GRACE_PERIOD", value_name = "DURATION", default_value = "20s")]
    pub grace_period: GoDuration,
}

/// Who this process is, from the downward API.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Identity")]
pub struct PodArgs {
    /// Name of this pod
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,
    /// Namespace of this pod
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub pod_namespace: Option<String>,
    /// UID of this pod
    #[arg(long, env = "POD_UID", value_name = "UID")]
    pub pod_uid: Option<String>,
    /// Node this pod runs on, for telemetry only
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: Option<String>,
}

/// Timing of leader election; client-go's defaults.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub struct LeaseArgs {
    /// Name of the Lease in the pod's namespace
    #[arg(long, env = "MUSTER_LEASE_NAME", value_name = "NAME", default_value = "muster-aggregator")]
    pub lease_name: String,
    /// How long others leave a silent leader alone
    #[arg(long, env = "MUSTER_LEASE_DURATION", value_name = "DURATION", default_value = "15s")]
    pub lease_duration: GoDuration,
    /// How long a leader that cannot renew keeps leading
    #[arg(long, env = "MUSTER_RENEW_DEADLINE", value_name = "DURATION", default_value = "10s")]
    pub renew_deadline: GoDuration,
    /// Pause between attempts to acquire or renew
    #[arg(long, env = "MUSTER_RETRY_PERIOD", value_name = "DURATION", default_value = "2s")]
    pub retry_period: GoDuration,
}

/// A flag has a value that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag} {} is too short; use at least {}", shown(*given), shown(*least))]
pub struct TooShort {
    /// The flag.
    pub flag: &'static str,
    /// Its value.
    pub given: Duration,
    /// The smallest value that works.
    pub least: Duration,
}

impl ClientArgs {
    /// Refuses deadlines within which nothing can be answered.
    pub fn check(&self) -> Result<(), TooShort> {
        // A deadline below the server's own smallest unit, and a watch that could only end.
        let least = Duration::from_secs(1);
        let flags = [
            ("--request-timeout", self.request_timeout.get()),
            ("--list-timeout", self.list_timeout.get()),
            ("--watch-timeout", self.watch_timeout.get()),
        ];
        let short = flags.into_iter().find(|(_, given)| *given < least);
        short.map_or(Ok(()), |(flag, given)| Err(TooShort { flag, given, least }))
    }

    /// The longest time between two signs of life of a healthy watch: it asks for at most a tenth more than
    /// `--watch-timeout`, and kube's watcher waits 5 s beyond that before it calls the connection dead.
    pub fn watch_guard(&self) -> Duration {
        self.watch_timeout.get().mul_f64(1.1) + Duration::from_secs(5)
    }

    /// The hard deadlines of API calls, each under its flag's name.
    pub fn deadlines(&self) -> [(&'static str, Duration); 3] {
        [
            ("--request-timeout", self.request_timeout.get()),
            ("--list-timeout", self.list_timeout.get()),
            ("--watch-timeout", self.watch_guard()),
        ]
    }
}

impl LivenessArgs {
    /// The threshold, checked against the hard deadlines of all runs of this process; zero disables.
    pub fn threshold(
        &self,
        deadlines: impl IntoIterator<Item = (&'static str, Duration)>,
    ) -> Result<Duration, ThresholdError> {
        let threshold = self.stall_threshold.get();
        validate_threshold(threshold, deadlines)?;
        Ok(threshold)
    }
}

/// A duration as a flag would be written: `1m30s`.
pub fn shown(duration: Duration) -> String {
    GoDuration::try_from(duration).map_or_else(|_| format!("{}s", duration.as_secs()), |go| go.to_string())
}

fn any(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct All {
        #[command(flatten)]
        client: ClientArgs,
        #[command(flatten)]
        health: HealthArgs,
        #[command(flatten)]
        telemetry: TelemetryArgs,
        #[command(flatten)]
        liveness: LivenessArgs,
        #[command(flatten)]
        shutdown: ShutdownArgs,
        #[command(flatten)]
        pod: PodArgs,
        #[command(flatten)]
        lease: LeaseArgs,
    }

    #[test]
    fn all_groups_fit_together_and_every_flag_has_a_variable() {
        let command = All::command();
        command.clone().debug_assert();
        for arg in command.get_arguments() {
            let env = arg.get_env().unwrap_or_else(|| panic!("--{} has no variable", arg.get_id()));
            let env = env.to_string_lossy();
            let prefixes = ["MUSTER_", "POD_", "NODE_", "OTEL_EXPORTER_OTLP_"];
            assert!(prefixes.iter().any(|prefix| env.starts_with(prefix)), "{env}");
            assert!(arg.get_help().is_some(), "--{} is not explained", arg.get_id());
        }
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let all = All::parse_from(["muster"]);
        assert_eq!(all.client.request_timeout.to_string(), "10s");
        assert_eq!(all.client.list_timeout.to_string(), "30s");
        assert_eq!(all.client.watch_timeout.to_string(), "50s");
        assert_eq!(all.health.health_addr.to_string(), "[::]:8086");
        assert_eq!(all.health.admin_addr.to_string(), "[::]:8080");
        assert_eq!(all.liveness.stall_threshold.to_string(), "15m");
        assert_eq!(all.lease.lease_duration.get(), Duration::from_secs(15));
    }

    #[test]
    fn a_threshold_below_twice_the_longest_deadline_is_refused_by_name() {
        let with = |flags: &[&str]| {
            let all = All::parse_from([&["muster"], flags].concat());
            all.liveness.threshold(all.client.deadlines())
        };
        assert_eq!(with(&["--stall-threshold", "0s"]), Ok(Duration::ZERO));
        assert_eq!(with(&["--stall-threshold", "2m"]), Ok(Duration::from_mins(2)));
        let error = with(&["--stall-threshold", "119s"]).unwrap_err().to_string();
        assert!(error.contains("1m59s") && error.contains("--watch-timeout: 1m"), "{error}");
        assert!(with(&["--stall-threshold", "2m", "--list-timeout", "61s"]).is_err());
    }
}
