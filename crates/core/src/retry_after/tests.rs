//! C26: what servers really send as `Retry-After`, and anything else.

use proptest::prelude::*;

use super::*;

/// A Sunday, 08:49:37 GMT.
const NOW: &str = "1994-11-06T08:49:37Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn millis(value: &str) -> Option<u64> {
    longest([value.as_bytes()], now()).map(|wish| u64::try_from(wish.as_millis()).unwrap())
}

#[test]
fn c26_one_header() {
    const HOUR: u64 = 3_600_000;
    for (value, expected) in [
        ("7", Some(7_000)),
        (" 7 ", Some(7_000)),
        ("007", Some(7_000)),
        ("0", None),
        ("-5", None),
        ("-0", None),
        ("0.249", Some(249)),
        ("1.5", Some(1_500)),
        ("0.0001", Some(1)),
        ("+3", Some(3_000)),
        ("1994", Some(1_994_000)),
        ("3600", Some(HOUR)),
        ("3601", Some(HOUR)),
        ("3600.999", Some(HOUR)),
        ("86400", Some(HOUR)),
        ("18446744073709551615", Some(HOUR)),
        ("18446744073709551616", Some(HOUR)),
        ("99999999999999999999999999999999999999999999", Some(HOUR)),
        ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30_000)),
        ("Sunday, 06-Nov-94 08:50:07 GMT", Some(30_000)),
        ("Sun Nov  6 08:50:07 1994", Some(30_000)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:07 GMT", None),
        ("Sat, 06 Nov 1993 08:49:37 GMT", None),
        ("Wed, 06 Nov 2024 08:49:37 GMT", Some(HOUR)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(HOUR)),
        ("Sun, 06 Nov 1994 08:50:07 CET", None),
        ("1994-11-06T08:50:07Z", None),
        ("soon", None),
        ("", None),
        (" ", None),
        ("+", None),
        (".", None),
        ("7.", None),
        (".5", None),
        ("1e3", None),
        ("0x10", None),
        ("7s", None),
        ("7, 9", None),
        ("٧", None),
        ("inf", None),
        ("NaN", None),
    ] {
        assert_eq!(millis(value), expected, "{value:?}");
    }
    assert_eq!(longest([b"\xff7".as_slice()], now()), None);
}

#[test]
fn c26_of_two_headers_the_longest_valid_wish_wins() {
    for (values, expected) in [
        (vec!["7", "9"], Some(9)),
        (vec!["9", "7"], Some(9)),
        (vec!["soon", "7", "-9"], Some(7)),
        (vec!["7", "Sun, 06 Nov 1994 08:50:07 GMT"], Some(30)),
        (vec!["junk", ""], None),
        (vec![], None),
    ] {
        assert_eq!(longest(values.iter().copied(), now()), expected.map(Duration::from_secs), "{values:?}");
    }
}

#[test]
fn a_date_is_relative_to_now_not_to_a_clock() {
    let date = "Sun, 06 Nov 1994 08:50:07 GMT";
    let later: Timestamp = "1994-11-06T08:50:00Z".parse().unwrap();
    assert_eq!(longest([date], now()), Some(Duration::from_secs(30)));
    assert_eq!(longest([date], later), Some(Duration::from_secs(7)));
    assert_eq!(longest([date], Timestamp::MAX), None);
    assert_eq!(longest([date], Timestamp::MIN), Some(MAX));
}

proptest! {
    #[test]
    fn nothing_panics_and_every_wish_is_in_bounds(
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4),
        second in Timestamp::MIN.as_second()..=Timestamp::MAX.as_second(),
    ) {
        let now = Timestamp::from_second(second).unwrap();
        if let Some(wish) = longest(&values, now) {
            prop_assert!(!wish.is_zero() && wish <= MAX);
        }
    }

    #[test]
    fn numbers_of_any_shape_are_in_bounds_and_never_under_the_wish(value in "[+-]?[0-9]{1,25}(\\.[0-9]{1,12})?") {
        let wish = longest([value.as_str()], now());
        let asked: f64 = value.parse().unwrap();
        if asked <= 0.0 {
            prop_assert_eq!(wish, None);
        } else {
            let wish = wish.unwrap();
            prop_assert!(wish <= MAX && wish.as_secs_f64() + 1e-9 >= asked.min(3_600.0), "{} gave {:?}", value, wish);
        }
    }

    #[test]
    fn dates_give_the_distance(offset in -10_000_i64..10_000) {
        let date = jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&(now() + jiff::SignedDuration::from_secs(offset)))
            .unwrap();
        let expected = u64::try_from(offset).ok().filter(|offset| *offset > 0).map(Duration::from_secs);
        prop_assert_eq!(longest([date.as_str()], now()), expected.map(|wish| wish.min(MAX)));
    }
}
