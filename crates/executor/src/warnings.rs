//! What works but is not as its author may think: few, short and different texts, for a status that lists eight.

use std::cell::RefCell;
use std::fmt::Display;

use muster_core::text::{WARNING_MAX, cut, single_line};

/// Most warnings that one executor reports; a status lists eight.
const MAX: usize = 8;

/// Warnings as they are found, in the order of the spec. Shared by all readers of one spec, hence the cell.
#[derive(Debug, Default)]
pub(crate) struct Warnings(RefCell<Found>);

#[derive(Debug, Default)]
struct Found {
    texts: Vec<String>,
    more: usize,
}

impl Warnings {
    /// Notes one, unless the same is noted already.
    pub(crate) fn add(&self, text: impl Display) {
        let text = cut(&single_line(&text.to_string()), WARNING_MAX).into_owned();
        let mut found = self.0.borrow_mut();
        if found.texts.contains(&text) {
            return;
        }
        if found.texts.len() < MAX {
            found.texts.push(text);
        } else {
            found.more += 1;
        }
    }

    /// At most eight texts of at most 200 bytes each; what is left out is counted in the last.
    pub(crate) fn into_texts(self) -> Vec<String> {
        let Found { mut texts, more } = self.0.into_inner();
        if more > 0 {
            texts.truncate(MAX - 1);
            texts.push(format!("and {} more warnings", more + 1));
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_few_short_and_different() {
        let warnings = Warnings::default();
        for number in 0..30 {
            warnings.add(number % 15);
        }
        warnings.add("x".repeat(1_000));
        let texts = warnings.into_texts();
        assert_eq!(texts.len(), MAX);
        assert_eq!(texts[0], "0");
        // The same one seen twice beyond the limit counts twice: what is not kept cannot be compared.
        assert!(texts[MAX - 1].starts_with("and "), "{texts:?}");
    }

    #[test]
    fn a_long_warning_is_cut() {
        let warnings = Warnings::default();
        warnings.add(format!("a\n{}", "ä".repeat(1_000)));
        let texts = warnings.into_texts();
        assert!(texts[0].len() <= WARNING_MAX && texts[0].starts_with("a ä"), "{texts:?}");
    }
}
