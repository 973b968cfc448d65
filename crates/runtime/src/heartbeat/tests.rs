//! The handles; the rules behind them are tested in `muster-core`.

use muster_core::heartbeat::LoopId;

use super::*;

const THRESHOLD: Duration = Duration::from_mins(15);
const MINUTE: Duration = Duration::from_mins(1);

fn heartbeat() -> Heartbeat {
    Heartbeat::new(THRESHOLD, LoopId::RECONCILER, Clock::system())
}

fn facts(heartbeat: &Heartbeat, id: LoopId) -> LoopSnapshot {
    heartbeat.snapshot().into_iter().find(|facts| facts.loop_id == id).unwrap()
}

#[tokio::test(start_paused = true)]
async fn c43_work_due_in_an_hour_is_no_stall_and_work_due_now_is_one_in_the_end() {
    let heartbeat = heartbeat();
    let refresh = heartbeat.of(LoopId::REFRESH);
    let later = refresh.due_at("executor a", Duration::from_hours(1));
    tokio::time::sleep(Duration::from_mins(59)).await;
    assert!(heartbeat.verdict().is_healthy());

    later.reschedule(Duration::from_mins(59));
    tokio::time::sleep(THRESHOLD + MINUTE).await;
    let verdict = heartbeat.verdict().to_string();
    assert!(verdict.contains("refresh") && verdict.contains("executor a"), "{verdict}");

    later.start().await.complete();
    assert!(heartbeat.verdict().is_healthy());
    assert_eq!(facts(&heartbeat, LoopId::REFRESH).completed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_parked_at_a_gate_for_a_day_is_no_stall() {
    let heartbeat = heartbeat();
    let run = heartbeat.of(LoopId::BUILD).due_now("executor a").start().await;
    let parked = run.park();
    tokio::time::sleep(Duration::from_hours(24)).await;
    assert!(heartbeat.verdict().is_healthy());
    let run = parked.resume();
    tokio::time::sleep(THRESHOLD).await;
    assert!(heartbeat.verdict().is_healthy());
    let again = run.complete_then_due(Duration::from_hours(48));
    assert_eq!(facts(&heartbeat, LoopId::BUILD).scheduled, 1);
    again.withdraw();
    assert_eq!(facts(&heartbeat, LoopId::BUILD).scheduled, 0);
}

#[tokio::test(start_paused = true)]
async fn work_dropped_with_its_task_is_owed_by_nobody() {
    let heartbeat = heartbeat();
    let build = heartbeat.of(LoopId::BUILD);
    let task = tokio::spawn(async move {
        let _run = build.due_now("executor a").start().await;
        std::future::pending::<()>().await;
    });
    tokio::time::sleep(MINUTE).await;
    assert_eq!(facts(&heartbeat, LoopId::BUILD).running, 1);
    task.abort();
    let _ = task.await;
    tokio::time::sleep(2 * THRESHOLD).await;
    assert!(heartbeat.verdict().is_healthy());
}

#[tokio::test(start_paused = true)]
async fn work_dropped_by_a_panic_that_was_caught_is_no_stall_later() {
    let heartbeat = heartbeat();
    let build = heartbeat.of(LoopId::BUILD);
    let panicked = crate::supervise::catch(async move {
        let _run = build.due_now("executor a").start().await;
        panic!("boom");
    });
    assert!(panicked.await.map(|(): ()| ()).is_err());
    tokio::time::sleep(2 * THRESHOLD).await;
    assert!(heartbeat.verdict().is_healthy());
}

#[tokio::test(start_paused = true)]
async fn a_run_has_a_hard_deadline_and_completes_by_it() {
    let heartbeat = heartbeat();
    let fold = heartbeat.of(LoopId::BUILD);
    assert_eq!(fold.run("quick", MINUTE, async { 7 }).await, Ok(7));
    let overrun = fold.run("executor a", MINUTE, std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(overrun.to_string(), "executor a (build) was given up after 1m");
    let facts = facts(&heartbeat, LoopId::BUILD);
    assert_eq!((facts.completed, facts.running, facts.overdue), (2, 0, 0));
}

#[cfg(feature = "fault")]
#[tokio::test(start_paused = true)]
async fn a_loop_hung_on_purpose_fails_liveness_by_its_name_while_others_live() {
    let faults = crate::fault::FaultArgs { hang: vec!["build".to_owned()], delay: vec!["report=1m".parse().unwrap()] };
    let heartbeat = heartbeat().with_faults(faults.into());
    let (build, report) = (heartbeat.of(LoopId::BUILD), heartbeat.of(LoopId::REPORT));
    tokio::spawn(async move { build.run("executor a", MINUTE, async {}).await });
    let end = tokio::time::Instant::now() + THRESHOLD + MINUTE;
    while tokio::time::Instant::now() < end {
        let begun = tokio::time::Instant::now();
        report.run("executor b", MINUTE, async {}).await.unwrap();
        assert_eq!(begun.elapsed(), MINUTE);
    }
    let verdict = heartbeat.verdict().to_string();
    assert!(verdict.contains("loop build has stalled") && !verdict.contains("report"), "{verdict}");
}
