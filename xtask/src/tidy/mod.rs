//! `cargo xtask tidy`: house rules as a check, so that no review has to repeat them.
//!
//! The rules themselves are pure functions of a file's path and text; this file only walks.

mod markdown;
mod rules;

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::{step, workspace};

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    /// From 1.
    line: usize,
    what: String,
}

impl Problem {
    fn new(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

pub(crate) fn run() -> Result<()> {
    step::measured("tidy", || {
        let problems = check(workspace::root())?;
        if problems.is_empty() {
            return Ok(());
        }
        bail!("{} house rules are broken:\n{}", problems.len(), problems.join("\n"))
    })
}

/// Every broken rule below `root`, as `path:line: what`.
fn check(root: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for path in workspace::files()? {
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue }; // deleted but not yet committed, or binary
        let problems = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => rules::rust(&text),
            Some("md") => {
                let mut problems = rules::whitespace(&text);
                problems.extend(markdown::links(&text, |target| exists(root, &path, target)));
                problems
            }
            Some("toml") if path.ends_with("Cargo.toml") => rules::manifest(&text),
            Some("toml" | "yaml" | "yml" | "proto" | "sh" | "json") => rules::whitespace(&text),
            _ => Vec::new(),
        };
        let path = path.display();
        broken.extend(problems.into_iter().map(|Problem { line, what }| format!("  {path}:{line}: {what}")));
    }
    Ok(broken)
}

/// Whether the link `target` in `file` leads somewhere: relative to the file, or to the root if it starts with `/`.
fn exists(root: &Path, file: &Path, target: &str) -> bool {
    match target.strip_prefix('/') {
        Some(absolute) => root.join(absolute).exists(),
        None => root.join(file).parent().is_some_and(|folder| folder.join(target).exists()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        assert_eq!(check(workspace::root()).unwrap(), Vec::<String>::new());
    }
}
