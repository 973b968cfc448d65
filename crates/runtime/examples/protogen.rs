//! Makes `src/generated/` from `proto/`, or checks that it is up to date (`--check`). An example and not a build script,
//! so that nobody who builds Muster needs it; `cargo xtask codegen` runs it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use prost::Message as _;

const PROTO: &str = "muster/v1/replica.proto";
const CODE: &str = "muster.v1.rs";
const DESCRIPTORS: &str = "muster.v1.fds";

fn main() -> ExitCode {
    let check = std::env::args().any(|arg| arg == "--check");
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    match run(home, check) {
        Ok(stale) if stale.is_empty() => ExitCode::SUCCESS,
        Ok(stale) => {
            for path in stale {
                complain(&format!("{} is not what proto/ gives; run cargo xtask codegen", path.display()));
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            complain(&format!("{error}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a command-line tool")]
fn complain(text: &str) {
    eprintln!("protogen: {text}");
}

/// Writes what differs, or with `check` returns it.
fn run(home: &Path, check: bool) -> Result<Vec<PathBuf>, Box<dyn std::error::Error>> {
    let protos = home.join("../../proto");
    let descriptors = protox::compile([protos.join(PROTO)], [&protos])?;
    let scratch = tempfile::tempdir()?;
    tonic_prost_build::configure().out_dir(scratch.path()).compile_fds(descriptors.clone())?;

    let made = [(CODE, std::fs::read(scratch.path().join(CODE))?), (DESCRIPTORS, descriptors.encode_to_vec())];
    let mut stale = Vec::new();
    for (name, content) in made {
        let path = home.join("src/generated").join(name);
        if std::fs::read(&path).is_ok_and(|present| present == content) {
            continue;
        }
        if check {
            stale.push(path);
        } else {
            std::fs::write(&path, content)?;
        }
    }
    Ok(stale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_code_is_what_the_proto_files_give() {
        let stale = run(Path::new(env!("CARGO_MANIFEST_DIR")), true).unwrap();
        assert!(stale.is_empty(), "run cargo xtask codegen: {stale:?}");
    }
}
