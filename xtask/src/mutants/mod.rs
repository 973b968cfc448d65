//! `cargo xtask mutants`: errors put in on purpose, each of which must turn a test red. A suite that stays green while the
//! fold ignores the generation proves nothing about generations.

mod patch;
mod tree;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;
use std::{fs, path};

use anyhow::{Context, Result, bail};

use crate::{step, workspace};
use patch::Patch;
use tree::Tree;

/// Where the mutants are kept, below the root.
const FOLDER: &str = "xtask/mutants";

/// Arguments of `mutants`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only mutants whose name contains this.
    filter: Option<String>,
}

/// How a test run ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// These tests failed.
    Caught(Vec<String>),
    /// Every test passed.
    Survived,
    /// No test ran: the mutant does not compile, or the command is wrong.
    NotRun,
}

/// Applies each mutant to a copy of the working tree and runs its tests there.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut mutants = read()?;
    mutants.retain(|mutant| args.filter.as_ref().is_none_or(|filter| mutant.name.contains(filter)));
    if mutants.is_empty() {
        bail!("no mutant of this name below {FOLDER}");
    }
    let tree = Tree::at(workspace::target_dir().join("mutants"))?;
    let commands: BTreeSet<&[String]> = mutants.iter().map(|mutant| mutant.test.as_slice()).collect();
    for command in commands {
        let name = format!("without a mutant: cargo test {}", command.join(" "));
        step::measured(&name, || match test(&tree, command)? {
            (Outcome::Survived, _) => Ok(()),
            (_, output) => bail!("these tests must pass before they can tell anything:\n{output}"),
        })?;
    }
    let mut bad = Vec::new();
    for mutant in &mutants {
        eprintln!("==> {}: {}", mutant.name, mutant.claim);
        let begun = Instant::now();
        let verdict = judge(&tree, mutant)?;
        eprintln!("==> {}: {verdict} ({})", mutant.name, step::Elapsed(begun.elapsed()));
        if !verdict.starts_with("caught") {
            bad.push(format!("  {}: {verdict}", mutant.name));
        }
    }
    if bad.is_empty() {
        eprintln!("all {} mutants were caught", mutants.len());
        return Ok(());
    }
    bail!("{} of {} mutants were not caught:\n{}", bad.len(), mutants.len(), bad.join("\n"))
}

/// That every mutant still applies; what `ci` runs, since it costs nothing.
pub(crate) fn check() -> Result<()> {
    step::measured("mutants apply", || {
        let tree = Tree::of(workspace::root());
        let stale: Vec<String> =
            read()?.iter().filter_map(|mutant| Some(format!("  {}", tree.check(mutant).err()?))).collect();
        if stale.is_empty() { Ok(()) } else { bail!("mutants have to be made anew:\n{}", stale.join("\n")) }
    })
}

fn judge(tree: &Tree, mutant: &Patch) -> Result<String> {
    if let Err(error) = tree.apply(mutant) {
        return Ok(error.to_string());
    }
    let run = test(tree, &mutant.test);
    tree.restore(mutant)?;
    Ok(match run? {
        (Outcome::Caught(tests), _) => format!("caught by {}", tests.join(", ")),
        (Outcome::Survived, _) => "SURVIVED".to_owned(),
        (Outcome::NotRun, output) => format!("no test ran:\n{output}"),
    })
}

/// Runs tests in the copy; the output is what cargo and the tests said.
fn test(tree: &Tree, args: &[String]) -> Result<(Outcome, String)> {
    let mut cargo: Command = workspace::cargo(["test", "--quiet", "--no-fail-fast"]);
    // The build folder is the usual one: dependencies are the same, and packages of another path never mix with ours.
    cargo.args(args).current_dir(tree.root()).env("CARGO_TARGET_DIR", path::absolute(workspace::target_dir())?);
    cargo.env("INSTA_UPDATE", "no").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    let output = cargo.output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Ok((outcome(output.status.success(), &text), text.into_owned()))
}

fn outcome(succeeded: bool, output: &str) -> Outcome {
    let failed: BTreeSet<String> = output
        .lines()
        .filter_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"))
        .map(str::to_owned)
        .collect();
    let passed = output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. "))
        .any(|counts| !counts.starts_with("0 passed"));
    match (succeeded, failed.is_empty(), passed) {
        (false, false, _) => Outcome::Caught(failed.into_iter().collect()),
        (true, true, true) => Outcome::Survived,
        _ => Outcome::NotRun,
    }
}

/// Every mutant, by name.
fn read() -> Result<Vec<Patch>> {
    let folder = workspace::root().join(FOLDER);
    let mut mutants = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "patch") {
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let mutant = Patch::parse(file.clone(), &text);
            mutants.push(mutant.with_context(|| format!("{} is not a mutant", file.display()))?);
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_applies() {
        check().unwrap();
    }

    #[test]
    fn only_a_failed_test_catches() {
        let passed = "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed;\n";
        let none = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed;\n";
        let failed =
            "F\nfailures:\n\n---- fold::tests::cases stdout ----\nsaid\n\ntest result: FAILED. 1 passed; 1 failed;\n";
        assert_eq!(outcome(true, passed), Outcome::Survived);
        assert_eq!(outcome(true, none), Outcome::NotRun, "a filter that fits no test proves nothing");
        assert_eq!(outcome(false, failed), Outcome::Caught(vec!["fold::tests::cases".to_owned()]));
        assert_eq!(outcome(false, "error[E0308]: mismatched types\n"), Outcome::NotRun);
    }
}
