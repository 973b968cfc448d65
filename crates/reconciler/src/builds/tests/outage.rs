//! An upstream that is away for an hour: attempts fail and are backed off, and the build loop is alive throughout.

use futures::future::BoxFuture;
use muster_core::backoff::Backoff;
use muster_executor::trust::{SecretData, SecretError, SecretReader};
use muster_executor::{CompileOptions, ProviderKind, compile};
use muster_runtime::client::install_crypto;
use muster_runtime::rng::Rng;
use serde_json::json;

use super::*;
use crate::builds::{Order, Workshop};
use crate::upstreams::UpstreamArgs;

const HOUR: Duration = Duration::from_hours(1);
/// A port that nothing listens on.
const NOBODY: &str = "http://127.0.0.1:1";

/// Every Secret is there.
struct Tokens;

impl SecretReader for Tokens {
    fn read<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<SecretData>, SecretError>> {
        std::future::ready(Ok(Some([("token", "fft_token")].into_iter().collect()))).boxed()
    }
}

fn order(heartbeat: &Heartbeat, attempt: u64, at: Duration) -> Order {
    let spec = json!({
        "scopes": ["registry.example.com"],
        "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
        "verifiers": [{"name": "notation", "type": "notation", "parameters": {"certificates": [{"ferrvault": {
            "url": NOBODY, "organization": "o", "project": "p", "vault": "v", "certs": ["ca"],
            "tokenSecretRef": {"name": "vault", "key": "token"},
        }}]}}],
        "policyEnforcer": {"type": "threshold-policy", "parameters": {"policy": {
            "threshold": 1, "rules": [{"verifierName": "notation"}],
        }}},
    });
    let options = CompileOptions { providers: [ProviderKind::FerrVault].into(), ..CompileOptions::default() };
    Order {
        uid: "a".into(),
        label: "a".into(),
        kind: "Executor",
        attempt,
        line: Line::Urgent,
        compiled: Arc::new(compile(&serde_json::from_value(spec).unwrap(), &options).unwrap()),
        owed: heartbeat.of(LoopId::BUILD).due_at("executor a", at),
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_is_away_for_an_hour_is_no_stall() {
    install_crypto();
    let clock = Clock::system();
    let threshold = Duration::from_mins(15);
    let heartbeat = Heartbeat::new(threshold, LoopId::RECONCILER, clock.clone());
    let (sender, mut letters) = inbox(&heartbeat);
    let args = <UpstreamArgs as clap::Args>::augment_args(clap::Command::new("test"));
    let args = <UpstreamArgs as clap::FromArgMatches>::from_arg_matches(&args.get_matches_from(["test"])).unwrap();
    let upstreams = args.upstreams("muster-system", Arc::new(Tokens), clock.clone(), Rng::from_entropy()).unwrap();
    let workshop = Workshop::new(1, DEADLINE, upstreams, clock.clone(), Metrics::new(&Meters::default(), 1));

    let (mut backoff, mut rng) = (Backoff::<()>::default(), Rng::from_entropy());
    let (began, mut at, mut attempts) = (clock.now(), clock.now(), 0);
    while clock.now().saturating_sub(began) < HOUR {
        attempts += 1;
        let next = order(&heartbeat, attempts, at);
        clock.sleep_until(at).await;
        let _running = workshop.begin(next, sender.clone());
        loop {
            match letters.recv().await.unwrap().event {
                Event::Attempted { result: Err(failure), .. } => {
                    assert_eq!(failure.reason, Reason::Unreachable, "{failure:?}");
                    break;
                }
                Event::Parked { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(heartbeat.verdict().is_healthy(), "attempt {attempts}: {:?}", heartbeat.verdict());
        at = backoff.failed((), clock.now(), None, &mut rng);
    }
    // Five minutes at most between two attempts, and half of that at least once the backoff has grown.
    assert!((12..=40).contains(&attempts), "{attempts} attempts in an hour");
}
