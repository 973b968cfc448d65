//! Readiness as a register of named checks. A check is failing from birth until its owner says otherwise, so whatever was
//! forgotten shows as not ready with its name, never as ready.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// All checks of this process. Clones share them.
#[derive(Clone, Debug)]
pub struct Readiness {
    book: Arc<Mutex<Book>>,
    changed: watch::Sender<u64>,
}

/// One named check, held by whoever knows the answer. Clones speak for the same check; dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Check {
    name: &'static str,
    readiness: Readiness,
}

/// What `/readyz?verbose` says of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckLine {
    /// Its name.
    pub name: &'static str,
    /// Whether it passes.
    pub passed: bool,
    /// Why it fails, or what is worth knowing although it passes; may be empty.
    pub text: Cow<'static, str>,
}

#[derive(Debug, Default)]
struct Book {
    started: bool,
    closing: bool,
    checks: BTreeMap<&'static str, (bool, Cow<'static, str>)>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { book: Arc::default(), changed: watch::Sender::new(0) }
    }
}

impl Readiness {
    /// Registers a check, failing as long as nothing else is said; `until` says what it waits for.
    pub fn register(&self, name: &'static str, until: impl Into<Cow<'static, str>>) -> Check {
        self.change(|book| {
            book.checks.insert(name, (false, until.into()));
        });
        Check { name, readiness: self.clone() }
    }

    /// Says that every check has been registered. Not ready before: an empty register knows nothing.
    pub fn started(&self) {
        self.change(|book| book.started = true);
    }

    /// Says that the process is shutting down: not ready from now on.
    pub fn close(&self) {
        self.change(|book| book.closing = true);
    }

    /// True if everything passes.
    pub fn is_ready(&self) -> bool {
        let book = self.book();
        book.started && !book.closing && book.checks.values().all(|(passed, _)| *passed)
    }

    /// All checks by name, the process's own state first.
    pub fn lines(&self) -> Vec<CheckLine> {
        let book = self.book();
        let (passed, text) = match (book.started, book.closing) {
            (_, true) => (false, "shutting down"),
            (false, _) => (false, "starting"),
            _ => (true, ""),
        };
        let own = CheckLine { name: "process", passed, text: Cow::Borrowed(text) };
        let checks =
            book.checks.iter().map(|(name, (passed, text))| CheckLine { name, passed: *passed, text: text.clone() });
        std::iter::once(own).chain(checks).collect()
    }

    /// Changes whenever the answer may have.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Book)) {
        change(&mut self.book());
        self.tell();
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version = version.wrapping_add(1));
    }
}

impl Check {
    /// It passes.
    pub fn pass(&self) {
        self.set(Some(true), Cow::Borrowed(""));
    }

    /// It passes, but `note` is worth knowing: for `?verbose` only.
    pub fn pass_with(&self, note: impl Into<Cow<'static, str>>) {
        self.set(Some(true), note.into());
    }

    /// It fails, for this reason.
    pub fn fail(&self, reason: impl Into<Cow<'static, str>>) {
        self.set(Some(false), reason.into());
    }

    /// Keeps the answer and changes what is worth knowing about it.
    pub fn note(&self, note: impl Into<Cow<'static, str>>) {
        self.set(None, note.into());
    }

    /// Whether it passes at present.
    pub fn passes(&self) -> bool {
        self.readiness.book().checks.get(self.name).is_some_and(|(passed, _)| *passed)
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Wakes those who wait for a change only if there is one.
    fn set(&self, passed: Option<bool>, text: Cow<'static, str>) {
        let (before, after) = {
            let mut book = self.readiness.book();
            let entry = book.checks.entry(self.name).or_default();
            let after = (passed.unwrap_or(entry.0), text);
            (std::mem::replace(entry, after.clone()), after)
        };
        if before.0 != after.0 {
            tracing::info!(check = self.name, passed = after.0, reason = %after.1, "readiness check changed");
        }
        if before != after {
            self.readiness.tell();
        }
    }
}

impl std::fmt::Display for CheckLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.passed { '+' } else { '-' };
        let word = if self.passed { "ok" } else { "failed" };
        write!(f, "[{mark}]{} {word}", self.name)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, ": {}", self.text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(readiness: &Readiness) -> Vec<String> {
        readiness.lines().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nothing_is_ready_before_it_is_true() {
        let readiness = Readiness::default();
        assert!(!readiness.is_ready(), "an empty register is not ready");
        let watch = readiness.register("watch-executors", "not synced yet");
        let first = readiness.register("first-verdicts", "2 executors to go");
        readiness.started();
        watch.pass();
        assert!(!readiness.is_ready());
        assert_eq!(
            lines(&readiness),
            ["[+]process ok", "[-]first-verdicts failed: 2 executors to go", "[+]watch-executors ok"]
        );
        first.pass();
        assert!(readiness.is_ready());
    }

    #[test]
    fn a_note_does_not_change_the_answer() {
        let readiness = Readiness::default();
        let check = readiness.register("watch-executors", "not synced yet");
        readiness.started();
        check.pass();
        check.note("the API server refuses connections");
        assert!(readiness.is_ready());
        assert_eq!(lines(&readiness)[1], "[+]watch-executors ok: the API server refuses connections");
    }

    #[test]
    fn shutting_down_is_not_ready_whatever_the_checks_say() {
        let readiness = Readiness::default();
        readiness.started();
        assert!(readiness.is_ready());
        readiness.close();
        assert!(!readiness.is_ready());
        assert_eq!(lines(&readiness), ["[-]process failed: shutting down"]);
    }

    #[test]
    fn saying_the_same_again_wakes_nobody() {
        let readiness = Readiness::default();
        let check = readiness.register("lease", "not contended yet");
        let seen = readiness.subscribe();
        check.pass();
        assert!(seen.has_changed().unwrap());
        let seen = readiness.subscribe();
        check.pass();
        assert!(!seen.has_changed().unwrap());
    }
}
