//! Texts that become part of an object, an Event or a log line: one line each, and bounded in bytes.
//!
//! An unbounded error text makes the API server refuse the whole status it stands in (C63), and `maxLength` in a schema
//! counts characters, not bytes. A raw newline breaks tables, a raw escape sequence whoever reads them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Longest `error` of a replica's report, in bytes (C63; an Event's note has the same limit in the API server).
pub const ERROR_MAX: usize = 1_024;

/// Longest `briefError`, in bytes: what a printer column or a table cell can still show (Ratify truncates its brief
/// error to the same figure).
pub const BRIEF_MAX: usize = 120;

/// Longest entry of `warnings`, in bytes: eight of them, the most a status lists, stay below 2 KiB.
pub const WARNING_MAX: usize = 200;

/// What stands at the end of a text that was cut.
pub const CUT_MARK: &str = "...";

/// Makes one line of `text`: every run of white space, line ends included, becomes one space, none is left at the ends.
/// Other control characters and the bidirectional overrides, which can make a terminal show something else than was
/// written, are spelt out as `\u{1b}`.
pub fn single_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut gap = false;
    for character in text.chars() {
        if character.is_whitespace() {
            gap = true;
            continue;
        }
        if gap && !line.is_empty() {
            line.push(' ');
        }
        gap = false;
        if character.is_control() || is_invisible(character) {
            // Writing to a String cannot fail.
            let _ = write!(line, "\\u{{{:x}}}", u32::from(character));
        } else {
            line.push(character);
        }
    }
    line
}

/// Cuts `text` to at most `max_bytes` bytes, [`CUT_MARK`] included, on a character border. A text that fits is returned
/// as it is. A limit shorter than the mark leaves a part of the mark.
pub fn cut(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    let Some(room) = max_bytes.checked_sub(CUT_MARK.len()) else {
        return Cow::Borrowed(CUT_MARK.get(..max_bytes).unwrap_or_default());
    };
    let kept = prefix(text, room);
    Cow::Owned(format!("{kept}{CUT_MARK}"))
}

/// The longest start of `text` that has at most `max_bytes` bytes and ends on a character border.
pub(crate) fn prefix(text: &str, max_bytes: usize) -> &str {
    (0..=max_bytes.min(text.len())).rev().find_map(|end| text.get(..end)).unwrap_or_default()
}

/// Characters without a shape of their own that reorder or hide their neighbours: zero-width characters, bidirectional
/// marks, embeddings, overrides and isolates, and the byte order mark (Unicode annex 9).
const fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{61c}')
}

#[cfg(test)]
mod tests;
