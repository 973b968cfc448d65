//! Logs, metrics and traces of a process, switched on once and flushed at its end. Prometheus can always scrape; OTLP
//! exports only where a collector is named.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use opentelemetry_semantic_conventions::resource;
use prometheus::Registry;
use tracing::Subscriber;
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::{LogFormat, PodArgs, TelemetryArgs};
use crate::metrics::Meters;

/// How long the last metrics and spans may take to leave.
const FLUSH: Duration = Duration::from_secs(3);

/// Instrumentation scope of all our meters and spans.
const SCOPE: &str = "muster";

/// Who is telling: becomes the OpenTelemetry resource.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// `muster-reconciler` or `muster-aggregator`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// Telemetry could not be switched on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--log-filter` is no filter.
    #[error("--log-filter {filter:?} is not valid")]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// A subscriber is installed already.
    #[error("logging is set up already")]
    AlreadySet(#[source] tracing_subscriber::util::TryInitError),
    /// The Prometheus exporter could not be made.
    #[error("cannot set up the Prometheus exporter")]
    Prometheus(#[source] opentelemetry_sdk::error::OTelSdkError),
    /// An OTLP exporter could not be made.
    #[error("cannot set up OTLP export of {signal} to {endpoint}")]
    Otlp {
        /// `traces` or `metrics`.
        signal: &'static str,
        /// The collector.
        endpoint: String,
        /// What was wrong.
        #[source]
        source: opentelemetry_otlp::ExporterBuildError,
    },
}

/// Telemetry of this process; flush it last.
#[derive(Debug)]
pub struct Telemetry {
    registry: Registry,
    meters: SdkMeterProvider,
    tracers: Option<SdkTracerProvider>,
}

impl Error {
    /// Stable name for logs.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Filter { .. } => "LogFilter",
            Self::AlreadySet(_) => "AlreadySet",
            Self::Prometheus(_) => "Prometheus",
            Self::Otlp { .. } => "Otlp",
        }
    }
}

/// Switches everything on, logs globally. Call it inside the Tokio runtime: OTLP's connection lives there.
pub fn init(args: &TelemetryArgs, component: Component, pod: &PodArgs) -> Result<Telemetry, Error> {
    let filter = EnvFilter::try_new(&args.log_filter)
        .map_err(|source| Error::Filter { filter: args.log_filter.clone(), source })?;
    let telemetry = Telemetry::new(args, component, pod)?;
    let spans = telemetry.tracers.as_ref().map(|tracers| {
        // The exporter's own HTTP/2 client must not be traced, or each export causes the next.
        let ours = filter_fn(|meta| {
            !["h2", "hyper", "tonic", "tower", "opentelemetry"].iter().any(|own| meta.target().starts_with(own))
        });
        tracing_opentelemetry::layer().with_tracer(tracers.tracer(SCOPE)).with_filter(ours)
    });
    tracing_subscriber::registry()
        .with(filter)
        .with(lines(args.log_format))
        .with(spans)
        .try_init()
        .map_err(Error::AlreadySet)?;
    Ok(telemetry)
}

/// Log lines on standard error.
fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => layer.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

impl Telemetry {
    /// Metrics and traces without touching the global logger.
    pub fn new(args: &TelemetryArgs, component: Component, pod: &PodArgs) -> Result<Self, Error> {
        let resource = resource_of(component, pod);
        let registry = Registry::new();
        let prometheus = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .map_err(Error::Prometheus)?;
        let mut meters = SdkMeterProvider::builder().with_resource(resource.clone()).with_reader(prometheus);
        if let Some(endpoint) = args.otlp_metrics_endpoint.as_ref().or(args.otlp_endpoint.as_ref()) {
            let exporter = opentelemetry_otlp::MetricExporter::builder().with_tonic().with_endpoint(endpoint).build();
            meters = meters.with_periodic_exporter(exporter.map_err(|source| otlp("metrics", endpoint, source))?);
        }
        let mut tracers = None;
        if let Some(endpoint) = args.otlp_traces_endpoint.as_ref().or(args.otlp_endpoint.as_ref()) {
            let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
            let exporter = exporter.map_err(|source| otlp("traces", endpoint, source))?;
            tracers = Some(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build());
        }
        Ok(Self { registry, meters: meters.build(), tracers })
    }

    /// What `/metrics` shows.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Makes instruments.
    pub fn meters(&self) -> Meters {
        Meters::from(self.meters.meter(SCOPE))
    }

    /// Makes spans outside `tracing`; `None` without a collector.
    pub fn tracers(&self) -> Option<&SdkTracerProvider> {
        self.tracers.as_ref()
    }

    /// Sends what is left, for a few seconds at most: a collector that is gone must not hold up the end of the process.
    pub async fn flush(self) {
        let (done, flushed) = tokio::sync::oneshot::channel();
        // A thread and not a blocking task, for Tokio's end waits for those.
        std::thread::spawn(move || {
            let traces = self.tracers.map(|tracers| tracers.shutdown_with_timeout(FLUSH));
            let metrics = self.meters.shutdown();
            for error in traces.into_iter().chain([metrics]).filter_map(Result::err) {
                tracing::debug!(%error, "telemetry was not flushed");
            }
            // Nobody waits any more if that took too long.
            let _ = done.send(());
        });
        let _ = tokio::time::timeout(FLUSH, flushed).await;
    }
}

fn otlp(signal: &'static str, endpoint: &str, source: opentelemetry_otlp::ExporterBuildError) -> Error {
    Error::Otlp { signal, endpoint: endpoint.to_owned(), source }
}

fn resource_of(component: Component, pod: &PodArgs) -> Resource {
    let known = [
        (resource::SERVICE_VERSION, Some(component.version)),
        (resource::SERVICE_NAMESPACE, pod.pod_namespace.as_deref()),
        (resource::SERVICE_INSTANCE_ID, pod.pod_uid.as_deref()),
        (resource::K8S_NAMESPACE_NAME, pod.pod_namespace.as_deref()),
        (resource::K8S_POD_NAME, pod.pod_name.as_deref()),
        (resource::K8S_POD_UID, pod.pod_uid.as_deref()),
        (resource::K8S_NODE_NAME, pod.node_name.as_deref()),
    ];
    let known = known.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?.to_owned())));
    Resource::builder().with_service_name(component.name).with_attributes(known).build()
}

#[cfg(test)]
mod tests;
