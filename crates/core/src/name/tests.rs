//! Names are valid, bounded, unique and stable, for every pair of names the API server accepts.

use proptest::prelude::*;

use super::*;

const EXECUTOR_UID: &str = "8f9c2f0e-31c4-4d3a-9a53-7d1c3c1a2b4d";
const POD_UID: &str = "0b1f6a52-6f0e-4a3f-8a55-1fd0b7f3c9aa";

/// The API server's rule for object names, written down independently: labels of letters, digits and inner dashes,
/// joined by dots, at most 253 bytes.
fn is_subdomain(name: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|byte| alphanumeric(*byte))
            && bytes.last().is_some_and(|byte| alphanumeric(*byte))
            && bytes.iter().all(|byte| alphanumeric(*byte) || *byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Any name the API server accepts.
fn subdomain() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", 1..12).prop_map(|labels| {
        let mut name = labels.join(".");
        name.truncate(253);
        name.trim_end_matches(['.', '-']).to_owned()
    })
}

fn uid() -> impl Strategy<Value = String> {
    "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
}

#[test]
fn a_name_is_readable_and_stays_as_it_is() {
    // The value is part of what is stored in clusters: another one would leave every old object behind.
    assert_eq!(
        pod_status_name("akv-prod", "muster-reconciler-6c9f7d5b8-4xk2p", EXECUTOR_UID, POD_UID),
        "akv-prod-muster-reconciler-6c9f7d5b8-4xk2p-753918157b9a0445faa5"
    );
}

#[test]
fn c61_long_names_give_valid_names() {
    for length in 1..=253 {
        let name = pod_status_name(&"e".repeat(length), &"p".repeat(254 - length), EXECUTOR_UID, POD_UID);
        assert!(is_subdomain(&name) && name.len() <= POD_STATUS_NAME_MAX, "{name}");
    }
    let longest = pod_status_name(&"e".repeat(253), &"p".repeat(253), EXECUTOR_UID, POD_UID);
    assert_eq!(longest.len(), POD_STATUS_NAME_MAX);
}

#[test]
fn a_cut_that_ends_in_a_dot_or_dash_is_trimmed() {
    for border in [".", "-", "--"] {
        for shift in 0..4 {
            let before = "x".repeat(PREFIX_MAX - shift);
            let name = pod_status_name(&format!("{before}{border}y"), "p", EXECUTOR_UID, POD_UID);
            assert!(is_subdomain(&name), "{name}");
        }
    }
}

#[test]
fn c05_a_recreated_object_of_the_same_name_gets_another_name() {
    let name = |executor_uid, pod_uid| pod_status_name("e", "p", executor_uid, pod_uid);
    assert_ne!(name("1", "2"), name("3", "2"));
    assert_ne!(name("1", "2"), name("1", "3"));
    assert_ne!(name("1", "2"), name("2", "1"));
    assert_ne!(name("12", "3"), name("1", "23"));
}

proptest! {
    #[test]
    fn every_name_is_valid_bounded_and_deterministic(executor in subdomain(), pod in subdomain(), eu in uid(), pu in uid()) {
        prop_assert!(is_subdomain(&executor) && is_subdomain(&pod));
        let name = pod_status_name(&executor, &pod, &eu, &pu);
        prop_assert!(is_subdomain(&name), "{}", name);
        prop_assert!(name.len() <= POD_STATUS_NAME_MAX);
        prop_assert_eq!(&name, &pod_status_name(&executor, &pod, &eu, &pu));
    }

    #[test]
    fn equal_prefixes_never_make_equal_names(stem in "[a-z]{110}", a in uid(), b in uid(), pod in uid()) {
        prop_assume!(a != b);
        let (one, other) = (format!("{stem}-one"), format!("{stem}-other"));
        prop_assert_ne!(pod_status_name(&one, "p", &a, &pod), pod_status_name(&other, "p", &b, &pod));
        prop_assert_ne!(pod_status_name(&one, "p", &a, &pod), pod_status_name(&one, "p", &b, &pod));
        prop_assert_ne!(pod_status_name("e", &one, &pod, &a), pod_status_name("e", &other, &pod, &b));
    }
}
