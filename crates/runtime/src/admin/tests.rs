//! The pages, without a socket.

use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use muster_core::heartbeat::LoopId;
use prometheus::{IntCounter, Registry};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::*;
use crate::clock::Clock;
use crate::health::Readiness;
use crate::heartbeat::Heartbeat;
use crate::supervise::Tasks;

struct Rig {
    heartbeat: Heartbeat,
    readiness: Readiness,
    health: Health,
    registry: Registry,
}

fn rig() -> Rig {
    let heartbeat = Heartbeat::new(Duration::from_mins(15), LoopId::RECONCILER, Clock::system());
    let readiness = Readiness::default();
    let tasks = Tasks::new(CancellationToken::new(), CancellationToken::new());
    let health = Health::new(heartbeat.clone(), tasks, readiness.clone());
    Rig { heartbeat, readiness, health, registry: Registry::new() }
}

impl Rig {
    async fn get(&self, path: &str) -> (u16, String) {
        let request = axum::http::Request::get(path).body(Body::empty()).unwrap();
        let answer = router(self.health.clone(), self.registry.clone()).oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn readyz_names_what_fails_and_verbose_names_everything() {
    let rig = rig();
    let watch = rig.readiness.register("watch-executors", "its first list is not complete");
    assert_eq!(rig.get("/healthz").await, (200, "ok\n".to_owned()));
    let starting =
        "[-]process failed: starting\n[-]watch-executors failed: its first list is not complete\nnot ready\n";
    assert_eq!(rig.get("/readyz").await, (503, starting.to_owned()));

    rig.readiness.started();
    watch.pass_with("the API server refuses connections");
    assert_eq!(rig.get("/readyz").await, (200, "ok\n".to_owned()));
    let verbose =
        "[+]process ok\n[+]watch-executors ok: the API server refuses connections\n[+]reconcile-progress ok\nok\n";
    assert_eq!(rig.get("/readyz?verbose").await, (200, verbose.to_owned()));
    assert_eq!(rig.get("/readyz?verbose=1").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_stall_is_told_with_loop_and_work() {
    let rig = rig();
    rig.readiness.started();
    let _due = rig.heartbeat.of(LoopId::BUILD).due_now("executor a");
    tokio::time::sleep(Duration::from_mins(16)).await;
    let (code, body) = rig.get("/healthz").await;
    assert!(code == 503 && body.contains("loop build has stalled") && body.contains("executor a"), "{body}");
    let (code, body) = rig.get("/readyz").await;
    assert!(code == 503 && body.starts_with("[-]reconcile-progress failed: loop build"), "{body}");
}

#[tokio::test]
async fn metrics_are_the_registrys() {
    let rig = rig();
    let counter = IntCounter::new("muster_x_total", "X.").unwrap();
    rig.registry.register(Box::new(counter.clone())).unwrap();
    counter.inc_by(3);
    let (code, body) = rig.get("/metrics").await;
    assert!(code == 200 && body.contains("muster_x_total 3"), "{body}");
    assert_eq!(rig.get("/").await.0, 404);
}
