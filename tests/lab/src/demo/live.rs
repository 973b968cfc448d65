//! The demo that stays up: the table follows what happens, and two things are made to happen.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use muster_api::Executor;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::{rows, setup, table, vault};
use crate::installation::Installation;

/// How often the API server is asked. A person reads no faster.
const FRAME: Duration = Duration::from_millis(500);
/// When the demo edits a spec, counted from the first table.
const EDIT_AFTER: Duration = Duration::from_secs(10);
/// When it kills a replica.
const KILL_AFTER: Duration = Duration::from_secs(25);
/// The sample that is edited.
const EDITED: &str = "cosign-app";

/// Shows the table until a signal comes.
pub(super) async fn run(installation: &Installation, client: &Client) -> Result<()> {
    setup::note(&format!(
        "it stays up; in another terminal:\n  export KUBECONFIG={}\n  kubectl get executors,namespacedexecutors -A\n  \
         kubectl get executorpodstatuses -n muster-system\n  kubectl describe executor broken\n\
         Ctrl-C ends everything.",
        installation.plane.kubeconfig().display()
    ));
    setup::note(vault::WATCH);
    let start = Instant::now();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut screen = Screen::default();
    let (mut edited, mut killed) = (false, false);
    loop {
        tokio::select! {
            signal = tokio::signal::ctrl_c() => return signal.context("cannot listen for Ctrl-C"),
            _ = terminate.recv() => return Ok(()),
            () = sleep_until(start + EDIT_AFTER), if !edited => {
                edited = true;
                edit(client).await?;
                screen.say(&format!("edited the spec of {EDITED}: watch GEN, then every replica become ok again"));
            }
            () = sleep_until(start + KILL_AFTER), if !killed => {
                killed = true;
                if let Some(pod) = installation.reconcilers().last() {
                    installation.kubelet.crash(pod).await?;
                    screen.say(&format!("killed {}: its column goes, a new replica comes and reports", pod.name));
                }
            }
            _ = frames.tick() => match rows(client).await {
                Ok(rows) => screen.show(&table::render(&rows)),
                Err(error) => screen.say(&format!("the API server did not answer: {error:#}")),
            },
        }
    }
}

/// A change that moves the generation and breaks nothing.
async fn edit(client: &Client) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "concurrency": 7 } }));
    let executors: Api<Executor> = Api::all(client.clone());
    executors.patch(EDITED, &PatchParams::default(), &patch).await.with_context(|| format!("cannot edit {EDITED}"))?;
    Ok(())
}

/// What was shown last: a terminal is drawn over, a pipe gets a table only when it differs.
#[derive(Default)]
struct Screen {
    shown: String,
    lines: usize,
}

impl Screen {
    fn show(&mut self, text: &str) {
        let text = match window() {
            Some((width, height)) => fitted(text, width, height),
            None => text.to_owned(),
        };
        if text == self.shown {
            return;
        }
        let up = if std::io::stdout().is_terminal() && self.lines > 0 {
            format!("\x1b[{}A\x1b[J", self.lines)
        } else {
            String::from("\n")
        };
        write(&format!("{up}{text}"));
        self.lines = text.lines().count();
        self.shown = text;
    }

    /// A line that stays above the table.
    fn say(&mut self, line: &str) {
        let clear = if std::io::stdout().is_terminal() && self.lines > 0 {
            format!("\x1b[{}A\x1b[J", self.lines)
        } else {
            String::new()
        };
        write(&format!("{clear}demo: {line}\n"));
        self.shown.clear();
        self.lines = 0;
    }
}

/// Columns and rows of the terminal; `None` for a pipe.
fn window() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// What of a text can be drawn over later: a line that wraps or scrolls away cannot. The last row is the cursor's.
fn fitted(text: &str, width: usize, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = height.saturating_sub(1).max(1);
    let shown = if lines.len() <= room { lines.len() } else { room - 1 };
    let mut fitted: String = lines[..shown].iter().flat_map(|line| line.chars().take(width).chain(['\n'])).collect();
    if shown < lines.len() {
        let more = format!("({} more lines: a higher terminal shows them)", lines.len() - shown);
        fitted.extend(more.chars().take(width).chain(['\n']));
    }
    fitted
}

/// A reader that went away ends nothing: the next signal does.
fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        tracing::debug!("nobody reads the table");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_neither_wraps_nor_scrolls() {
        let text = "NAME  READY\na     1/1\nb     ü/1\n\nFAIL  b: why it fails\n";
        assert_eq!(fitted(text, 80, 24), text);
        assert_eq!(fitted(text, 9, 6), "NAME  REA\na     1/1\nb     ü/1\n\nFAIL  b: \n");
        assert_eq!(fitted(text, 80, 4), "NAME  READY\na     1/1\n(3 more lines: a higher terminal shows them)\n");
        assert_eq!(fitted(text, 5, 1), "(5 mo\n");
    }
}
