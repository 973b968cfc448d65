//! What counts as what.

use std::time::Duration;

use crate::gate::{Answer, Refusal};

fn check(status: u16, retry_after: impl Into<Option<u64>>, says_throttled: bool, expected: Answer) {
    let retry_after = retry_after.into().map(Duration::from_secs);
    let answer = Answer::classify(status, retry_after, says_throttled);
    assert_eq!(answer, expected, "{status}, Retry-After {retry_after:?}, says throttled: {says_throttled}");
}

#[test]
fn what_the_upstream_let_in_is_admitted() {
    for status in [200, 204, 301, 304, 400, 401, 403, 404, 409, 422] {
        check(status, None, false, Answer::Admitted);
        check(status, 5, false, Answer::Admitted);
    }
}

#[test]
fn refusals_of_the_rate_are_throttled() {
    let named = |at| Answer::Throttled(Refusal::RetryAfter(Duration::from_secs(at)));
    check(429, None, false, Answer::Throttled(Refusal::Plain));
    check(429, 7, false, named(7));
    check(503, 7, false, named(7));
    check(403, 7, true, named(7));
}

#[test]
fn c19_a_403_that_says_throttled_and_names_no_time_prolongs() {
    check(403, None, true, Answer::Throttled(Refusal::Prolonging));
    check(403, 0, true, Answer::Throttled(Refusal::Prolonging));
}

#[test]
fn c26_zero_is_no_time_and_an_hour_is_the_most() {
    check(429, 0, false, Answer::Throttled(Refusal::Plain));
    check(503, 0, false, Answer::Failed);
    let hour = Answer::Throttled(Refusal::RetryAfter(Duration::from_hours(1)));
    check(429, 3600, false, hour);
    check(429, 3601, false, hour);
    check(429, u64::MAX, false, hour);
}

#[test]
fn what_says_nothing_of_the_rate_has_failed() {
    for status in [500, 502, 503, 504, 0, 101, 600] {
        check(status, None, true, Answer::Failed);
    }
    check(500, 5, true, Answer::Failed);
}
