//! A text stays within its limit, on one line, and whole where it fits.

use proptest::prelude::*;

use super::*;

#[test]
fn a_text_becomes_one_line() {
    for (text, line) in [
        ("", ""),
        ("plain", "plain"),
        ("  two \t\r\n  words \n", "two words"),
        ("a\u{2028}b\u{85}c\u{a0}d", "a b c d"),
        ("nul\0", "nul\\u{0}"),
        ("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
        ("user\u{202e}nimda", "user\\u{202e}nimda"),
        ("überprüft ✓", "überprüft ✓"),
    ] {
        assert_eq!(single_line(text), line, "{text:?}");
    }
}

#[test]
fn a_text_is_cut_on_a_character_border_and_marked() {
    for (text, max, expected) in [
        ("short", 5, "short"),
        ("longer", 5, "lo..."),
        ("a✓✓✓", 9, "a✓..."),
        ("✓✓✓", 5, "..."),
        ("abc", 2, ".."),
        ("abc", 0, ""),
        ("", 0, ""),
    ] {
        assert_eq!(cut(text, max), expected, "{text:?} to {max}");
    }
}

#[test]
fn c63_an_error_of_100_kib_becomes_a_report_of_1024_bytes() {
    let upstream = "connection reset by peer\n".repeat(4_096);
    assert_eq!(upstream.len(), 102_400);
    let line = single_line(&upstream);
    let error = cut(&line, ERROR_MAX);
    assert_eq!(error.len(), ERROR_MAX);
    assert!(error.ends_with(CUT_MARK) && error.starts_with("connection reset by peer connection"));
    assert!(cut(&line, BRIEF_MAX).len() <= BRIEF_MAX);
}

proptest! {
    #[test]
    fn a_cut_text_is_bounded_and_a_prefix(text in "\\PC{0,80}|.{0,80}", max in 0_usize..300) {
        let cut = cut(&text, max);
        prop_assert!(cut.len() <= max);
        if text.len() <= max {
            prop_assert_eq!(cut, text.as_str());
        } else if max >= CUT_MARK.len() {
            let kept = cut.strip_suffix(CUT_MARK).expect("a cut text ends with the mark");
            prop_assert!(text.starts_with(kept));
            // Not one character more would have fitted.
            let next = text[kept.len()..].chars().next().map_or(0, char::len_utf8);
            prop_assert!(kept.len() + next + CUT_MARK.len() > max);
        }
    }

    #[test]
    fn a_line_has_no_control_character_and_no_double_space(text in any::<String>()) {
        let line = single_line(&text);
        prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
        prop_assert!(!line.contains("  ") && line.trim() == line, "{:?}", line);
        prop_assert_eq!(single_line(&line), line);
    }

    #[test]
    fn words_are_neither_lost_nor_invented(words in prop::collection::vec("[!-~äß✓]{1,8}", 0..10)) {
        prop_assert_eq!(single_line(&words.join(" \r\n\t")), words.join(" "));
    }
}
