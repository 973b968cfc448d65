//! What the index makes of lists, events out of order and answers to our own writes.

use super::*;
use crate::facts::{Life, Owner, named};

fn executor(uid: &str, version: &str) -> Executor {
    Executor {
        kind: ExecutorKind::Executor,
        namespace: "".into(),
        name: "base".into(),
        uid: uid.into(),
        version: Version::new(version),
        generation: 1,
        deleting: false,
        status: None,
    }
}

fn report(name: &str, uid: &str, executor_uid: &str) -> Report {
    Report {
        name: name.into(),
        uid: uid.into(),
        version: Version::new("1"),
        executor: named("base"),
        executor_uid: executor_uid.into(),
        pod_name: "a".into(),
        pod_uid: "a-uid".into(),
        owner: Owner::ItsPod,
        outcome: None,
    }
}

fn pod(uid: &str) -> Pod {
    Pod { name: uid.into(), uid: uid.into(), life: Life::Expected, ip: None, health_port: None }
}

const EXECUTORS: Source = Source::Executors(ExecutorKind::Executor);

fn some(uids: &[&str]) -> Touched {
    Touched::Some(uids.iter().map(|uid| Arc::from(*uid)).collect())
}

fn list(index: &mut Index, source: Source, objects: Vec<Object>) -> Touched {
    index.change(source, Change::ListBegins);
    for object in objects {
        index.change(source, Change::Listed(object));
    }
    index.change(source, Change::ListEnds)
}

#[test]
fn nothing_is_known_before_all_four_lists_are_complete() {
    let mut index = Index::default();
    for source in [EXECUTORS, Source::Executors(ExecutorKind::NamespacedExecutor), Source::Reports] {
        list(&mut index, source, Vec::new());
        assert!(!index.is_synced());
    }
    index.change(Source::Pods, Change::ListBegins);
    assert!(!index.is_synced());
    index.change(Source::Pods, Change::ListEnds);
    assert!(index.is_synced());
}

#[test]
fn c38_what_a_new_list_does_not_hold_is_gone() {
    let mut index = Index::default();
    let first = vec![Object::Report(report("r1", "u1", "e1")), Object::Report(report("r2", "u2", "e2"))];
    list(&mut index, Source::Reports, first);
    let touched = list(&mut index, Source::Reports, vec![Object::Report(report("r1", "u1", "e1"))]);
    assert_eq!(touched, some(&["e2"]));
    assert_eq!((index.reports("e1").count(), index.reports("e2").count()), (1, 0));

    list(&mut index, EXECUTORS, vec![Object::Executor(executor("e1", "1")), Object::Executor(executor("e2", "1"))]);
    // A list of the other kind says nothing about these.
    assert_eq!(list(&mut index, Source::Executors(ExecutorKind::NamespacedExecutor), Vec::new()), Touched::Nothing);
    assert_eq!(list(&mut index, EXECUTORS, vec![Object::Executor(executor("e2", "1"))]), some(&["e1"]));
    assert!(index.executor("e1").is_none() && index.executor("e2").is_some());

    list(&mut index, Source::Pods, vec![Object::Pod(pod("a")), Object::Pod(pod("b"))]);
    assert_eq!(list(&mut index, Source::Pods, vec![Object::Pod(pod("b"))]), Touched::All);
    assert_eq!(list(&mut index, Source::Pods, vec![Object::Pod(pod("b"))]), Touched::Nothing);
}

#[test]
fn c05_a_report_recreated_under_its_name_for_another_executor_leaves_nothing_behind() {
    let mut index = Index::default();
    list(&mut index, Source::Reports, vec![Object::Report(report("r", "u1", "older"))]);
    list(&mut index, Source::Reports, vec![Object::Report(report("r", "u2", "newer"))]);
    assert_eq!((index.reports("older").count(), index.reports("newer").count()), (0, 1));
}

#[test]
fn c15_events_older_than_our_own_write_or_read_change_nothing() {
    let mut index = Index::default();
    index.change(EXECUTORS, Change::Applied(Object::Executor(executor("e", "5"))));
    let status = Arc::new(ExecutorStatus { succeeded: true, ..ExecutorStatus::default() });
    index.written("e", Version::new("9"), status.clone());
    for late in ["6", "9"] {
        assert_eq!(index.change(EXECUTORS, Change::Applied(Object::Executor(executor("e", late)))), Touched::Nothing);
    }
    assert_eq!(index.executor("e").unwrap().status, Some(status));
    assert_eq!(index.change(EXECUTORS, Change::Applied(Object::Executor(executor("e", "10")))), some(&["e"]));
    assert_eq!(index.read(executor("e", "12")), some(&["e"]));
    assert_eq!(index.change(EXECUTORS, Change::Applied(Object::Executor(executor("e", "11")))), Touched::Nothing);
}

#[test]
fn a_read_does_not_bring_back_what_is_gone() {
    let mut index = Index::default();
    index.change(EXECUTORS, Change::Applied(Object::Executor(executor("e", "5"))));
    index.change(EXECUTORS, Change::Deleted(Object::Executor(executor("e", "6"))));
    assert_eq!(index.read(executor("e", "5")), Touched::Nothing);
    index.written("e", Version::new("7"), Arc::default());
    assert!(index.executor("e").is_none());
}

#[test]
fn what_says_the_same_touches_nothing() {
    let mut index = Index::default();
    let mut again = report("r", "u", "e");
    assert_eq!(index.change(Source::Reports, Change::Applied(Object::Report(again.clone()))), some(&["e"]));
    again.version = Version::new("2");
    assert_eq!(index.change(Source::Reports, Change::Applied(Object::Report(again.clone()))), Touched::Nothing);
    again.owner = Owner::Foreign;
    assert_eq!(index.change(Source::Reports, Change::Applied(Object::Report(again))), some(&["e"]));
    assert_eq!(index.change(Source::Pods, Change::Applied(Object::Pod(pod("a")))), Touched::All);
    assert_eq!(index.change(Source::Pods, Change::Applied(Object::Pod(pod("a")))), Touched::Nothing);
    assert_eq!(index.change(Source::Pods, Change::Deleted(Object::Pod(pod("a")))), Touched::All);
    assert_eq!(index.change(Source::Pods, Change::Deleted(Object::Pod(pod("a")))), Touched::Nothing);
}
