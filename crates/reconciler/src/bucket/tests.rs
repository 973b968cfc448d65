//! Who holds what, whatever the order of events, and whom a change concerns.

use proptest::prelude::*;

use super::*;

fn rank(second: i64, uid: &str) -> Rank {
    Rank { created: Timestamp::from_second(second).unwrap(), uid: uid.into() }
}

fn names(uids: impl IntoIterator<Item = Uid>) -> String {
    uids.into_iter().map(|uid| uid.to_string()).collect::<Vec<_>>().join(" ")
}

fn scopes(list: &str) -> Vec<Scope> {
    list.split_whitespace().map(|scope| scope.parse().unwrap()).collect()
}

fn holder(bucket: &Claims, uid: &str, list: &str) -> Option<String> {
    bucket.conflict(&uid.into(), &scopes(list)).map(|found| format!("{} of {}", found.scope, found.holder))
}

#[test]
fn the_older_object_holds_a_scope_and_the_uid_breaks_ties() {
    let mut bucket = Claims::default();
    for rank in [rank(2, "young"), rank(1, "old-b"), rank(1, "old-a")] {
        let uid = rank.uid.clone();
        bucket.join(rank);
        bucket.claim(&uid, scopes("x"));
    }
    assert_eq!(holder(&bucket, "young", "w x").as_deref(), Some("x of old-a"));
    assert_eq!(holder(&bucket, "old-b", "x").as_deref(), Some("x of old-a"));
    assert_eq!(holder(&bucket, "old-a", "x"), None);
}

#[test]
fn a_scope_that_is_dropped_concerns_those_who_list_it_and_nobody_else() {
    let mut bucket = Claims::default();
    for (second, uid, list) in [(1, "a", "x y"), (2, "b", "x"), (3, "c", "y z"), (4, "d", "q")] {
        bucket.join(rank(second, uid));
        bucket.claim(&uid.into(), scopes(list));
    }
    assert_eq!(names(bucket.claim(&"a".into(), scopes("y"))), "b");
    assert_eq!(holder(&bucket, "b", "x"), None);
    assert_eq!(names(bucket.claim(&"a".into(), scopes("y"))), "", "nothing changed");
    assert_eq!(names(bucket.leave(&"a".into())), "c");
    assert_eq!(holder(&bucket, "c", "y z"), None);
    assert!(!bucket.is_empty());
}

#[test]
fn a_younger_object_waits_until_the_specs_of_all_older_ones_are_known() {
    let mut bucket = Claims::default();
    for (second, uid) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        bucket.join(rank(second, uid));
    }
    assert_eq!(names(bucket.claim(&"b".into(), scopes("x"))), "", "a is still unknown");
    assert!(bucket.is_open(&"b".into()) && !bucket.is_open(&"a".into()));
    assert_eq!(names(bucket.claim(&"a".into(), scopes("y"))), "b c");
    assert!(!bucket.is_open(&"b".into()) && !bucket.is_open(&"c".into()) && bucket.is_open(&"d".into()));
    assert_eq!(names(bucket.leave(&"c".into())), "d");
    assert!(!bucket.is_open(&"d".into()));
}

#[test]
fn a_blocked_object_still_holds_its_other_scopes_and_precedence_is_no_conflict() {
    let mut bucket = Claims::default();
    let all = [(1, "a", "one.io"), (2, "b", "one.io two.io"), (3, "c", "two.io *.io"), (4, "d", "one.io/app")];
    for (second, uid, list) in all {
        bucket.join(rank(second, uid));
        bucket.claim(&uid.into(), scopes(list));
    }
    let holders = all.map(|(_, uid, list)| holder(&bucket, uid, list));
    assert_eq!(holders, [None, Some("one.io of a".to_owned()), Some("two.io of b".to_owned()), None]);
}

proptest! {
    /// Whatever the order in which a replica learns of the objects, and whatever they listed before.
    #[test]
    fn order_does_not_matter_and_each_scope_has_one_holder(
        objects in proptest::collection::vec((0_i64..4, proptest::collection::vec(0_u8..6, 1..4)), 1..8),
        before in proptest::collection::vec(0_u8..6, 0..4),
        turn in 0_usize..8,
    ) {
        let list = |scopes: &[u8]| scopes.iter().map(|scope| format!("s{scope}.io").parse().unwrap()).collect::<Vec<Scope>>();
        let ranks: Vec<Rank> = objects.iter().enumerate().map(|(index, (second, _))| rank(*second, &format!("e{index}"))).collect();
        let (mut bucket, mut turned) = (Claims::default(), Claims::default());
        for index in 0..objects.len() {
            let other = (index + turn) % objects.len();
            bucket.join(ranks[index].clone());
            bucket.claim(&ranks[index].uid, list(&objects[index].1));
            turned.join(ranks[other].clone());
            turned.claim(&ranks[other].uid, list(&before));
            turned.claim(&ranks[other].uid, list(&objects[other].1));
        }
        for (own, (_, scopes)) in ranks.iter().zip(&objects) {
            let scopes = list(scopes);
            let older = |scope: &&Scope| {
                ranks.iter().zip(&objects).any(|(rank, (_, others))| rank < own && list(others).contains(scope))
            };
            let expected = scopes.iter().find(older);
            let found = bucket.conflict(&own.uid, &scopes);
            prop_assert_eq!(found.as_ref().map(|conflict| &conflict.scope), expected);
            prop_assert_eq!(found, turned.conflict(&own.uid, &scopes));
            prop_assert!(!bucket.is_open(&own.uid));
        }
    }
}
