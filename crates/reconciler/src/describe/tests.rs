//! What `Describe` says of gates, while a build really waits at one.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use muster_core::gate::Line;
use muster_core::heartbeat::LoopId;
use muster_executor::trust::gate::{Patience, Stage};
use muster_executor::trust::{SecretData, SecretError, SecretReader};
use muster_executor::{BuildError, CompileOptions, ProviderKind, build, compile};
use muster_runtime::rng::Rng;
use muster_upstream::{Behaviour, Limit, Outcome, RetryAfter, Upstream};
use serde_json::json;

use super::*;
use crate::args::Args;

const TOKEN: &str = "fft_marker-of-a-token";

struct Token;
struct Endless;

impl SecretReader for Token {
    fn read<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Option<SecretData>, SecretError>> {
        async { Ok(Some([("token", TOKEN)].into_iter().collect())) }.boxed()
    }
}

impl Patience for Endless {
    fn enter(&self, _stage: Stage) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    fn waits(&self, _why: BuildError) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

#[tokio::test]
async fn gates_appear_with_who_waits_and_never_with_a_secret() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let closed =
        Limit::Bucket { rate: 0.01, burst: 0.0, charged: false, retry_after: RetryAfter::Raw(vec!["60".into()]) };
    let upstream = Upstream::start(Behaviour { limit: closed, ..Behaviour::default() }).await.unwrap();
    let args = Args::parse_from(["muster-reconciler"]);
    let clock = Clock::with_wall(|| Timestamp::UNIX_EPOCH);
    let upstreams = args.upstreams.upstreams("muster-system", Arc::new(Token), clock.clone(), Rng::seeded(1)).unwrap();
    let provider = json!({"ferrvault": {
        "url": upstream.url(), "organization": "o", "project": "p", "vault": "v", "certs": ["ca"],
        "tokenSecretRef": {"name": "vault", "key": "token"},
    }});
    let spec = serde_json::from_value(json!({
        "scopes": ["registry.example"],
        "verifiers": [{"name": "v", "type": "notation", "parameters": {"certificates": [provider]}}],
        "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
    }));
    let options = CompileOptions { providers: [ProviderKind::FerrVault].into(), ..CompileOptions::default() };
    let compiled = compile(&spec.unwrap(), &options).unwrap();
    let (sources, _visit) = upstreams.visit("a".into(), Line::Urgent, Arc::new(Endless));
    let waits = tokio::spawn(async move { build(&compiled, &sources, Timestamp::UNIX_EPOCH).await.is_ok() });
    let is_refused = |calls: &[muster_upstream::Entry]| calls.iter().any(|call| call.outcome == Outcome::Refused);
    assert!(upstream.wait_for(Duration::from_secs(20), is_refused).await);

    let heartbeat = Heartbeat::new(Duration::from_mins(15), LoopId::RECONCILER, clock.clone());
    let shared = Shared::new(args.replica.settings());
    let description = Description::new(None, shared, heartbeat, upstreams.gates().clone(), clock);
    let answer = async || loop {
        let answer = description.answer(None);
        if answer.gates.iter().any(|gate| gate.hold_until.is_some() && gate.waiting_urgent > 0) {
            return answer;
        }
        tokio::task::yield_now().await;
    };
    let answer = tokio::time::timeout(Duration::from_secs(20), answer()).await.expect("the build waits at its gate");
    let [gate] = answer.gates.as_slice() else { panic!("{:?}", answer.gates) };
    assert!(gate.credential.contains("127.0.0.1"), "{gate:?}");
    assert_eq!((gate.waiting_urgent, gate.waiting_refresh, gate.refusals), (1, 0, 1));
    let hold = gate.hold_until.as_ref().unwrap().seconds;
    assert!((59..=300).contains(&hold), "{gate:?}");
    assert!(upstream.log().iter().any(|call| call.holds(TOKEN)), "the token was really used");
    assert!(!format!("{answer:?}").contains("marker"), "{answer:?}");
    assert!(!waits.is_finished());
    waits.abort();
}
