//! A mutant as a file: a sentence that says what is wrong, the tests that must notice, and the change as a patch.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// One mutant.
#[derive(Debug)]
pub(super) struct Patch {
    /// The file.
    pub(super) file: PathBuf,
    /// The file's name without its extension.
    pub(super) name: String,
    /// What goes wrong in it.
    pub(super) claim: String,
    /// Arguments of `cargo test`, the fewest that turn red.
    pub(super) test: Vec<String>,
    /// The files that it changes, relative to the root.
    pub(super) changes: Vec<PathBuf>,
}

impl Patch {
    pub(super) fn parse(file: PathBuf, text: &str) -> Result<Self> {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let claim = text.lines().next().unwrap_or_default().to_owned();
        ensure!(claim.ends_with('.'), "the first line must be a sentence");
        let test = text.lines().nth(1).and_then(|line| line.strip_prefix("test: ")).context("no line `test: `")?;
        let test: Vec<String> = test.split_whitespace().map(str::to_owned).collect();
        let changes: Vec<PathBuf> =
            text.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(PathBuf::from).collect();
        ensure!(!changes.is_empty(), "it changes no file");
        Ok(Self { file, name, claim, test, changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_says_what_is_wrong_and_who_must_notice() {
        let text = "It is wrong.\ntest: --lib fold\n\n--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-a\n+b\n";
        let patch = Patch::parse("dir/it-is-wrong.patch".into(), text).unwrap();
        assert_eq!((patch.name.as_str(), patch.claim.as_str()), ("it-is-wrong", "It is wrong."));
        assert_eq!((patch.test, patch.changes), (vec!["--lib".into(), "fold".into()], vec![PathBuf::from("x.rs")]));
        assert!(Patch::parse("a.patch".into(), "--- a/x.rs\n+++ b/x.rs\n").is_err());
        assert!(Patch::parse("a.patch".into(), "It is wrong.\ntest: --lib\n").is_err());
    }
}
