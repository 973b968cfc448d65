//! How a replica reaches the upstreams of trust material: flags, clocks, and what of the gates others may see.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use muster_core::go_duration::GoDuration;
use muster_executor::trust::azure::{Address, AzureOptions};
use muster_executor::trust::ferrvault::FerrVaultOptions;
use muster_executor::trust::gate::{Gates, Report};
use muster_executor::trust::http::{Calls, Http, HttpError, HttpOptions};
use muster_executor::trust::time::Time;
use muster_executor::trust::{SecretReader, Surroundings, Upstreams};
use muster_runtime::clock::Clock;
use muster_runtime::metrics::{self as catalogue, Counter, Histogram, Meters};
use muster_runtime::replica::{duration, v1, wall_of};
use muster_runtime::rng::Rng;

/// Values of the `line` label.
pub const LINES: [&str; 2] = ["urgent", "refresh"];

/// Upstreams of trust material.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Upstreams")]
pub struct UpstreamArgs {
    /// How long one call to an upstream may take
    #[arg(long, env = "MUSTER_UPSTREAM_TIMEOUT", value_name = "DURATION", default_value = "10s")]
    pub upstream_timeout: GoDuration,
    /// File with certificate authorities (PEM) that upstreams are trusted by, besides the system's
    #[arg(long, env = "MUSTER_UPSTREAM_CA", value_name = "FILE")]
    pub upstream_ca: Option<PathBuf>,
    /// Proxy for upstreams with https addresses
    #[arg(long, env = "HTTPS_PROXY", value_name = "URL", hide_env_values = true)]
    pub https_proxy: Option<String>,
    /// Hosts, domains and networks that are reached without the proxy
    #[arg(long, env = "NO_PROXY", value_name = "LIST")]
    pub no_proxy: Option<String>,
    /// Directories of token files that specs may name for FerrVault
    #[arg(
        long,
        env = "MUSTER_TOKEN_DIRS",
        value_name = "DIRECTORY",
        value_delimiter = ',',
        default_value = "/var/run/secrets/ferrflow,/var/run/secrets/ferrvault,/var/run/secrets/muster"
    )]
    pub token_dirs: Vec<PathBuf>,
    /// Authority that exchanges tokens for Azure's
    #[arg(
        long,
        env = "AZURE_AUTHORITY_HOST",
        value_name = "URL",
        default_value = "https://login.microsoftonline.com/"
    )]
    pub azure_authority: Address,
    /// Tenant of the workload identity, where a spec names none
    #[arg(long, env = "AZURE_TENANT_ID", value_name = "ID", default_value = "")]
    pub azure_tenant_id: String,
    /// Client of the identity, where a spec names none
    #[arg(long, env = "AZURE_CLIENT_ID", value_name = "ID", default_value = "")]
    pub azure_client_id: String,
    /// File with the token of the workload identity; without it, the machine's managed identity is used
    #[arg(long, env = "AZURE_FEDERATED_TOKEN_FILE", value_name = "FILE")]
    pub azure_token_file: Option<PathBuf>,
    /// Endpoint of the machine's managed identity
    #[arg(long, env = "MUSTER_AZURE_MACHINE", value_name = "URL", default_value = "http://169.254.169.254/")]
    pub azure_machine: Address,
    /// Hosts besides Azure's own that are shown tokens for Key Vault
    #[arg(long, env = "MUSTER_AZURE_VAULT_HOSTS", value_name = "HOST", value_delimiter = ',')]
    pub azure_vault_hosts: Vec<String>,
}

/// Why upstreams cannot be reached at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of `--upstream-ca` cannot be read.
    #[error("--upstream-ca {path}: cannot be read")]
    Authorities {
        /// The path.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The client cannot be made.
    #[error("no HTTP client for upstreams")]
    Http(#[from] HttpError),
}

/// The process's clocks, as providers take them.
struct ProcessTime(Clock);

impl Error {
    /// Stable name for logs.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Authorities { .. } => "UpstreamAuthorities",
            Self::Http(_) => "UpstreamClient",
        }
    }
}

impl UpstreamArgs {
    /// The upstreams of a replica that speaks for `namespace`.
    pub fn upstreams(
        &self,
        namespace: &str,
        secrets: Arc<dyn SecretReader>,
        clock: Clock,
        rng: Rng,
    ) -> Result<Upstreams, Error> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|source| Error::Authorities { path: path.display().to_string(), source })
        };
        let time: Arc<dyn Time> = Arc::new(ProcessTime(clock));
        let options = HttpOptions {
            authorities: self.upstream_ca.as_ref().map(read).transpose()?,
            https_proxy: self.https_proxy.clone().filter(|proxy| !proxy.is_empty()),
            no_proxy: self.no_proxy.clone(),
        };
        let surroundings = Surroundings {
            http: Http::new(&options, Arc::clone(&time))?.with_deadline(self.upstream_timeout.get()),
            secrets,
            azure: AzureOptions {
                authority: self.azure_authority.clone(),
                tenant_id: self.azure_tenant_id.clone(),
                client_id: self.azure_client_id.clone(),
                token_file: self.azure_token_file.clone(),
                machine: self.azure_machine.clone(),
                vault_hosts: self.azure_vault_hosts.clone(),
            },
            ferrvault: FerrVaultOptions { token_dirs: self.token_dirs.clone(), namespace: namespace.to_owned() },
            time,
        };
        Ok(Upstreams::new(surroundings, rng))
    }
}

impl Time for ProcessTime {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn wall(&self) -> Timestamp {
        self.0.wall()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        let clock = self.0.clone();
        async move { clock.sleep_until(at).await }.boxed()
    }
}

/// Counts calls to upstreams.
struct CallMetrics {
    requests: Counter<2>,
    time: Histogram<1>,
}

impl Calls for CallMetrics {
    fn ended(&self, provider: &'static str, outcome: &'static str, took: Duration) {
        self.requests.one([provider, outcome]);
        self.time.took(took, [provider]);
    }
}

/// What counts calls to upstreams.
pub fn calls(meters: &Meters) -> Arc<dyn Calls> {
    Arc::new(CallMetrics {
        requests: meters.counter(&catalogue::UPSTREAM_REQUESTS),
        time: meters.histogram(&catalogue::UPSTREAM_REQUEST_TIME),
    })
}

/// Tells, at each scrape, what the gates do. No credential is named: there may be as many as there are executors.
pub fn observe(meters: &Meters, gates: &Gates) {
    let all = gates.clone();
    meters.observe(&catalogue::GATES, move |gauge| gauge.tell(all.reports().len() as f64, []));
    let all = gates.clone();
    meters.observe(&catalogue::GATE_WAITING, move |gauge| {
        let (mut urgent, mut refresh) = (0, 0);
        for Report { stats, .. } in all.reports() {
            urgent += stats.waiting_urgent;
            refresh += stats.waiting_refresh;
        }
        for (line, waiting) in LINES.into_iter().zip([urgent, refresh]) {
            gauge.tell(waiting as f64, [line]);
        }
    });
    let all = gates.clone();
    meters.observe(&catalogue::GATE_OLDEST_WAIT, move |gauge| {
        let oldest = all.reports().into_iter().filter_map(|report| report.stats.oldest_wait).max();
        gauge.tell(oldest.unwrap_or_default().as_secs_f64(), []);
    });
    let all = gates.clone();
    meters.observe(&catalogue::GATE_REFUSALS, move |counter| counter.tell(all.refused() as f64, []));
}

/// The gates, for people.
pub fn describe(gates: &Gates, clock: &Clock) -> Vec<v1::Gate> {
    let gate = |Report { credential, stats, .. }: Report| v1::Gate {
        credential,
        waiting_urgent: stats.waiting_urgent as u32,
        waiting_refresh: stats.waiting_refresh as u32,
        oldest_wait: stats.oldest_wait.map(duration),
        pace: stats.pace.unwrap_or_default(),
        refusals: stats.refused,
        hold_until: stats.hold_until.map(|at| wall_of(clock, at)),
    };
    gates.reports().into_iter().map(gate).collect()
}
