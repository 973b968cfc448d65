//! Waiting at gates, on paused time: what is given back, who goes first, what is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use jiff::Timestamp;
use muster_core::gate::{Answer, Line, Refusal};
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use reqwest::Url;
use tokio::time::{Instant, timeout};

use super::{Credential, Gates, Key, Patience, Permit, Stage, Visit};
use crate::build::BuildError;
use crate::trust::time::TokioTime;

/// Remembers what it was told.
#[derive(Default)]
struct Told {
    stages: Mutex<Vec<Stage>>,
    reasons: Mutex<Vec<String>>,
}

impl Patience for Told {
    fn enter(&self, stage: Stage) -> BoxFuture<'_, ()> {
        self.stages.lock().unwrap().push(stage);
        async {}.boxed()
    }

    fn waits(&self, why: BuildError) -> BoxFuture<'_, ()> {
        self.reasons.lock().unwrap().push(format!("{}: {why}", why.reason()));
        async {}.boxed()
    }
}

struct World {
    gates: Gates,
    told: Arc<Told>,
}

const SECOND: Duration = Duration::from_secs(1);

fn world() -> World {
    let time = TokioTime::starting("2026-11-30T12:00:00Z".parse::<Timestamp>().unwrap());
    World { gates: Gates::new(Arc::new(time), Xoshiro256PlusPlus::seed_from_u64(7)), told: Arc::default() }
}

impl World {
    fn visit(&self, key: &str, line: Line) -> Visit {
        self.gates.visit(Key::from(key), line, Arc::<Told>::clone(&self.told) as Arc<dyn Patience>)
    }

    fn in_flight(&self) -> usize {
        self.gates.reports().iter().map(|report| report.stats.in_flight).sum()
    }

    fn waiting(&self) -> usize {
        self.gates.reports().iter().map(|report| report.stats.waiting_urgent + report.stats.waiting_refresh).sum()
    }
}

fn credential(identity: &str) -> Credential {
    Credential::named(&Url::parse("https://vault.example:8443/path").unwrap(), identity)
}

async fn permit(visit: &Visit, credential: &Credential) -> Permit {
    visit.permit(credential, "spec.here").await
}

const THROTTLED: Answer = Answer::Throttled(Refusal::RetryAfter(Duration::from_mins(10)));

/// The gate of this credential holds for ten minutes and a bit.
async fn refused(world: &World, credential: &Credential) {
    let visit = world.visit("the first", Line::Urgent);
    permit(&visit, credential).await.answered(THROTTLED);
    visit.end(true);
}

#[tokio::test(start_paused = true)]
async fn a_permit_dropped_without_an_answer_is_given_back() {
    let (world, who) = (world(), credential("a"));
    let visit = world.visit("x", Line::Urgent);
    drop(permit(&visit, &who).await);
    assert_eq!(world.in_flight(), 0);
    // The gate is still open: a failure says nothing about the rate.
    permit(&visit, &who).now_or_never().expect("nothing is in the way").answered(Answer::Admitted);
}

#[tokio::test(start_paused = true)]
async fn a_task_dropped_while_it_waits_gives_its_wish_back_and_keeps_its_place() {
    let (world, who) = (world(), credential("a"));
    let held = permit(&world.visit("holder", Line::Urgent), &who).await;
    let (first, second) = (world.visit("first", Line::Urgent), world.visit("second", Line::Urgent));
    let mut waiting = Box::pin(permit(&first, &who));
    let mut behind = Box::pin(permit(&second, &who));
    assert!(waiting.as_mut().now_or_never().is_none() && behind.as_mut().now_or_never().is_none());
    assert_eq!(world.waiting(), 2);
    drop(waiting);
    assert_eq!(world.waiting(), 1);

    // The next build of the same resource stands where the first one stood.
    let again = world.visit("first", Line::Urgent);
    let mut waiting = Box::pin(permit(&again, &who));
    assert!(waiting.as_mut().now_or_never().is_none());
    held.answered(Answer::Admitted);
    assert!(behind.as_mut().now_or_never().is_none());
    waiting.now_or_never().expect("it is its turn").answered(Answer::Admitted);
    behind.now_or_never().expect("then the other's").answered(Answer::Admitted);
    assert_eq!((world.in_flight(), world.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_permit_handed_to_a_task_that_is_dropped_in_that_moment_comes_back() {
    let (world, who) = (world(), credential("a"));
    let held = permit(&world.visit("holder", Line::Urgent), &who).await;
    let visit = world.visit("x", Line::Urgent);
    let mut waiting = Box::pin(permit(&visit, &who));
    assert!(waiting.as_mut().now_or_never().is_none());
    held.answered(Answer::Admitted);
    assert_eq!(world.in_flight(), 1, "handed out, not yet taken");
    drop(waiting);
    assert_eq!(world.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_an_hour_ends_by_itself_with_one_probe_and_is_told_once() {
    let (world, who) = (world(), credential("a"));
    refused(&world, &who).await;
    let begin = Instant::now();
    let visits: Vec<Visit> = (0..50).map(|n| world.visit(&format!("x{n}"), Line::Urgent)).collect();
    let permits = join_all(visits.iter().map(|visit| async {
        permit(visit, &who).await.answered(Answer::Admitted);
        begin.elapsed()
    }));
    let sent = timeout(Duration::from_hours(2), permits).await.expect("it ends");
    assert!(sent.iter().all(|at| *at >= Duration::from_mins(10)), "{sent:?}");
    let told = world.told.reasons.lock().unwrap();
    assert_eq!(told.len(), 50, "once each");
    assert!(told.iter().all(|told| told == "RateLimited: spec.here: vault.example refuses calls for now"), "{told:?}");
    assert_eq!(world.told.stages.lock().unwrap().first(), Some(&Stage::Waiting));
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_not_told_unless_the_upstream_refuses_or_fails() {
    let (world, who) = (world(), credential("a"));
    let holder = world.visit("holder", Line::Urgent);
    let held = permit(&holder, &who).await;
    let visit = world.visit("x", Line::Urgent);
    let mut waiting = Box::pin(permit(&visit, &who));
    assert!(timeout(30 * SECOND, waiting.as_mut()).await.is_err());
    assert!(world.told.reasons.lock().unwrap().is_empty());
    // The call in front fails, and so does the next: nobody has to wait for its own failure to know.
    let third = world.visit("third", Line::Urgent);
    let mut other = Box::pin(permit(&third, &who));
    assert!(other.as_mut().now_or_never().is_none());
    held.answered(Answer::Failed);
    let taken = waiting.now_or_never().expect("it is its turn");
    assert!(timeout(5 * SECOND, other.as_mut()).await.is_err());
    assert_eq!(*world.told.reasons.lock().unwrap(), ["Unreachable: spec.here: vault.example does not answer"]);
    drop(taken);
}

#[tokio::test(start_paused = true)]
async fn an_edit_goes_before_refreshes_and_turns_its_own_refresh_into_an_edit() {
    let (world, who) = (world(), credential("a"));
    let held = permit(&world.visit("holder", Line::Urgent), &who).await;
    let order = Mutex::new(Vec::new());
    let send = async |key: &str, line| {
        let visit = world.visit(key, line);
        let permit = permit(&visit, &who).await;
        order.lock().unwrap().push(key.to_owned());
        permit.answered(Answer::Admitted);
        visit.end(true);
    };
    let mut refreshes: Vec<_> = ["r1", "r2", "r3"].into_iter().map(|key| Box::pin(send(key, Line::Refresh))).collect();
    for refresh in &mut refreshes {
        assert!(refresh.as_mut().now_or_never().is_none());
    }
    let mut edit = Box::pin(send("edit", Line::Urgent));
    assert!(edit.as_mut().now_or_never().is_none());
    // The executor that waits third in line for its refresh is edited: its task is dropped, its place is not.
    drop(refreshes.pop());
    let edited = send("r3", Line::Urgent);
    let release = async { held.answered(Answer::Admitted) };
    futures::join!(edited, edit, join_all(refreshes), release);
    assert_eq!(*order.lock().unwrap(), ["r3", "edit", "r1", "r2"]);
}

#[tokio::test(start_paused = true)]
async fn c31_two_objects_of_one_credential_share_a_gate_and_of_two_do_not() {
    let world = world();
    refused(&world, &credential("a")).await;
    let begin = Instant::now();
    let (same, other) = (world.visit("same", Line::Urgent), world.visit("other", Line::Urgent));
    let (here, there) = (credential("a"), credential("b"));
    let same = async {
        permit(&same, &here).await.answered(Answer::Admitted);
        begin.elapsed()
    };
    let other = async {
        permit(&other, &there).await.answered(Answer::Admitted);
        begin.elapsed()
    };
    let (same, other) = timeout(Duration::from_hours(1), futures::future::join(same, other)).await.unwrap();
    assert!(same >= Duration::from_mins(10) && other.is_zero(), "{same:?} {other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_gate_ends_with_its_last_user_and_not_before() {
    let (world, who) = (world(), credential("a"));
    let (a, b) = (world.visit("a", Line::Urgent), world.visit("b", Line::Urgent));
    permit(&a, &who).await.answered(THROTTLED);
    a.end(true);
    assert_eq!(world.gates.reports().len(), 1, "a user that is done still uses its credential");
    assert!(permit(&b, &who).now_or_never().is_none());
    drop(b);
    world.gates.forget("a");
    assert_eq!(world.gates.reports().len(), 1, "b's build was dropped, b is still there");
    world.gates.forget("b");
    assert!(world.gates.reports().is_empty());
    // What was learned is gone with it.
    let again = world.visit("a", Line::Urgent);
    permit(&again, &who).now_or_never().expect("a new gate is open").answered(Answer::Admitted);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_succeeds_with_other_credentials_no_longer_uses_the_old_ones() {
    let world = world();
    let visit = world.visit("x", Line::Urgent);
    permit(&visit, &credential("old")).await.answered(Answer::Admitted);
    visit.end(true);
    let failing = world.visit("x", Line::Urgent);
    permit(&failing, &credential("new")).await.answered(Answer::Admitted);
    failing.end(false);
    assert_eq!(world.gates.reports().len(), 2, "it failed, perhaps before it came to the old one");
    let visit = world.visit("x", Line::Urgent);
    permit(&visit, &credential("new")).await.answered(Answer::Admitted);
    visit.end(true);
    let left: Vec<String> = world.gates.reports().into_iter().map(|report| report.credential).collect();
    assert_eq!(left, ["https://vault.example:8443, new"]);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_forgotten_while_it_waits_makes_room_for_the_next() {
    let (world, who) = (world(), credential("a"));
    refused(&world, &who).await;
    let (gone, next) = (world.visit("gone", Line::Urgent), world.visit("next", Line::Urgent));
    let (mut waiting, mut behind) = (Box::pin(permit(&gone, &who)), Box::pin(permit(&next, &who)));
    assert!(waiting.as_mut().now_or_never().is_none() && behind.as_mut().now_or_never().is_none());
    drop(waiting);
    world.gates.forget("gone");
    timeout(Duration::from_hours(1), behind).await.expect("its turn comes").answered(Answer::Admitted);
    assert_eq!(world.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_waiting_no_timer() {
    let (world, who) = (world(), credential("a"));
    refused(&world, &who).await;
    let visit = world.visit("x", Line::Urgent);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut waiting = Box::pin(permit(&visit, &who));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(tasks(), 1);
    drop(waiting);
    tokio::task::yield_now().await;
    assert_eq!(tasks(), 0);
}

#[test]
fn a_credential_is_told_apart_by_upstream_and_identity_and_shows_no_token() {
    let at = |address: &str| Url::parse(address).unwrap();
    let token = |address, token, place| Credential::token(&at(address), token, place);
    let one = token("https://v.example/a", "fft_marker", "key \"t\" of Secret \"s\"");
    assert_eq!(one, token("https://v.example/b", "fft_marker", "key \"t\" of Secret \"another\""));
    assert_ne!(one, token("https://v.example/a", "fft_other", "key \"t\" of Secret \"s\""));
    assert_ne!(one, token("https://w.example/a", "fft_marker", "key \"t\" of Secret \"s\""));
    assert_eq!(one.label(), "https://v.example, key \"t\" of Secret \"s\"");
    assert!(!format!("{one:?}").contains("marker"));
}
