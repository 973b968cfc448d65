//! Who holds what, as tables, and that neither order nor repetition matters.

use proptest::prelude::*;

use super::*;

/// `name@second: scope scope`; the UID is the name.
fn claimant(text: &str) -> Claimant {
    let (head, scopes) = text.split_once(": ").unwrap();
    let (name, second) = head.split_once('@').unwrap();
    Claimant {
        uid: name.to_owned(),
        name: name.to_owned(),
        created: Timestamp::from_second(second.parse().unwrap()).unwrap(),
        scopes: scopes.split_whitespace().map(|scope| scope.parse().unwrap()).collect(),
    }
}

fn check(bucket: &[&str], expected: &[&str]) {
    let bucket: Vec<_> = bucket.iter().map(|text| claimant(text)).collect();
    let claims = Claims::of(&bucket);
    let found: Vec<_> = bucket.iter().map(|one| format!("{} {}", one.name, claims.verdict(one))).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_older_object_holds_a_scope() {
    check(
        &["young@2: reg.io/app", "old@1: reg.io/app"],
        &["young scope \"reg.io/app\" belongs to executor old, created earlier", "old holds all its scopes"],
    );
}

#[test]
fn of_equal_age_the_smaller_uid_is_older() {
    check(
        &["b@1: reg.io", "a@1: reg.io"],
        &["b scope \"reg.io\" belongs to executor a, created earlier", "a holds all its scopes"],
    );
}

#[test]
fn a_blocked_executor_still_holds_its_other_scopes() {
    check(
        &["a@1: one.io", "b@2: one.io two.io", "c@3: two.io three.io", "d@4: four.io"],
        &[
            "a holds all its scopes",
            "b scope \"one.io\" belongs to executor a, created earlier",
            "c scope \"two.io\" belongs to executor b, created earlier",
            "d holds all its scopes",
        ],
    );
}

#[test]
fn scopes_of_different_precedence_do_not_conflict() {
    check(
        &["a@1: reg.io", "b@2: reg.io/app", "c@3: *.io"],
        &["a holds all its scopes", "b holds all its scopes", "c holds all its scopes"],
    );
}

#[test]
fn when_the_holder_drops_a_scope_the_next_one_takes_it() {
    check(
        &["a@1: other.io", "b@2: reg.io", "c@3: reg.io"],
        &[
            "a holds all its scopes",
            "b holds all its scopes",
            "c scope \"reg.io\" belongs to executor b, created earlier",
        ],
    );
}

#[test]
fn what_cannot_be_read_claims_nothing() {
    let spec: ExecutorSpec = serde_json::from_value(serde_json::json!({
        "scopes": ["*", "reg.io", "", "reg.io/App", "*.reg.io"], "verifiers": [], "stores": [],
    }))
    .unwrap();
    let claimed: Vec<_> = claimed_scopes(&spec).iter().map(ToString::to_string).collect();
    assert_eq!(claimed, ["reg.io", "*.reg.io"]);
}

proptest! {
    #[test]
    fn order_does_not_matter_and_each_scope_has_one_holder(
        objects in proptest::collection::vec((0_i64..4, proptest::collection::vec(0_u8..6, 1..4)), 1..8),
        turn in 0_usize..8,
    ) {
        let bucket: Vec<_> = objects
            .iter()
            .enumerate()
            .map(|(index, (second, scopes))| {
                let scopes: Vec<_> = scopes.iter().map(|scope| format!("s{scope}.io")).collect();
                claimant(&format!("e{index}@{second}: {}", scopes.join(" ")))
            })
            .collect();
        let mut turned = bucket.clone();
        turned.rotate_left(turn % bucket.len());
        let (claims, others) = (Claims::of(&bucket), Claims::of(&turned));
        for one in &bucket {
            let verdict = claims.verdict(one);
            prop_assert_eq!(&verdict, &others.verdict(one));
            let holds_all = one.scopes.iter().all(|scope| claims.holder(scope) == Some(one));
            prop_assert_eq!(holds_all, !verdict.is_blocked());
            prop_assert_eq!(verdict.reason().is_some(), verdict.is_blocked());
        }
        // The oldest of all is never blocked.
        let oldest = bucket.iter().min_by_key(|one| one.seniority()).unwrap();
        prop_assert_eq!(claims.verdict(oldest), Claim::Free);
    }
}
