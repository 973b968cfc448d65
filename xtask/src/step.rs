//! Steps that take a while: each says its name when it starts, and its time when it ends.

use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A command ran and said no. Kept apart from text, so that our exit code can be its exit code.
#[derive(Debug)]
struct Failed {
    name: String,
    status: ExitStatus,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed ({})", self.name, self.status)
    }
}

impl std::error::Error for Failed {}

/// Runs `command` as a step called `name`; its output goes to the terminal.
pub(crate) fn run(name: &str, command: &mut Command) -> Result<()> {
    measured(name, || {
        let status = command.status().with_context(|| cannot_start(command))?;
        if status.success() { Ok(()) } else { Err(Failed { name: name.to_owned(), status }.into()) }
    })
}

/// Runs `work` as a step called `name`.
pub(crate) fn measured<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("==> {name}");
    let start = Instant::now();
    let done = work();
    let outcome = if done.is_ok() { "ok" } else { "FAILED" };
    eprintln!("==> {name}: {outcome} in {}", Elapsed(start.elapsed()));
    done
}

/// Becomes `command`: signals and exit code are then its own business.
pub(crate) fn become_command(command: &mut Command) -> Result<()> {
    let error = command.exec();
    bail!("{}: {error}", cannot_start(command))
}

/// The exit code of the command that failed, or 1.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    let code = error.downcast_ref::<Failed>().and_then(|failed| failed.status.code());
    code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(1).into()
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start {}", command.get_program().to_string_lossy())
}

/// A duration for people: `7.3 s`, `3 min 05 s`.
pub(crate) struct Elapsed(pub(crate) Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds < 60 {
            write!(f, "{:.1} s", self.0.as_secs_f64())
        } else {
            write!(f, "{} min {:02} s", seconds / 60, seconds % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_reads_well() {
        assert_eq!(Elapsed(Duration::from_millis(7_320)).to_string(), "7.3 s");
        assert_eq!(Elapsed(Duration::from_secs(185)).to_string(), "3 min 05 s");
    }

    #[test]
    fn the_exit_code_of_a_failed_command_is_passed_through_context() {
        let error = run("sh", Command::new("sh").args(["-c", "exit 7"])).context("more words").unwrap_err();
        assert_eq!(format!("{:?}", exit_code(&error)), format!("{:?}", ExitCode::from(7)));
    }
}
