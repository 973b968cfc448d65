//! Storms over real HTTP in scaled time: both sides run so many times as fast, the gate does not know.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{join, join_all};
use muster_core::gate::Line;
use muster_executor::trust::gate::Stage;
use muster_upstream::ferrvault::Content;
use muster_upstream::{Behaviour, Config, Entry, Fault, Limit, Outcome, Prolong, RetryAfter, Rule};
use serde_json::json;

use crate::world::{World, authority};

const TOKEN: &str = "fft_marker-of-the-user-token";

/// Real time that no storm may take.
const PATIENCE: Duration = Duration::from_secs(100);

async fn world(limit: Limit, scale: f64) -> World {
    let behaviour = Behaviour {
        limit,
        latency: 0.05,
        ferrvault: Content::default().with("p/v", "ca", authority("One")),
        ..Behaviour::default()
    };
    World::start(Config { scale, ..behaviour.into() }).await
}

/// Builds so many executors at once and returns the scaled seconds until the last was built.
async fn storm(world: &World, executors: usize) -> f64 {
    let begin = world.upstream.now();
    let provider = world.ferrvault(&["ca"]);
    let uids: Vec<String> = (0..executors).map(|n| format!("x{n}")).collect();
    let builds = join_all(uids.iter().map(|uid| world.build(uid, &provider)));
    for built in tokio::time::timeout(PATIENCE, builds).await.expect("the storm ends") {
        built.unwrap();
    }
    world.upstream.now().saturating_sub(begin).as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_29_resources_on_one_token_are_synced_with_few_calls() {
    for (burst, seconds) in [(10.0, 40.0), (1.0, 75.0)] {
        for charged in [false, true] {
            let world = world(Limit::bucket(1.0, burst, charged), 12.0).await;
            let took = storm(&world, 29).await;
            let counts = world.upstream.count(TOKEN);
            let case = format!("burst {burst}, charged {charged}: {took:.0} s, {counts:?}");
            assert!(took <= seconds, "{case}");
            assert!(counts.admitted == 29 && counts.sent <= 45, "{case}");
            world.upstream.forget_calls();
            assert!(!world.upstream.wait_for(Duration::from_millis(300), |calls| !calls.is_empty()).await, "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_no_call_is_sent_into_a_window_that_calls_prolong() {
    for prolong in [Prolong::Add, Prolong::Restart] {
        for retry_after in [RetryAfter::None, RetryAfter::Seconds] {
            let limit =
                Limit::Window { rate: 1.0, burst: 10.0, seconds: 10.0, prolong, retry_after: retry_after.clone() };
            let world = world(limit, 10.0).await;
            let took = storm(&world, 50).await;
            let case = format!("{prolong:?} {retry_after:?}: {took:.0} s, {:?}", world.upstream.count(TOKEN));
            assert!(took <= 2.5 * 40.0, "{case}");
            // A call in a window was in flight when the window began.
            let calls = world.upstream.log();
            let refusals: Vec<&Entry> = calls.iter().filter(|call| call.outcome == Outcome::Refused).collect();
            let known = |first: f64| first + 2.5;
            let mut begun = f64::NEG_INFINITY;
            for refusal in refusals {
                if refusal.at - begun < 10.0 {
                    assert!(refusal.at <= known(begun), "{case}: sent at {} into the window of {begun}", refusal.at);
                } else {
                    begun = refusal.at;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_whatever_retry_after_says_the_wait_is_never_under_a_valid_wish() {
    for (values, wish) in [
        (vec!["7"], 7.0),
        (vec!["+3"], 3.0),
        (vec!["2.249"], 2.249),
        (vec!["soon", "4"], 4.0),
        (vec!["3", "6"], 6.0),
        (vec!["-5"], 0.0),
        (vec!["0"], 0.0),
        (vec![""], 0.0),
        (vec!["soon"], 0.0),
        (vec!["Mon, 30 Nov 1998 12:00:00 GMT"], 0.0),
    ] {
        let refuse = RetryAfter::Raw(values.iter().map(|value| (*value).to_owned()).collect());
        let limit = Limit::Bucket { rate: 0.5, burst: 1.0, charged: false, retry_after: refuse };
        let world = world(limit, 20.0).await;
        storm(&world, 2).await;
        let calls = world.upstream.log();
        let refused = calls.iter().position(|call| call.outcome == Outcome::Refused).expect("the second is refused");
        let wait = calls[refused + 1].at - calls[refused].at;
        assert!(wait >= wish && wait < 60.0, "{values:?}: {wait}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_a_date_is_waited_for_and_an_absurd_number_is_an_hour() {
    let until = |rate, retry_after| Limit::Bucket { rate, burst: 1.0, charged: false, retry_after };
    let dated = world(until(0.05, RetryAfter::Date), 8.0).await;
    storm(&dated, 2).await;
    let calls = dated.upstream.log();
    assert!(calls[2].at - calls[1].at >= 19.0, "{calls:?}");

    // Half a second of real time for a token: the second call is refused on the slowest machine.
    let absurd = world(until(0.000_5, RetryAfter::Raw(vec![u64::MAX.to_string()])), 3_600.0).await;
    storm(&absurd, 2).await;
    let calls = absurd.upstream.log();
    let wait = calls[2].at - calls[1].at;
    assert!((3_600.0..4_800.0).contains(&wait), "{wait}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_provider_that_hangs_delays_nobody_else_and_is_cut_at_its_deadline() {
    let world = world(Limit::Unlimited, 1.0).await;
    world.secrets.put("other", "token", "fft_other");
    let other = world.ferrvault_with(&["ca"], &json!({"tokenSecretRef": {"name": "other", "key": "token"}}));
    let hang = Rule { token: Some(TOKEN.into()), ..Rule::on("reveal", Fault::Hang) };
    world.upstream.change(|behaviour| behaviour.rules = vec![hang]);
    let begin = tokio::time::Instant::now();
    let uids: Vec<String> = (0..20).map(|n| format!("y{n}")).collect();
    let others = async {
        let built = join_all(uids.iter().map(|uid| world.build(uid, &other))).await;
        assert!(built.iter().all(Result::is_ok));
        begin.elapsed()
    };
    let provider = world.ferrvault(&["ca"]);
    let (failure, others) = join(world.failure("x", &provider), others).await;
    assert!(others < Duration::from_secs(5), "{others:?}");
    assert!(
        begin.elapsed() >= Duration::from_secs(10) && begin.elapsed() < Duration::from_secs(12),
        "{:?}",
        begin.elapsed()
    );
    assert!(failure.starts_with("Unreachable: "), "{failure}");
    world.upstream.change(|behaviour| behaviour.rules.clear());
    world.build("x", &provider).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_after_a_restart_of_all_replicas_the_upstream_sees_no_more_than_its_pace() {
    // Three replicas with 33 executors each, whose gates know nothing; the token is already in use up to its burst.
    let world = world(Limit::bucket(5.0, 10.0, false), 5.0).await;
    let replicas = [world.another(5.0), world.another(5.0), world.another(5.0)];
    let provider = world.ferrvault(&["ca"]);
    let uids: Vec<String> = (0..33).map(|n| format!("x{n}")).collect();
    let builds = replicas.iter().flat_map(|replica| uids.iter().map(|uid| replica.build(uid, &provider)));
    for built in tokio::time::timeout(PATIENCE, join_all(builds)).await.expect("all are built") {
        built.unwrap();
    }
    let counts = world.upstream.count(TOKEN);
    assert_eq!(counts.admitted, 99, "none forgotten");
    let peaks: BTreeMap<u64, u64> = world.upstream.per_second(TOKEN);
    let later = peaks.iter().filter(|(second, _)| **second > 5).map(|(_, calls)| *calls).max().unwrap_or_default();
    assert!(later <= 3 * 5, "{peaks:?}");
    assert!(counts.refused <= 60, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_second_credential_waits_for_nobody() {
    let world = world(Limit::Unlimited, 10.0).await;
    world.secrets.put("other", "token", "fft_other");
    let other = world.ferrvault_with(&["ca"], &json!({"tokenSecretRef": {"name": "other", "key": "token"}}));
    let closed = Limit::Bucket { rate: 1.0 / 60.0, burst: 1.0, charged: false, retry_after: RetryAfter::Seconds };
    world.upstream.change(|behaviour| {
        behaviour.limits.insert(TOKEN.into(), closed);
    });
    let begin = world.upstream.now();
    let free = async {
        for n in 0..10 {
            world.build(&format!("y{n}"), &other).await.unwrap();
        }
        world.upstream.now().saturating_sub(begin).as_secs()
    };
    let (waited, free) = join(storm(&world, 2), free).await;
    assert!(waited >= 59.0 && free < 30, "{waited} {free}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refreshes_after_an_outage_do_not_delay_an_edit_beyond_its_grace() {
    let world = world(Limit::bucket(1.0, 5.0, true), 20.0).await;
    let provider = world.ferrvault(&["ca"]);
    let uids: Vec<String> = (0..300).map(|n| format!("r{n}")).collect();
    let refreshes = join_all(uids.iter().map(|uid| world.build_in(uid, &provider, Line::Refresh)));
    let edit = async {
        // The refreshes are all in line, and the gate has been refused.
        assert!(
            world.upstream.wait_for(PATIENCE, |calls| calls.iter().any(|call| call.outcome == Outcome::Refused)).await
        );
        let begin = world.upstream.now();
        world.build("edited", &provider).await.unwrap();
        world.upstream.now().saturating_sub(begin)
    };
    let waited = tokio::select! {
        waited = edit => waited,
        _ = refreshes => panic!("300 refreshes at 1/s were faster than one edit"),
    };
    assert!(waited < Duration::from_mins(2), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_that_waits_needs_no_worker_and_keeps_what_it_fetched() {
    let mut behaviour = Behaviour { limit: Limit::bucket(0.5, 1.0, false), ..Behaviour::default() };
    behaviour.azure.any_secret = Some(muster_upstream::azure::Secret::pem(authority("One")));
    let world = World::start(Config { scale: 20.0, ..behaviour.into() }).await;
    world.build("x", &world.azure(&["a", "b", "c"])).await.unwrap();
    let admitted: Vec<String> = world
        .upstream
        .log()
        .into_iter()
        .filter(|call| call.target.starts_with("/secrets") && call.outcome == Outcome::Admitted)
        .map(|call| call.target)
        .collect();
    assert_eq!(admitted, ["/secrets/a?api-version=7.4", "/secrets/b?api-version=7.4", "/secrets/c?api-version=7.4"]);
    let stages = world.patience.stages.lock().unwrap();
    assert!(
        stages.windows(2).all(|pair| match pair[0] {
            Stage::Waiting => pair[1] == Stage::Calling,
            Stage::Calling => pair[1] != Stage::Calling,
            Stage::Working => pair[1] == Stage::Waiting,
        }),
        "{stages:?}"
    );
    assert_eq!(stages.last(), Some(&Stage::Working));
    let told = world.patience.told.lock().unwrap();
    assert!(told.iter().all(|told| told.ends_with("127.0.0.1 refuses calls for now")) && !told.is_empty(), "{told:?}");
}
