//! Tests that cannot run on this machine say so where it is seen, instead of passing in silence.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use muster_toolbox::UNABLE;

/// File that `cargo xtask test` reads afterwards; for root, who can run everything, a line in it is a failure.
const SKIPS: &str = "MUSTER_SKIPS";

/// Records that the calling test does not run, and why. It should return right after. An error when nobody would learn of
/// it, that is under plain `cargo test`.
pub fn skip(why: &str) -> Result<()> {
    let file = std::env::var_os(SKIPS).with_context(|| format!("cannot run here: {why}; use `cargo xtask test`"))?;
    record(Path::new(&file), std::thread::current().name().unwrap_or("a test"), why)
}

/// The same for a test that needs a real node: what a container or a kernel does not allow is no failure, even for root.
pub fn unable(why: &str) -> Result<()> {
    skip(&format!("{UNABLE}{why}"))
}

fn record(file: &Path, test: &str, why: &str) -> Result<()> {
    let mut skips = OpenOptions::new().create(true).append(true).open(file).context("cannot open the list of skips")?;
    skips.write_all(format!("{test}: {why}\n").as_bytes()).context("cannot record a skipped test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_skip_is_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("skips");
        record(&file, "a", "not root").unwrap();
        record(&file, "b", "no network").unwrap();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "a: not root\nb: no network\n");
    }
}
