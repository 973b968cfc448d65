//! What Go's `time.ParseDuration` accepts we accept, with the same value; what is refused says why.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Duration, ParseError> {
    text.parse::<GoDuration>().map(GoDuration::get)
}

#[test]
fn what_go_reads_is_read() {
    for (text, nanos) in [
        ("0", 0),
        ("0s", 0),
        ("+5s", 5_000_000_000),
        ("1h", 3_600_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("1h0m0s", 3_600_000_000_000),
        ("250ms", 250_000_000),
        ("1.5h", 5_400_000_000_000),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("0.3333333333333333333h", 1_200_000_000_000),
        ("3us", 3_000),
        ("3\u{b5}s", 3_000),
        ("3\u{3bc}s", 3_000),
        ("1m1m", 120_000_000_000),
        ("0.1ns", 0),
        ("9223372036854775807ns", u64::try_from(i64::MAX).unwrap()),
    ] {
        let read = parse(text).unwrap();
        // Go computes fractions in floating point; we stay within a nanosecond of it.
        assert!(read.abs_diff(Duration::from_nanos(nanos)) <= Duration::from_nanos(1), "{text}: {read:?}");
    }
}

#[test]
fn what_is_refused_says_why() {
    for (text, message) in [
        ("", "a duration is empty; write it like 1h, 1h30m, 250ms or 0s"),
        ("-5s", r#"duration "-5s" is negative"#),
        ("5", r#"duration "5" lacks a unit after "5"; use h, m, s, ms, us or ns"#),
        ("1h30", r#"duration "1h30" lacks a unit after "30"; use h, m, s, ms, us or ns"#),
        ("1d", r#"duration "1d" has the unknown unit "d"; use h, m, s, ms, us or ns"#),
        ("1 h", r#"duration "1 h" has the unknown unit " h"; use h, m, s, ms, us or ns"#),
        ("1H", r#"duration "1H" has the unknown unit "H"; use h, m, s, ms, us or ns"#),
        ("soon", r#"duration "soon" is not a list of numbers with units, like 1h30m"#),
        ("+", r#"duration "+" is not a list of numbers with units, like 1h30m"#),
        (".s", r#"duration ".s" is not a list of numbers with units, like 1h30m"#),
        ("1.2.3s", r#"duration "1.2.3s" is not a list of numbers with units, like 1h30m"#),
        ("2562048h", r#"duration "2562048h" is longer than 2562047h (292 years)"#),
        ("9223372036854775808ns", r#"duration "9223372036854775808ns" is longer than 2562047h (292 years)"#),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), message);
    }
    let long = "9".repeat(100_000) + "h";
    let error = parse(&long).unwrap_err();
    assert_eq!(error.category(), "TooLong");
    assert!(error.to_string().len() < 100);
}

#[test]
fn the_shortest_form_is_printed() {
    for text in ["1h", "1h30m", "0s", "250ms", "1.5s", "1m0.25s", "1h0.000000001s", "2us", "1.5us", "999ns", "90h1s"] {
        let shown = text.parse::<GoDuration>().unwrap().to_string();
        assert_eq!(shown, text);
    }
    assert_eq!("1h0m0s".parse::<GoDuration>().unwrap().to_string(), "1h");
    assert_eq!("90m".parse::<GoDuration>().unwrap().to_string(), "1h30m");
}

#[test]
fn more_than_go_can_hold_is_no_go_duration() {
    assert_eq!(GoDuration::try_from(Duration::MAX).unwrap_err().category(), "TooLong");
    assert!(GoDuration::try_from(Duration::from_nanos(i64::MAX.unsigned_abs())).is_ok());
    assert!(GoDuration::default().is_zero());
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(nanos in prop_oneof![0..=i64::MAX.unsigned_abs(), 0..10_000_000_000_u64]) {
        let duration = GoDuration::try_from(Duration::from_nanos(nanos)).unwrap();
        prop_assert_eq!(duration.to_string().parse::<GoDuration>(), Ok(duration));
    }

    #[test]
    fn nothing_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn nothing_that_looks_like_one_panics(text in "[0-9.+a-zµ-]{0,30}") {
        let _ = parse(&text);
    }
}
