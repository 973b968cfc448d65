//! The API client of every Muster process. kube's own stack retries 429, 503 and 504 up to 15 times behind the caller's
//! back, waits for an answer for ever and keeps idle connections for 90 s; ours does none of these: each call is sent
//! once, has a deadline, and its outcome is counted and handed to whoever decides about the next one.

mod call;
mod pushback;
mod request;

use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

pub use call::{Answer, CallLayer, Deadlines, NoAnswer, Observer};
pub use request::{Call, Verb};

use crate::args::ClientArgs;
use crate::clock::Clock;

/// Field manager of a replica's own `ExecutorPodStatus`.
pub const RECONCILER_MANAGER: &str = "muster-reconciler";

/// A pooled connection idle longer than this is not used again: balancers drop idle connections silently, and a request
/// sent into one waits for its whole deadline.
pub const POOL_IDLE: Duration = Duration::from_secs(15);

/// TCP keepalive: first probe after, then every, and after so many unanswered probes the connection is dead. A watch
/// whose peer vanished fails after about 30 s instead of waiting for the idle guard.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);

/// Field manager of an aggregator, by namespace: a second installation must be visible as another manager.
///
/// The API server accepts 128 bytes; a namespace has at most 63.
pub fn aggregator_manager(namespace: &str) -> String {
    format!("muster-aggregator.{namespace}")
}

/// Why no client could be built. All of these are a matter of configuration, so the process says so and ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig could not be read or used.
    #[error("cannot use kubeconfig {path}")]
    Kubeconfig {
        /// The file, or `$KUBECONFIG` if none was named.
        path: String,
        /// What was wrong with it.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// Neither a kubeconfig nor a pod's service account was found.
    #[error("no way to the API server: neither a kubeconfig nor a pod's service account was found")]
    Infer(#[source] Box<kube::config::InferConfigError>),
    /// TLS or credentials of the configuration do not work.
    #[error("cannot set up the connection to {url}")]
    Stack {
        /// The API server.
        url: String,
        /// What was wrong.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Error {
    /// Stable name for metrics and Events.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Kubeconfig { .. } => "Kubeconfig",
            Self::Infer(_) => "NoClusterConfig",
            Self::Stack { .. } => "ConnectionSetup",
        }
    }
}

/// What the client needs beside the cluster's address and credentials.
#[derive(Clone)]
pub struct Options {
    /// Deadline of each kind of call.
    pub deadlines: Deadlines,
    /// Turns a `Retry-After` date into a wait.
    pub clock: Clock,
    /// How long an unused connection is kept: [`POOL_IDLE`].
    pub pool_idle: Duration,
    /// Told the outcome of each call, for metrics.
    pub observer: Option<Observer>,
}

impl Options {
    /// The deadlines of `args`, without an observer.
    pub fn new(args: &ClientArgs, clock: Clock) -> Self {
        Self::with(Deadlines::from(args), clock)
    }

    /// These deadlines, without an observer.
    pub const fn with(deadlines: Deadlines, clock: Clock) -> Self {
        Self { deadlines, clock, pool_idle: POOL_IDLE, observer: None }
    }

    /// Tells `observer` the outcome of each call.
    #[must_use]
    pub fn observed(mut self, observer: impl Fn(&Call, Answer, Duration) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }
}

/// Installs ring as the process's TLS provider. Idempotent; rustls panics at the first handshake without one.
pub fn install_crypto() {
    // An error says that one is installed already, which is what is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Reads the configuration the flags name, or infers it.
pub async fn config(args: &ClientArgs) -> Result<Config, Error> {
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = &args.kubeconfig {
        let wrap = |source| Error::Kubeconfig { path: path.display().to_string(), source: Box::new(source) };
        let kubeconfig = Kubeconfig::read_from(path).map_err(wrap)?;
        return Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(wrap);
    }
    if args.context.is_some() {
        return Config::from_kubeconfig(&options)
            .await
            .map_err(|source| Error::Kubeconfig { path: "$KUBECONFIG".to_owned(), source: Box::new(source) });
    }
    Config::infer().await.map_err(|source| Error::Infer(Box::new(source)))
}

/// Reads the configuration and builds the client; nothing is sent yet.
pub async fn connect(args: &ClientArgs, options: Options) -> Result<Client, Error> {
    build(&config(args).await?, options)
}

/// Builds the client from a configuration.
pub fn build(config: &Config, options: Options) -> Result<Client, Error> {
    install_crypto();
    let stack = |source| Error::Stack { url: config.cluster_url.to_string(), source: Box::new(source) };

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(options.deadlines.single));
    let (after, every, retries) = KEEPALIVE;
    tcp.set_keepalive(Some(after));
    tcp.set_keepalive_interval(Some(every));
    tcp.set_keepalive_retries(Some(retries));

    let https = config.rustls_https_connector_with_connector(tcp).map_err(stack)?;
    let http = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(options.pool_idle)
        .build::<_, kube::client::Body>(https);

    let service = ServiceBuilder::new()
        .layer(CallLayer::new(options))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(stack)?)
        .layer(config.extra_headers_layer().map_err(stack)?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Body of an answer: collected under the deadline, or still streaming (a watch).
pub type AnswerBody = UnsyncBoxBody<bytes::Bytes, BoxError>;

#[cfg(test)]
mod tests;
