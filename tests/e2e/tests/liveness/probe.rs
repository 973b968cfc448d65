//! Questions to one process: over gRPC as the kubelet asks them, and over HTTP as people do.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use muster_lab::kubelet::PodView;
use tokio::time::timeout;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// More patient than the shipped probes (2 s): here it is the answer that counts, and machines are shared.
const PATIENCE: Duration = Duration::from_secs(5);
/// Ports of the shipped Deployments.
pub(crate) const HEALTH: u16 = 8086;
pub(crate) const ADMIN: u16 = 8080;

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Liveness,
    Readiness,
}

impl Service {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Liveness => "liveness",
            Self::Readiness => "readiness",
        }
    }

    /// Whether it is SERVING. An error if there is no answer.
    pub(crate) async fn ask(self, pod: &PodView) -> Result<bool> {
        check(IpAddr::V4(pod.ip), HEALTH, self.name()).await
    }
}

/// Whether a service is SERVING, asked over a connection of its own.
pub(crate) async fn check(ip: IpAddr, port: u16, service: &str) -> Result<bool> {
    let asked = async {
        let mut client = HealthClient::new(connect(ip, port).await?);
        let answer = client.check(HealthCheckRequest { service: service.to_owned() }).await?.into_inner();
        serving(answer)
    };
    timeout(PATIENCE, asked).await.with_context(|| format!("{ip}: no answer about {service:?} in {PATIENCE:?}"))?
}

/// Every answer of one `Watch` as it comes.
pub(crate) async fn watch(pod: &PodView, service: &str) -> Result<Streaming<HealthCheckResponse>> {
    let mut client = HealthClient::new(connect(IpAddr::V4(pod.ip), HEALTH).await?);
    let answers = client.watch(HealthCheckRequest { service: service.to_owned() }).await?;
    Ok(answers.into_inner())
}

pub(crate) fn serving(answer: HealthCheckResponse) -> Result<bool> {
    match answer.status() {
        ServingStatus::Serving => Ok(true),
        ServingStatus::NotServing => Ok(false),
        other => bail!("{}", other.as_str_name()),
    }
}

async fn connect(ip: IpAddr, port: u16) -> Result<Channel> {
    let url = format!("http://{}", SocketAddr::new(ip, port));
    Endpoint::from_shared(url)?.connect().await.with_context(|| format!("cannot connect to {ip}"))
}
