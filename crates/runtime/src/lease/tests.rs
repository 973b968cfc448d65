//! Contenders in one process against the fake API server, on virtual time.

use jiff::SignedDuration;
use muster_core::heartbeat::LoopId;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::client::Verb;
use crate::clock::{Clock, SteppedWall};
use crate::fake::{FakeApi, Fault, options, plain, status};
use crate::health::Readiness;
use crate::heartbeat::Heartbeat;
use crate::metrics::Meters;
use crate::rng::Rng;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-aggregator";
const LEASE: Duration = Duration::from_secs(15);
const SECOND: Duration = Duration::from_secs(1);

/// One aggregator.
struct Contender {
    clock: Clock,
    wall: SteppedWall,
    leadership: Leadership,
    readiness: Readiness,
    heartbeat: Heartbeat,
    draining: CancellationToken,
    task: JoinHandle<()>,
}

fn contender(server: &FakeApi, name: &'static str, seed: u64) -> Contender {
    let (clock, wall) = Clock::stepped("2026-11-30T12:00:00Z".parse().unwrap());
    let heartbeat = Heartbeat::new(Duration::from_mins(15), [LoopId::LEASE], clock.clone());
    let readiness = Readiness::default();
    readiness.started();
    let setup = Setup {
        clock: clock.clone(),
        rng: Rng::seeded(seed),
        beat: heartbeat.of(LoopId::LEASE),
        check: readiness.register("lease", "no answer yet"),
        contact: Contact::OnceSynced,
        timeout: Duration::from_secs(50),
        meters: Meters::default(),
    };
    let candidate = Candidate {
        namespace: "muster-system".to_owned(),
        name: "muster-aggregator".to_owned(),
        identity: name.to_owned(),
        manager: "muster-aggregator.muster-system".to_owned(),
        timing: Timing::default(),
    };
    let watch_check = readiness.register("lease-watch", "not listed yet");
    let (driver, leadership) = Driver::new(candidate, setup, watch_check, server.client_of(name, options(&clock)));
    let draining = CancellationToken::new();
    let task = tokio::spawn(driver.run(draining.clone()));
    Contender { clock, wall, leadership, readiness, heartbeat, draining, task }
}

/// Waits until `done`, in steps of a tenth of a second, and returns how long that took.
async fn until(what: &str, most: Duration, mut done: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() <= most, "{what}: not within {most:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    begun.elapsed()
}

fn holder(server: &FakeApi) -> String {
    server
        .get(PATH)
        .map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

fn leaders(all: &[&Contender]) -> usize {
    all.iter().filter(|contender| contender.leadership.is_leader()).count()
}

/// Watches for `long` that there are never two leaders.
async fn never_two(long: Duration, all: &[&Contender]) {
    let end = Instant::now() + long;
    while Instant::now() < end {
        assert!(leaders(all) <= 1);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Watches for so long that a contender is not ready at any time.
async fn never_ready(contender: &Contender, long: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < long {
        assert!(!contender.readiness.is_ready(), "after {:?}", begun.elapsed());
        tokio::time::sleep(SECOND / 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_creates_the_lease_by_put_and_leads() {
    let server = FakeApi::new();
    let mut a = contender(&server, "a_1", 1);
    let term = tokio::time::timeout(5 * SECOND, a.leadership.lead()).await.unwrap();
    assert!(a.leadership.is_leader() && !term.lost().is_cancelled());
    let lease = server.get(PATH).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "a_1");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    for time in ["acquireTime", "renewTime"] {
        let text = lease["spec"][time].as_str().unwrap();
        assert!(text.len() == "2026-11-30T12:00:00.000000Z".len() && text.ends_with('Z'), "six decimals: {text}");
    }
    assert!(server.seen_of(Verb::Create).is_empty());
    assert_eq!(
        server.seen_of(Verb::Update)[0].query("fieldManager").as_deref(),
        Some("muster-aggregator.muster-system")
    );
    assert!(a.readiness.is_ready(), "{:?}", a.readiness.lines());
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_replaced_within_lease_plus_5_s() {
    let server = FakeApi::new();
    let a = contender(&server, "a_1", 1);
    until("a leads", 5 * SECOND, || a.leadership.is_leader()).await;
    let b = contender(&server, "b_1", 2);
    never_two(Duration::from_mins(1), &[&a, &b]).await;
    assert!(a.leadership.is_leader() && b.readiness.is_ready(), "C51: a standby is ready");
    a.task.abort();
    until("b leads", LEASE + 5 * SECOND, || b.leadership.is_leader()).await;
    assert_eq!(server.get(PATH).unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_drains_releases_and_the_next_leads_within_2_s() {
    let server = FakeApi::new();
    let a = contender(&server, "a_1", 1);
    until("a leads", 5 * SECOND, || a.leadership.is_leader()).await;
    let b = contender(&server, "b_1", 2);
    tokio::time::sleep(20 * SECOND).await;
    a.draining.cancel();
    until("b leads", 2 * SECOND, || b.leadership.is_leader()).await;
    assert!(a.task.await.is_ok());
    assert_eq!(holder(&server), "b_1");
}

#[tokio::test(start_paused = true)]
async fn a_term_is_waited_for_before_the_lease_is_given_back() {
    let server = FakeApi::new();
    let mut a = contender(&server, "a_1", 1);
    let term = a.leadership.lead().await;
    a.draining.cancel();
    tokio::time::timeout(SECOND, term.lost().cancelled()).await.unwrap();
    assert!(!a.leadership.is_leader());
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(holder(&server), "a_1", "still at work");
    drop(term);
    until("released", SECOND, || holder(&server).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn c49_one_renewal_held_for_8_s_changes_nothing_and_for_12_s_only_the_leader() {
    for (held, leads_on) in [(8 * SECOND, true), (12 * SECOND, false)] {
        let server = FakeApi::new();
        let mut a = contender(&server, "a_1", 1);
        let term = a.leadership.lead().await;
        let b = contender(&server, "b_1", 2);
        tokio::time::sleep(5 * SECOND).await;
        let mut once = true;
        server.spoil(move |seen| {
            let renewal = seen.from == "a_1" && seen.call.verb == Verb::Update;
            (renewal && std::mem::take(&mut once)).then_some(Fault::Late(held))
        });
        never_two(Duration::from_secs(40), &[&a, &b]).await;
        assert_eq!(!term.lost().is_cancelled(), leads_on, "held {held:?}");
        drop(term);
        until("somebody leads", LEASE + 5 * SECOND, || leaders(&[&a, &b]) == 1).await;
        assert!(!a.task.is_finished() && !b.task.is_finished(), "contending again in process");
        assert!(a.heartbeat.verdict().is_healthy());
    }
}

#[tokio::test(start_paused = true)]
async fn c46_leaders_cut_off_for_20_s_in_turn_can_all_win_again() {
    let server = FakeApi::new();
    let a = contender(&server, "a_1", 1);
    let b = contender(&server, "b_1", 2);
    until("somebody leads", 5 * SECOND, || leaders(&[&a, &b]) == 1).await;
    let mut won = Vec::new();
    for _ in 0..5 {
        let (cut, other) = if a.leadership.is_leader() { ("a_1", &b) } else { ("b_1", &a) };
        won.push(cut);
        server.spoil(move |seen| (seen.from == cut).then_some(Fault::Hang));
        let begun = Instant::now();
        until("the other leads", LEASE + 5 * SECOND, || {
            assert!(leaders(&[&a, &b]) <= 1);
            other.leadership.is_leader()
        })
        .await;
        never_two((20 * SECOND).saturating_sub(begun.elapsed()), &[&a, &b]).await;
        server.mend();
        never_two(5 * SECOND, &[&a, &b]).await;
        assert!(!a.task.is_finished() && !b.task.is_finished());
    }
    assert_eq!(won, ["a_1", "b_1", "a_1", "b_1", "a_1"]);
}

#[tokio::test(start_paused = true)]
async fn with_the_api_server_away_nobody_leads_and_then_somebody_does() {
    let server = FakeApi::new();
    let (a, b) = (contender(&server, "a_1", 1), contender(&server, "b_1", 2));
    until("somebody leads", 5 * SECOND, || leaders(&[&a, &b]) == 1).await;
    server.spoil(|_| Some(Fault::Answer(plain(503, None, "away"))));
    never_two(LEASE, &[&a, &b]).await;
    assert_eq!(leaders(&[&a, &b]), 0);
    never_two(Duration::from_mins(3), &[&a, &b]).await;
    assert!(!a.readiness.is_ready() && !b.readiness.is_ready());
    server.mend();
    until("somebody leads again", 10 * SECOND, || leaders(&[&a, &b]) == 1).await;
    until("both are ready", 10 * SECOND, || a.readiness.is_ready() && b.readiness.is_ready()).await;
}

#[tokio::test(start_paused = true)]
async fn c48_with_only_lease_calls_blocked_the_leader_steps_down_within_the_lease() {
    let server = FakeApi::new();
    let mut a = contender(&server, "a_1", 1);
    let term = a.leadership.lead().await;
    server.spoil(|seen| (seen.call.resource == "leases").then_some(Fault::Hang));
    let took = until("steps down", LEASE, || !a.leadership.is_leader()).await;
    assert!(term.lost().is_cancelled() || took < LEASE);
    drop(term);
    until("readiness tells", 2 * SECOND, || !a.readiness.is_ready()).await;
    // Whatever is asked now is given up before the client gives it up: each of these counts as well.
    never_ready(&a, Duration::from_mins(1)).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(a.heartbeat.verdict().is_healthy(), "an API server that hangs is not a stall");
    assert!(!a.readiness.is_ready());
    server.mend();
    until("leads again", LEASE + 5 * SECOND, || a.leadership.is_leader()).await;
    assert!(a.readiness.is_ready(), "{:?}", a.readiness.lines());
}

#[tokio::test(start_paused = true)]
async fn c50_without_rights_it_never_leads_and_says_which_right_is_missing() {
    let server = FakeApi::new();
    server.spoil(|seen| {
        let message = format!(
            "leases.coordination.k8s.io \"muster-aggregator\" is forbidden: User \"u\" cannot {} resource \"leases\" \
             in API group \"coordination.k8s.io\" in the namespace \"muster-system\"",
            seen.call.verb.as_str()
        );
        Some(Fault::Answer(status(403, "Forbidden", &message)))
    });
    let a = contender(&server, "a_1", 1);
    never_two(Duration::from_mins(2), &[&a]).await;
    assert_eq!(leaders(&[&a]), 0);
    assert!(server.seen_of(Verb::Update).is_empty());
    let lines: Vec<String> = a.readiness.lines().iter().map(ToString::to_string).collect();
    assert!(
        lines[1].starts_with("[-]lease failed: RBAC does not allow to get leases in namespace muster-system"),
        "{lines:?}"
    );
    assert!(lines[2].starts_with("[-]lease-watch failed: RBAC does not allow to list leases"), "{lines:?}");
    assert!(a.heartbeat.verdict().is_healthy());

    server.mend();
    until("leads once it may", 10 * SECOND, || a.leadership.is_leader()).await;
    assert!(a.readiness.is_ready(), "{:?}", a.readiness.lines());
}

#[tokio::test(start_paused = true)]
async fn c54_a_wall_clock_stepped_by_ten_minutes_changes_no_leader() {
    let server = FakeApi::new();
    let a = contender(&server, "a_1", 1);
    until("a leads", 5 * SECOND, || a.leadership.is_leader()).await;
    let b = contender(&server, "b_1", 2);
    for minutes in [10, -20, 10] {
        a.wall.step(SignedDuration::from_mins(minutes));
        b.wall.step(SignedDuration::from_mins(-minutes));
        never_two(Duration::from_mins(1), &[&a, &b]).await;
        assert!(a.leadership.is_leader());
    }
    assert!(a.clock.now() < Duration::from_mins(4));
}

#[tokio::test(start_paused = true)]
async fn what_others_put_on_the_lease_is_kept() {
    let server = FakeApi::new();
    let labels = json!({"helm.sh/chart": "muster"});
    server.put(
        PATH,
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "muster-aggregator", "labels": labels}, "spec": {}}),
    );
    let a = contender(&server, "a_1", 1);
    until("a leads", 5 * SECOND, || a.leadership.is_leader()).await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(server.get(PATH).unwrap()["metadata"]["labels"], labels);
}

#[tokio::test(start_paused = true)]
async fn c42_a_standby_is_alive_for_hours() {
    let server = FakeApi::new();
    let a = contender(&server, "a_1", 1);
    until("a leads", 5 * SECOND, || a.leadership.is_leader()).await;
    let b = contender(&server, "b_1", 2);
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(a.heartbeat.verdict().is_healthy() && b.heartbeat.verdict().is_healthy());
    }
    assert_eq!(b.leadership.holder().as_deref(), Some("a_1"));
    assert_eq!(leaders(&[&a, &b]), 1);
}

#[tokio::test(start_paused = true)]
async fn pushback_on_a_renewal_is_no_reason_to_step_down() {
    let server = FakeApi::new();
    let mut a = contender(&server, "a_1", 1);
    let term = a.leadership.lead().await;
    let until_then = Instant::now() + 6 * SECOND;
    server.spoil(move |_| {
        (Instant::now() < until_then).then(|| Fault::Answer(plain(429, Some("1"), "Too many requests")))
    });
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!term.lost().is_cancelled() && a.leadership.is_leader());
}

#[test]
fn the_flags_become_a_candidate_or_a_reason() {
    use clap::Parser as _;
    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        lease: crate::args::LeaseArgs,
    }
    let candidate = |flags: &[&str]| {
        let flags = Flags::parse_from([&["muster"], flags].concat());
        Candidate::new(&flags.lease, "muster-system", "pod", "uid")
    };
    let usual = candidate(&[]).unwrap();
    assert_eq!((usual.identity.as_str(), usual.timing), ("pod_uid", Timing::default()));
    let error = candidate(&["--renew-deadline", "20s"]).unwrap_err().to_string();
    assert!(error.contains("20s") && error.contains("15s"), "{error}");
}
