//! Probes, by the kubelet's rules: what they ask, how often, and how many answers in a row make a verdict.
//!
//! <https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/>; the counting is that of
//! `pkg/kubelet/prober/worker.go`.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::api::core::v1::Probe as Manifest;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// What a probe decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Until it succeeds the others do not run; if it fails, the container restarts.
    Startup,
    /// If it fails, the container restarts.
    Liveness,
    /// Whether the pod takes traffic.
    Readiness,
}

/// A `grpc` probe of a manifest, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) kind: Kind,
    pub(super) service: String,
    pub(super) port: u16,
    pub(super) initial_delay: Duration,
    pub(super) period: Duration,
    pub(super) timeout: Duration,
    pub(super) success_threshold: u32,
    pub(super) failure_threshold: u32,
    /// Of the probe; the pod's if absent.
    pub(super) grace: Option<Duration>,
}

/// Answers in a row, and the verdict so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counter {
    last: Option<bool>,
    run: u32,
}

impl Probe {
    /// The probes of a container. Other ways to ask than `grpc` are refused: ignoring them would prove nothing.
    pub(super) fn all(container: &Container) -> Result<Vec<Self>> {
        let manifests = [
            (Kind::Startup, &container.startup_probe),
            (Kind::Liveness, &container.liveness_probe),
            (Kind::Readiness, &container.readiness_probe),
        ];
        let present = manifests.into_iter().filter_map(|(kind, manifest)| manifest.as_ref().map(|probe| (kind, probe)));
        present.map(|(kind, manifest)| Self::of(kind, manifest)).collect()
    }

    fn of(kind: Kind, manifest: &Manifest) -> Result<Self> {
        let grpc = manifest.grpc.as_ref().context("the lab has only grpc probes")?;
        let count = |value: Option<i32>, default| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        let seconds = |value, default| Duration::from_secs(count(value, default).into());
        let grace = manifest.termination_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(Self {
            kind,
            service: grpc.service.clone().unwrap_or_default(),
            port: u16::try_from(grpc.port).context("grpc.port")?,
            initial_delay: seconds(manifest.initial_delay_seconds, 0),
            period: seconds(manifest.period_seconds, 10),
            timeout: seconds(manifest.timeout_seconds, 1),
            success_threshold: count(manifest.success_threshold, 1),
            failure_threshold: count(manifest.failure_threshold, 3),
            grace: grace.map(Duration::from_secs),
        })
    }

    /// Asks once, over a connection of its own as the kubelet does. Whatever is not SERVING in time is a failure.
    pub(super) async fn ask(&self, ip: Ipv4Addr) -> Result<(), String> {
        let asked = async {
            let endpoint = Endpoint::from_shared(format!("http://{ip}:{}", self.port)).map_err(|e| e.to_string())?;
            let channel = endpoint.connect().await.map_err(|error| chain(&error))?;
            let request = HealthCheckRequest { service: self.service.clone() };
            let answer = HealthClient::new(channel)
                .check(request)
                .await
                .map_err(|status| format!("{:?}: {}", status.code(), status.message()))?;
            match answer.into_inner().status() {
                ServingStatus::Serving => Ok(()),
                other => Err(other.as_str_name().to_owned()),
            }
        };
        tokio::time::timeout(self.timeout, asked)
            .await
            .unwrap_or_else(|_| Err(format!("no answer in {:?}", self.timeout)))
    }
}

impl Counter {
    pub(super) const NEW: Self = Self { last: None, run: 0 };

    /// Counts an answer. `Some` when enough of the same came in a row to decide; the same verdict may come again.
    pub(super) fn observe(&mut self, probe: &Probe, ok: bool) -> Option<bool> {
        self.run = if self.last == Some(ok) { self.run.saturating_add(1) } else { 1 };
        self.last = Some(ok);
        let enough = if ok { probe.success_threshold } else { probe.failure_threshold };
        (self.run >= enough).then_some(ok)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_those_of_kubernetes() {
        let container: Container = serde_json::from_value(json!({
            "name": "c",
            "livenessProbe": {"grpc": {"port": 8086, "service": "liveness"}, "terminationGracePeriodSeconds": 2},
            "readinessProbe": {"grpc": {"port": 8086}, "periodSeconds": 2, "failureThreshold": 1},
        }))
        .unwrap();
        let probes = Probe::all(&container).unwrap();
        let liveness = Probe {
            kind: Kind::Liveness,
            service: "liveness".to_owned(),
            port: 8086,
            initial_delay: Duration::ZERO,
            period: Duration::from_secs(10),
            timeout: Duration::from_secs(1),
            success_threshold: 1,
            failure_threshold: 3,
            grace: Some(Duration::from_secs(2)),
        };
        let readiness = Probe {
            kind: Kind::Readiness,
            service: String::new(),
            period: Duration::from_secs(2),
            failure_threshold: 1,
            grace: None,
            ..liveness.clone()
        };
        assert_eq!(probes, [liveness, readiness]);
    }

    #[test]
    fn other_probes_are_refused() {
        let http = json!({"name": "c", "readinessProbe": {"httpGet": {"port": 80}}});
        assert!(Probe::all(&serde_json::from_value(http).unwrap()).is_err());
    }

    #[test]
    fn a_verdict_needs_enough_answers_in_a_row() {
        let container = json!({"name": "c", "livenessProbe": {"grpc": {"port": 1}, "successThreshold": 2}});
        let probe = &Probe::all(&serde_json::from_value(container).unwrap()).unwrap()[0];
        let mut counter = Counter::NEW;
        let answers = [true, true, false, false, true, false, false, false, false];
        let verdicts = answers.map(|ok| counter.observe(probe, ok));
        let (no, yes) = (Some(false), Some(true));
        assert_eq!(verdicts, [None, yes, None, None, None, None, None, no, no]);
    }

    #[tokio::test]
    async fn only_serving_is_a_success() {
        let container = json!({"name": "c", "livenessProbe": {"grpc": {"port": 1, "service": "s"}}});
        let mut probe = Probe::all(&serde_json::from_value(container).unwrap()).unwrap().remove(0);
        assert!(probe.ask(Ipv4Addr::LOCALHOST).await.unwrap_err().contains("refused"));

        let (reporter, service) = tonic_health::server::health_reporter();
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        probe.port = listener.local_addr().unwrap().port();
        let incoming = futures::stream::unfold(listener, async |listener| {
            Some((listener.accept().await.map(|(stream, _)| stream), listener))
        });
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));

        assert!(probe.ask(Ipv4Addr::LOCALHOST).await.unwrap_err().contains("NotFound"), "an unknown service");
        reporter.set_service_status("s", tonic_health::ServingStatus::Serving).await;
        probe.ask(Ipv4Addr::LOCALHOST).await.unwrap();
        reporter.set_service_status("s", tonic_health::ServingStatus::NotServing).await;
        assert_eq!(probe.ask(Ipv4Addr::LOCALHOST).await.unwrap_err(), "NOT_SERVING");
    }
}
