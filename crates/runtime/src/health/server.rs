//! The plain gRPC port: health, reflection (both versions that grpcurl speaks) and whatever the process adds. Always
//! without TLS, so that the kubelet's probe works whatever other ports do (C59).

use std::time::Duration;

use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::{Health, HealthService};
use crate::net::Bound;

/// How long open calls may take to end once the port is closing. Watches end by themselves at once.
const CLOSING: Duration = Duration::from_secs(1);

/// A gRPC server ended or could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The descriptors for reflection do not fit together.
    #[error("cannot set up gRPC reflection")]
    Reflection(#[source] tonic_reflection::server::Error),
    /// The sockets cannot be served by this runtime.
    #[error("cannot serve the gRPC health port")]
    Listen(#[source] std::io::Error),
    /// The server broke.
    #[error("the gRPC health server broke")]
    Transport(#[source] tonic::transport::Error),
}

impl ServeError {
    /// Stable name for logs.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Reflection(_) => "Reflection",
            Self::Listen(_) => "Listen",
            Self::Transport(_) => "Transport",
        }
    }
}

/// Health and reflection; add further services to the result. `descriptors` are their encoded file descriptor sets.
pub fn routes(health: Health, descriptors: &[&[u8]]) -> Result<Routes, ServeError> {
    let reflection = || {
        let health = tonic_health::pb::FILE_DESCRIPTOR_SET;
        descriptors.iter().fold(
            tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(health),
            |builder, descriptor| builder.register_encoded_file_descriptor_set(descriptor),
        )
    };
    let v1 = reflection().build_v1().map_err(ServeError::Reflection)?;
    let v1alpha = reflection().build_v1alpha().map_err(ServeError::Reflection)?;
    Ok(Routes::new(HealthService::server(health)).add_service(v1).add_service(v1alpha))
}

/// Answers on every listener until [`Health::close`].
pub async fn serve(bound: Bound, routes: Routes, health: Health) -> Result<(), ServeError> {
    let servers = bound.into_listeners().map_err(ServeError::Listen)?.into_iter().map(|listener| {
        let closed = health.closed().clone();
        // Keepalive finds peers that vanished, so that their watches do not pile up.
        Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(20)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .add_routes(routes.clone())
            .serve_with_incoming_shutdown(
                TcpIncoming::from(listener).with_nodelay(Some(true)),
                closed.cancelled_owned(),
            )
    });
    let all = futures::future::try_join_all(servers);
    tokio::pin!(all);
    tokio::select! {
        result = &mut all => return result.map(|_| ()).map_err(ServeError::Transport),
        () = health.closed().cancelled() => {}
    }
    match tokio::time::timeout(CLOSING, all).await {
        Ok(result) => result.map(|_| ()).map_err(ServeError::Transport),
        // A call that will not end must not hold up the process.
        Err(_elapsed) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
