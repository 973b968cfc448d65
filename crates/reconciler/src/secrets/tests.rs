//! What of a Secret counts, and what its watch owes to the heartbeat.

use std::convert::Infallible;

use futures::future::pending;
use http::{Request, Response};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::client::Body;
use muster_core::heartbeat::LoopSnapshot;
use muster_executor::{CompileOptions, ProviderKind, compile};
use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::inbox::inbox;

const THRESHOLD: Duration = Duration::from_mins(15);
const WATCH: Duration = Duration::from_secs(50);

fn secret(entries: &[(&str, &str)]) -> Secret {
    let data = entries.iter().map(|(key, value)| ((*key).to_owned(), ByteString((*value).into()))).collect();
    Secret { data: Some(data), ..Secret::default() }
}

#[test]
fn c21_only_the_data_of_a_secret_is_its_state() {
    let plain = secret(&[("a", "1"), ("b", "2")]);
    let labels = Some([("touched".to_owned(), "yes".to_owned())].into());
    let touched = Secret { metadata: ObjectMeta { labels, ..ObjectMeta::default() }, ..plain.clone() };
    assert_eq!(digest(&plain), digest(&touched));
    assert_ne!(digest(&plain), digest(&secret(&[("a", "1"), ("b", "3")])));
    assert_ne!(digest(&secret(&[("a", "1b")])), digest(&secret(&[("a1", "b")])));
}

/// An API server with no Secrets, whose watches end in good order after the time they ask for.
async fn quiet(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let empty = json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "7"}, "items": []});
    let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
    if is_watch {
        sleep(WATCH).await;
    }
    let body = if is_watch { Vec::new() } else { empty.to_string().into_bytes() };
    Ok(Response::new(body.into()))
}

/// One that takes requests and never answers.
async fn hung(_request: Request<Body>) -> Result<Response<Body>, Infallible> {
    pending().await
}

/// One that refuses.
async fn forbidding(_request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "secrets \"trust\" is forbidden: no"});
    let mut response = Response::new(status.to_string().into_bytes().into());
    *response.status_mut() = http::StatusCode::FORBIDDEN;
    Ok(response)
}

struct World {
    heartbeat: Heartbeat,
    watches: Watches,
}

impl World {
    /// A watch of the Secret `trust`.
    fn of<F>(server: impl Fn(Request<Body>) -> F + Send + Sync + Clone + 'static) -> Self
    where
        F: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
    {
        let clock = Clock::system();
        let heartbeat = Heartbeat::new(THRESHOLD, LoopId::RECONCILER, clock.clone());
        let (sender, _letters) = inbox(&heartbeat);
        let client = Client::new(tower::service_fn(server), "default");
        let watches = Watches::new(client, "muster-system", WATCH, heartbeat.clone(), clock, Rng::seeded(1), sender);
        watches.uses(&"a".into(), Some(&compiled()));
        Self { heartbeat, watches }
    }

    fn beats(&self) -> LoopSnapshot {
        let loops = self.heartbeat.snapshot();
        loops.into_iter().find(|snapshot| snapshot.loop_id == LoopId::WATCH_SECRETS).unwrap()
    }
}

fn compiled() -> Compiled {
    let provider = json!({"kubernetesSecret": {"name": "trust", "certs": ["ca.crt"]}});
    let spec = serde_json::from_value(json!({
        "scopes": ["registry.example"],
        "verifiers": [{"name": "v", "type": "notation", "parameters": {"certificates": [provider]}}],
        "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
    }));
    let options = CompileOptions { providers: [ProviderKind::KubernetesSecret].into(), ..CompileOptions::default() };
    compile(&spec.unwrap(), &options).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_quiet_secret_is_a_live_watch() {
    let world = World::of(quiet);
    for _ in 0..24 {
        sleep(Duration::from_mins(5)).await;
        assert!(world.heartbeat.verdict().is_healthy(), "{}", world.heartbeat.verdict());
    }
    let turns = world.beats().completed;
    assert!((100..=200).contains(&turns), "{turns} turns in two hours");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_is_alive_and_its_next_try_is_due_later() {
    let world = World::of(forbidding);
    for _ in 0..24 {
        sleep(Duration::from_mins(5)).await;
        assert!(world.heartbeat.verdict().is_healthy(), "{}", world.heartbeat.verdict());
    }
    let beats = world.beats();
    assert!(beats.completed >= 24 && (beats.scheduled, beats.running) == (1, 0), "{beats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_hangs_fails_liveness_by_its_name_until_nobody_needs_it() {
    let world = World::of(hung);
    sleep(THRESHOLD.saturating_sub(Duration::from_secs(1))).await;
    assert!(world.heartbeat.verdict().is_healthy());
    sleep(Duration::from_secs(5)).await;
    let verdict = world.heartbeat.verdict().to_string();
    assert!(verdict.contains("loop watch-secrets has stalled"), "{verdict}");

    world.watches.uses(&"a".into(), None);
    sleep(Duration::from_secs(1)).await;
    assert!(world.heartbeat.verdict().is_healthy());
    let beats = world.beats();
    assert_eq!((beats.overdue, beats.scheduled, beats.running), (0, 0, 0));
}
