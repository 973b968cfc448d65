//! The gRPC health protocol over [`Health`]. tonic-health's own service stores answers, starts `""` as SERVING, streams
//! a change that is none and keeps an open `Watch` through shutdown; its generated types and server are used, the
//! answers are ours.

use std::pin::Pin;

use futures::{Stream, stream};
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{self, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::{Health, TICK};

/// The services a probe can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// `liveness`, and the empty name: a probe without `service` must never restart a process for not being ready (C56).
    Liveness,
    /// `readiness`.
    Readiness,
}

/// `grpc.health.v1.Health`.
#[derive(Clone, Debug)]
pub struct HealthService(Health);

impl Service {
    /// The service of that name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "" | "liveness" => Some(Self::Liveness),
            "readiness" => Some(Self::Readiness),
            _ => None,
        }
    }
}

impl HealthService {
    /// A tonic service to add to a server.
    pub fn server(health: Health) -> HealthServer<Self> {
        HealthServer::new(Self(health))
    }

    fn answer(health: &Health, service: Service) -> ServingStatus {
        let serving = match service {
            Service::Liveness => health.liveness().is_ok(),
            Service::Readiness => health.is_ready(),
        };
        if serving { ServingStatus::Serving } else { ServingStatus::NotServing }
    }
}

/// One open `Watch`.
struct Watching {
    health: Health,
    service: Service,
    told: Option<ServingStatus>,
    changed: watch::Receiver<u64>,
}

impl Watching {
    /// Waits for the next answer that differs from the one told before; the last one is told before the port closes.
    async fn next(mut self) -> Option<(Result<HealthCheckResponse, Status>, Self)> {
        loop {
            // In this order: closing is seen by `answer`, so what is told last is NOT_SERVING.
            let closed = self.health.closed().is_cancelled();
            self.changed.borrow_and_update();
            let answer = HealthService::answer(&self.health, self.service);
            if self.told != Some(answer) {
                self.told = Some(answer);
                return Some((Ok(HealthCheckResponse { status: answer.into() }), self));
            }
            if closed {
                return None;
            }
            tokio::select! {
                () = self.health.closed().cancelled() => {}
                () = tokio::time::sleep(TICK) => {}
                // The sender lives in `health`, so this cannot fail before we are dropped.
                _ = self.changed.changed() => {}
            }
        }
    }
}

fn named(request: &Request<HealthCheckRequest>) -> Result<Service, Status> {
    let name = &request.get_ref().service;
    Service::named(name).ok_or_else(|| Status::not_found("known services: liveness, readiness"))
}

#[tonic::async_trait]
impl health_server::Health for HealthService {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let answer = Self::answer(&self.0, named(&request)?);
        Ok(Response::new(HealthCheckResponse { status: answer.into() }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let service = named(&request)?;
        let changed = self.0.readiness().subscribe();
        let watching = Watching { health: self.0.clone(), service, told: None, changed };
        Ok(Response::new(Box::pin(stream::unfold(watching, Watching::next))))
    }
}
