//! Where a value stands in an object, as people point at it.

use std::fmt;

use muster_core::text::{cut, single_line};

/// Longest key that is shown, in bytes: known keys are shorter, an unknown one has to be found, not read.
const KEY_MAX: usize = 64;

/// `spec.verifiers[0].parameters`. Keys that are no words are quoted: `parameters["a b"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path(String);

impl Path {
    /// The start of every path.
    pub(crate) fn spec() -> Self {
        Self("spec".to_owned())
    }

    /// The value under `key` of the object here.
    pub(crate) fn key(&self, key: &str) -> Self {
        let plain = key.len() <= KEY_MAX
            && !key.is_empty()
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if plain {
            return Self(format!("{}.{key}", self.0));
        }
        let shown = single_line(&cut(key, 2 * KEY_MAX));
        Self(format!("{}[\"{}\"]", self.0, cut(&shown, KEY_MAX)))
    }

    /// The value at `index` of the list here.
    pub(crate) fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_they_can_be_pointed_at() {
        let root = Path::spec();
        assert_eq!(root.key("verifiers").index(3).key("name").as_str(), "spec.verifiers[3].name");
        assert_eq!(root.key("a b").as_str(), "spec[\"a b\"]");
        assert_eq!(root.key("").as_str(), "spec[\"\"]");
        assert_eq!(root.key("a\nb").as_str(), "spec[\"a b\"]");
        assert!(root.key(&"k".repeat(10_000)).as_str().len() < 80);
    }
}
