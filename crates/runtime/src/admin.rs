//! The HTTP side of health, for people, load balancers and Prometheus: `/healthz`, `/readyz`, `/metrics`.

use std::collections::HashMap;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus::{Encoder as _, Registry, TextEncoder};

use crate::health::Health;
use crate::net::Bound;

/// What the pages are made from.
#[derive(Clone)]
struct Pages {
    health: Health,
    registry: Registry,
}

/// The pages of a process, ready to be served or merged.
pub fn router(health: Health, registry: Registry) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Pages { health, registry })
}

/// Serves `router` on every listener until [`Health::close`]; open connections are then dropped.
pub async fn serve(bound: Bound, router: Router, health: Health) -> std::io::Result<()> {
    let servers =
        bound.into_listeners()?.into_iter().map(|listener| axum::serve(listener, router.clone()).into_future());
    tokio::select! {
        result = futures::future::try_join_all(servers) => result.map(|_| ()),
        () = health.closed().cancelled() => Ok(()),
    }
}

async fn healthz(State(pages): State<Pages>) -> Response {
    match pages.health.liveness() {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn readyz(State(pages): State<Pages>, Query(query): Query<HashMap<String, String>>) -> Response {
    let lines = pages.health.checks();
    let ready = lines.iter().all(|line| line.passed);
    let verbose = query.contains_key("verbose");
    let mut shown: Vec<String> = lines.iter().filter(|line| verbose || !line.passed).map(ToString::to_string).collect();
    let (status, last) = if ready { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") };
    shown.push(last.to_owned());
    (status, shown.join("\n") + "\n").into_response()
}

async fn metrics(State(pages): State<Pages>) -> Response {
    let mut text = Vec::new();
    match TextEncoder::new().encode(&pages.registry.gather(), &mut text) {
        Ok(()) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot encode metrics: {error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests;
