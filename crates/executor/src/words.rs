//! How found things are named in sentences, so that errors, warnings and conflicts quote alike.

use muster_core::text::{cut, single_line};

/// Longest quotation, in bytes: a scope or an identity is shorter, and three of them still leave room in a status.
const QUOTE_MAX: usize = 120;

/// `text` in double quotes, on one line, cut to 120 bytes.
pub(crate) fn quote(text: &str) -> String {
    // Cut before as well, so that quoting a megabyte costs what quoting a line does.
    let line = single_line(&cut(text, 4 * QUOTE_MAX));
    format!("\"{}\"", cut(&line, QUOTE_MAX))
}

/// `a`, `a or b`, `a, b or c`; what does not fit 200 bytes is counted.
pub(crate) fn one_of<S: AsRef<str>>(choices: &[S]) -> String {
    const MAX: usize = 200;
    let mut text = String::new();
    for (index, choice) in choices.iter().enumerate() {
        let choice = choice.as_ref();
        let left = choices.len() - index;
        if text.len() + choice.len() > MAX {
            return format!("{text} or {left} more");
        }
        match (index, left) {
            (0, _) => {}
            (_, 1) => text.push_str(" or "),
            _ => text.push_str(", "),
        }
        text.push_str(choice);
    }
    text
}

/// `a, b, c`; what does not fit 200 bytes is counted.
pub(crate) fn list<S: AsRef<str>>(words: &[S]) -> String {
    const MAX: usize = 200;
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 && text.len() + word.as_ref().len() > MAX {
            return format!("{text} and {} more", words.len() - index);
        }
        if index > 0 {
            text.push_str(", ");
        }
        text.push_str(word.as_ref());
    }
    text
}

/// The first eight bytes of a SHA-256 in hexadecimal: enough to tell certificates apart, short enough to read.
pub(crate) fn fingerprint_start(fingerprint: &[u8; 32]) -> String {
    let start = fingerprint.first_chunk::<8>().copied().unwrap_or_default();
    format!("{:016x}", u64::from_be_bytes(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_bounded_and_on_one_line() {
        assert_eq!(quote("a\nb"), "\"a b\"");
        assert_eq!(quote("\u{1b}[31m"), "\"\\u{1b}[31m\"");
        assert!(quote(&"ä".repeat(100_000)).len() <= QUOTE_MAX + 2);
    }

    #[test]
    fn choices_read_as_a_sentence_and_are_bounded() {
        assert_eq!(one_of(&["a"]), "a");
        assert_eq!(one_of(&["a", "b"]), "a or b");
        assert_eq!(one_of(&["a", "b", "c"]), "a, b or c");
        let many: Vec<String> = (0..100).map(|n| format!("verifier-number-{n}")).collect();
        assert!(one_of(&many).ends_with(" or 90 more"), "{}", one_of(&many));
    }
}
