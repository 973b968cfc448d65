//! The classes lead where they should, and their words are distinct and stable.

use std::collections::BTreeSet;

use super::*;

const ALL: [Retry; 18] = [
    Retry::Conflict,
    Retry::FieldOwned,
    Retry::AlreadyExists,
    Retry::NotFound,
    Retry::KindMissing,
    Retry::Gone,
    Retry::Throttled { retry_after: None },
    Retry::Unauthorized,
    Retry::Forbidden,
    Retry::Denied,
    Retry::QuotaExceeded,
    Retry::NamespaceTerminating,
    Retry::Invalid,
    Retry::SchemaOutdated,
    Retry::TooLarge,
    Retry::Unreachable,
    Retry::Timeout,
    Retry::ServerError,
];

#[test]
fn categories_are_distinct_words() {
    let words: BTreeSet<_> = ALL.iter().map(|class| class.category()).collect();
    assert_eq!(words.len(), ALL.len());
    assert!(words.iter().all(|word| word.chars().all(|character| character.is_ascii_alphabetic())));
}

#[test]
fn a_status_alone_gives_a_class() {
    let wish = Some(Duration::from_secs(3));
    for (status, retry_after, class) in [
        (429, None, Retry::Throttled { retry_after: None }),
        (429, wish, Retry::Throttled { retry_after: wish }),
        (503, wish, Retry::Throttled { retry_after: wish }),
        (503, None, Retry::ServerError),
        (500, wish, Retry::ServerError),
        (504, None, Retry::Timeout),
        (408, None, Retry::Timeout),
        (400, None, Retry::Invalid),
        (401, None, Retry::Unauthorized),
        (403, None, Retry::Forbidden),
        (404, None, Retry::NotFound),
        (409, None, Retry::Conflict),
        (410, None, Retry::Gone),
        (413, None, Retry::TooLarge),
        (422, None, Retry::Invalid),
        (301, None, Retry::Invalid),
        (599, None, Retry::ServerError),
        (0, None, Retry::Unreachable),
    ] {
        assert_eq!(Retry::of_status(status, retry_after), class, "{status} {retry_after:?}");
    }
}

#[test]
fn c29_a_full_quota_and_a_missing_right_are_retried() {
    for class in [Retry::QuotaExceeded, Retry::Forbidden, Retry::Denied, Retry::Unauthorized, Retry::KindMissing] {
        assert_eq!(class.step(), Step::Wait { floor: None }, "{class:?}");
    }
}

#[test]
fn what_cannot_succeed_is_not_sent_again() {
    let stopped: Vec<_> = ALL.into_iter().filter(|class| class.step() == Step::Stop).collect();
    assert_eq!(stopped, [Retry::Invalid, Retry::SchemaOutdated, Retry::TooLarge]);
}

#[test]
fn the_servers_wish_becomes_the_floor() {
    let wish = Some(Duration::from_secs(3));
    assert_eq!(Retry::Throttled { retry_after: wish }.step(), Step::Wait { floor: wish });
}

#[test]
fn c35_a_lost_answer_may_have_been_carried_out() {
    let open: Vec<_> = ALL.into_iter().filter(|class| class.may_have_acted()).collect();
    assert_eq!(open, [Retry::Unreachable, Retry::Timeout, Retry::ServerError]);
}
