//! Tools that people run against a cluster, run as people would, but with nothing of this machine's settings.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use muster_toolbox::Tool;
use tokio::process::Command;

use crate::control_plane::locate;

/// Runs `tool` in the repository, and returns what it printed; its own words are the error when it fails.
pub async fn run(tool: Tool, kubeconfig: Option<&Path>, args: &[&str]) -> Result<String> {
    let home = tempfile::tempdir().context("cannot create a folder")?;
    let mut command = Command::new(locate(tool)?);
    command.args(args).current_dir(repository()).env_clear().env("HOME", home.path());
    // Without a cluster the default address would be asked; there is nobody.
    command.env("KUBECONFIG", kubeconfig.unwrap_or(Path::new("/dev/null")));
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.with_context(|| format!("cannot start {}", tool.name()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {}: {}{said}", tool.name(), args.join(" "), tail(&output.stdout));
    String::from_utf8(output.stdout).context("not text")
}

/// The repository's root.
pub fn repository() -> &'static Path {
    // Two folders above this package's; paths below it are shown to people.
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

/// Some tools say on standard output what was wrong.
fn tail(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<_> = text.lines().collect();
    let mut tail = lines[lines.len().saturating_sub(20)..].join("\n");
    tail.push('\n');
    tail
}
