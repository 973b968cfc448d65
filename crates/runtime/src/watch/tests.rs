//! Watches against the fake API server, on virtual time.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use muster_core::heartbeat::LoopId;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::*;
use crate::client::Verb;
use crate::fake::{FakeApi, Fault, plain, status};
use crate::health::Readiness;
use crate::heartbeat::Heartbeat;

const PATH: &str = "/api/v1/namespaces/a/configmaps";
const NAME: LoopId = LoopId::WATCH_EXECUTORS;
const THRESHOLD: Duration = Duration::from_mins(15);

struct Rig {
    server: FakeApi,
    clock: Clock,
    heartbeat: Heartbeat,
    readiness: Readiness,
    check: Check,
    watch: Watch<ConfigMap>,
}

fn rig(contact: Contact) -> Rig {
    let (clock, _) = Clock::stepped(Timestamp::UNIX_EPOCH);
    let heartbeat = Heartbeat::new(THRESHOLD, [NAME], clock.clone());
    let readiness = Readiness::default();
    let check = readiness.register(NAME.as_str(), "its first list is not complete");
    let server = FakeApi::new();
    let setup = Setup {
        clock: clock.clone(),
        rng: Rng::seeded(1),
        beat: heartbeat.of(NAME),
        check: check.clone(),
        contact,
        timeout: Duration::from_secs(50),
        meters: Meters::default(),
    };
    let watch = Watch::new(setup, server.client(&clock), Selection::default(), |client| Api::namespaced(client, "a"));
    Rig { server, clock, heartbeat, readiness, check, watch }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a"}})
}

impl Rig {
    fn put(&self, name: &str) {
        self.server.put(&format!("{PATH}/{name}"), config_map(name));
    }

    /// The next event, as text.
    async fn next(&mut self) -> String {
        match self.watch.next().await {
            Event::Init => "init".to_owned(),
            Event::InitDone => "done".to_owned(),
            Event::InitApply(object) => format!("list {}", object.name_any()),
            Event::Apply(object) => format!("apply {}", object.name_any()),
            Event::Delete(object) => format!("delete {}", object.name_any()),
        }
    }

    async fn expect(&mut self, events: &[&str]) {
        for event in events {
            assert_eq!(self.next().await, *event);
        }
    }

    /// Polls the watch for this long and expects no event.
    async fn quiet(&mut self, long: Duration) {
        if let Ok(event) = tokio::time::timeout(long, self.next()).await {
            panic!("an event where none was expected: {event}");
        }
    }

    /// Polls the watch for this long; lists may begin, and none may get anywhere.
    async fn in_vain(&mut self, long: Duration) {
        let end = Instant::now() + long;
        while let Ok(event) = tokio::time::timeout_at(end, self.next()).await {
            assert_eq!(event, "init");
        }
    }

    fn text(&self) -> String {
        self.readiness.lines()[1].to_string()
    }

    fn watches(&self) -> Vec<Instant> {
        self.server.seen_of(Verb::Watch).iter().map(|seen| seen.at).collect()
    }
}

fn gaps(instants: &[Instant]) -> Vec<Duration> {
    instants.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn lists_in_pages_then_streams_changes() {
    let mut rig = rig(Contact::OnceSynced);
    for number in 0..501 {
        rig.put(&format!("m{number:03}"));
    }
    assert!(!rig.check.passes());
    assert_eq!(rig.next().await, "init");
    for number in 0..501 {
        assert_eq!(rig.next().await, format!("list m{number:03}"));
    }
    rig.expect(&["done"]).await;
    assert!(rig.check.passes() && rig.watch.state().borrow().synced);
    rig.put("new");
    rig.expect(&["apply new"]).await;
    rig.server.delete(&format!("{PATH}/new"));
    rig.expect(&["delete new"]).await;
    let limits: Vec<_> = rig.server.seen_of(Verb::List).iter().map(|seen| seen.query("limit")).collect();
    assert_eq!(limits, vec![Some("500".to_owned()); 2]);
    let seen = rig.server.seen();
    assert!(seen.iter().all(|seen| seen.query("sendInitialEvents").is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_clean_end_goes_on_at_once_from_the_last_version() {
    let mut rig = rig(Contact::OnceSynced);
    rig.expect(&["init", "done"]).await;
    rig.quiet(Duration::from_mins(10)).await;
    let watches = rig.server.seen_of(Verb::Watch);
    let asked: u64 = watches[0].query("timeoutSeconds").unwrap().parse().unwrap();
    assert!((45..=55).contains(&asked), "{asked}");
    for gap in gaps(&rig.watches()) {
        assert_eq!(gap, Duration::from_secs(asked), "no pause after a clean end");
    }
    assert_eq!(rig.server.seen_of(Verb::List).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_asked_time_differs_from_process_to_process() {
    let mut asked = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mut rig = rig(Contact::OnceSynced);
        rig.watch.setup.rng = Rng::seeded(seed);
        rig.watch.reopen();
        rig.expect(&["init", "done"]).await;
        rig.quiet(Duration::from_secs(1)).await;
        let seconds: u64 = rig.server.seen_of(Verb::Watch)[0].query("timeoutSeconds").unwrap().parse().unwrap();
        asked.insert(seconds);
    }
    assert!(asked.len() > 5 && asked.iter().all(|seconds| (45..=55).contains(seconds)), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn c37_a_silently_cut_watch_is_noticed_within_a_minute() {
    let mut rig = rig(Contact::OnceSynced);
    rig.server.spoil(|seen| (seen.call.verb == Verb::Watch).then_some(Fault::Silence));
    rig.expect(&["init", "done"]).await;
    rig.quiet(Duration::from_secs(1)).await;
    rig.put("x");
    rig.server.mend();
    let cut = rig.watches()[0];
    rig.expect(&["apply x"]).await;
    assert!(cut.elapsed() <= Duration::from_mins(1), "{:?}", cut.elapsed());
}

#[tokio::test(start_paused = true)]
async fn c37_a_watch_that_is_never_answered_is_given_up_too() {
    let mut rig = rig(Contact::OnceSynced);
    rig.server.spoil(|seen| (seen.call.verb == Verb::Watch).then_some(Fault::Hang));
    rig.expect(&["init", "done"]).await;
    rig.quiet(Duration::from_mins(1)).await;
    let since = Instant::now();
    rig.put("x");
    rig.server.mend();
    rig.expect(&["apply x"]).await;
    assert!(since.elapsed() <= Duration::from_mins(1), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn c38_an_expired_version_relists_after_a_pause_and_loses_no_deletion() {
    let mut rig = rig(Contact::OnceSynced);
    rig.put("a");
    rig.put("b");
    rig.expect(&["init", "list a", "list b", "done"]).await;
    rig.quiet(Duration::from_secs(1)).await;
    rig.server.expire();
    rig.server.delete(&format!("{PATH}/b"));
    let since = Instant::now();
    rig.expect(&["init", "list a", "done"]).await;
    assert!(PAUSE.contains(&since.elapsed()), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn c38_a_410_before_the_stream_relists_too() {
    let mut rig = rig(Contact::OnceSynced);
    rig.expect(&["init", "done"]).await;
    let mut first = true;
    rig.server.spoil(move |seen| {
        let gone = seen.call.verb == Verb::Watch && std::mem::replace(&mut first, false);
        gone.then(|| Fault::Answer(status(410, "Expired", "too old resource version")))
    });
    rig.expect(&["init", "done"]).await;
}

#[tokio::test(start_paused = true)]
async fn c33_pushback_for_a_minute_is_sat_out_and_nothing_is_missed() {
    for retry_after in [None, Some("7")] {
        let mut rig = rig(Contact::OnceSynced);
        rig.put("a");
        rig.expect(&["init", "list a", "done"]).await;
        let until = Instant::now() + Duration::from_mins(1);
        rig.server.spoil(move |_| {
            (Instant::now() < until).then(|| Fault::Answer(plain(429, retry_after, "Too many requests")))
        });
        rig.server.expire();
        rig.in_vain(Duration::from_secs(59)).await;
        rig.put("b");
        while rig.next().await == "init" {}
        rig.expect(&["list b", "done"]).await;
        assert!(until.elapsed() <= Duration::from_secs(30), "{:?}", until.elapsed());

        let asked = gaps(&rig.server.seen().iter().map(|seen| seen.at).filter(|at| *at < until).collect::<Vec<_>>());
        let least = Duration::from_secs(if retry_after.is_some() { 7 } else { 0 }) + *PAUSE.start();
        assert!(asked.iter().skip(3).all(|gap| *gap >= least), "{asked:?}");
        assert!(rig.heartbeat.verdict().is_healthy());
    }
}

#[tokio::test(start_paused = true)]
async fn c41_the_api_server_may_be_away_at_start() {
    let mut rig = rig(Contact::OnceSynced);
    rig.put("a");
    rig.server.spoil(|_| Some(Fault::Hang));
    rig.in_vain(Duration::from_mins(3)).await;
    assert_eq!(
        rig.text(),
        "[-]watch-executors failed: the API server does not answer: list configmaps: no answer within 30s"
    );
    rig.server.mend();
    let since = Instant::now();
    while rig.next().await != "done" {}
    assert!(since.elapsed() <= Duration::from_mins(1), "{:?}", since.elapsed());
    assert!(rig.check.passes());
}

#[tokio::test(start_paused = true)]
async fn c50_a_missing_right_and_a_missing_crd_are_told_in_readiness() {
    let mut rig = rig(Contact::OnceSynced);
    let message = "configmaps is forbidden: User \"u\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"a\"";
    rig.server.spoil(move |_| Some(Fault::Answer(status(403, "Forbidden", message))));
    rig.in_vain(Duration::from_secs(10)).await;
    assert_eq!(
        rig.text(),
        "[-]watch-executors failed: RBAC does not allow to list configmaps in namespace a; grant it in the Role or ClusterRole"
    );
    rig.server.spoil(|_| Some(Fault::Answer(plain(404, None, "404 page not found"))));
    rig.in_vain(Duration::from_secs(10)).await;
    assert!(rig.text().ends_with("apply Muster's CRDs"), "{}", rig.text());
}

#[tokio::test(start_paused = true)]
async fn an_outage_leaves_a_synced_replica_ready_and_an_aggregator_not() {
    for (contact, ready) in [(Contact::OnceSynced, true), (Contact::Within(Duration::from_secs(10)), false)] {
        let mut rig = rig(contact);
        rig.expect(&["init", "done"]).await;
        rig.server.spoil(|_| Some(Fault::Answer(plain(503, None, "away"))));
        rig.quiet(Duration::from_mins(3)).await;
        assert_eq!(rig.check.passes(), ready, "{}", rig.text());
        assert!(rig.text().contains("away"), "{}", rig.text());
        assert!(rig.heartbeat.verdict().is_healthy(), "an outage is not a stall");

        rig.server.mend();
        rig.quiet(Duration::from_secs(10)).await;
        assert_eq!(rig.text(), "[+]watch-executors ok", "back without an event");
        assert_eq!(*rig.watch.state().borrow(), WatchState { synced: true, failing_since: None, error: None });
    }
}

#[tokio::test(start_paused = true)]
async fn one_bad_object_is_skipped() {
    let mut rig = rig(Contact::OnceSynced);
    rig.put("a");
    rig.server.put(&format!("{PATH}/b"), json!({"metadata": {"name": "b"}, "data": ["not", "a", "map"]}));
    rig.put("c");
    rig.expect(&["init", "list a", "list c", "done"]).await;
    rig.server.put(&format!("{PATH}/d"), json!({"metadata": {"name": "d"}, "data": 7}));
    rig.put("e");
    rig.expect(&["apply e"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_is_alive_for_hours_and_a_hung_consumer_is_not() {
    let mut rig = rig(Contact::OnceSynced);
    rig.expect(&["init", "done"]).await;
    for _ in 0..120 {
        rig.quiet(Duration::from_mins(1)).await;
        assert!(rig.heartbeat.verdict().is_healthy());
    }
    // The consumer does not come back for the next event.
    rig.put("x");
    rig.expect(&["apply x"]).await;
    tokio::time::sleep(THRESHOLD).await;
    assert!(rig.heartbeat.verdict().is_healthy());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let verdict = rig.heartbeat.verdict().to_string();
    assert!(verdict.contains("watch-executors has stalled"), "{verdict}");
}

#[tokio::test(start_paused = true)]
async fn next_may_be_cancelled_anywhere() {
    let rig = rig(Contact::OnceSynced);
    let (server, clock) = (rig.server.clone(), rig.clock.clone());
    let watch = Arc::new(Mutex::new(rig.watch));
    let mut names = Vec::new();
    for number in 0..200_u64 {
        if number % 20 == 0 {
            server.put(&format!("{PATH}/m{number:03}"), config_map(&format!("m{number:03}")));
        }
        if number == 90 {
            server.expire();
        }
        let step = Duration::from_millis(100 + number);
        if let Ok(Event::Apply(object) | Event::InitApply(object)) =
            tokio::time::timeout(step, async { watch.lock().await.next().await }).await
        {
            names.push(object.name_any());
        }
    }
    while let Ok(event) = tokio::time::timeout(Duration::from_secs(10), async { watch.lock().await.next().await }).await
    {
        if let Event::Apply(object) | Event::InitApply(object) = event {
            names.push(object.name_any());
        }
    }
    names.sort();
    names.dedup();
    let expected: Vec<String> = (0..200).step_by(20).map(|number| format!("m{number:03}")).collect();
    assert_eq!(names, expected);
    assert!(clock.now() > Duration::from_secs(20));
}
