//! The log of all that was sent, secrets included, and what can be counted from it.

use std::collections::BTreeMap;

use serde::Serialize;

/// Most calls that are kept. A bench of 10,000 resources sends a quarter of that; beyond it, what is sent is still
/// counted.
const KEPT: usize = 100_000;

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When it arrived, in scaled seconds since start.
    pub at: f64,
    /// HTTP method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Name of the token that the call is counted for: the client ID or cluster ID it was issued for, else the token
    /// itself; absent where there is none.
    pub token: Option<String>,
    /// All headers.
    pub headers: BTreeMap<String, String>,
    /// The body, as text.
    pub body: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Status of the answer; absent before there is one.
    pub status: Option<u16>,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Not answered yet, or the client left before.
    Open,
    /// Answered: let in by the limit (or not limited), whatever the answer was.
    Admitted,
    /// Refused by the limit.
    Refused,
    /// Something went wrong, as told.
    Faulted,
}

/// How many calls came to what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// All calls.
    pub sent: u64,
    /// See [`Outcome::Admitted`].
    pub admitted: u64,
    /// See [`Outcome::Refused`].
    pub refused: u64,
    /// See [`Outcome::Faulted`].
    pub faulted: u64,
}

/// Keeps and counts calls.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: Vec<Entry>,
    /// Entries of earlier journals, so that an answer after a reset is not written into another call.
    forgotten: usize,
    dropped: u64,
    counts: BTreeMap<String, Counts>,
    /// Limited calls in each scaled second, by token.
    seconds: BTreeMap<String, BTreeMap<u64, u64>>,
}

impl Journal {
    /// Records a call and returns its number.
    pub(crate) fn sent(&mut self, entry: Entry) -> usize {
        let token = entry.token.clone().unwrap_or_default();
        self.counts.entry(token.clone()).or_default().sent += 1;
        #[expect(clippy::cast_sign_loss, reason = "time since start is never negative")]
        let second = entry.at as u64;
        *self.seconds.entry(token).or_default().entry(second).or_default() += 1;
        let number = self.forgotten + self.entries.len();
        if self.entries.len() < KEPT {
            self.entries.push(entry);
            return number;
        }
        self.dropped += 1;
        usize::MAX
    }

    pub(crate) fn answered(&mut self, number: usize, token: Option<&str>, outcome: Outcome, status: Option<u16>) {
        if number < self.forgotten {
            return;
        }
        let counts = self.counts.entry(token.unwrap_or_default().to_owned()).or_default();
        match outcome {
            Outcome::Open => {}
            Outcome::Admitted => counts.admitted += 1,
            Outcome::Refused => counts.refused += 1,
            Outcome::Faulted => counts.faulted += 1,
        }
        if let Some(entry) = self.entries.get_mut(number - self.forgotten) {
            (entry.outcome, entry.status) = (outcome, status);
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Calls by token; those without one are under the empty name.
    pub(crate) fn counts(&self) -> &BTreeMap<String, Counts> {
        &self.counts
    }

    /// Calls of a token in each scaled second in which there were any.
    pub(crate) fn per_second(&self, token: &str) -> BTreeMap<u64, u64> {
        self.seconds.get(token).cloned().unwrap_or_default()
    }

    pub(crate) fn reset(&mut self) {
        *self = Self { forgotten: self.forgotten + self.entries.len(), ..Self::default() };
    }
}

impl Counts {
    /// Of two sets of calls together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            admitted: self.admitted + other.admitted,
            refused: self.refused + other.refused,
            faulted: self.faulted + other.faulted,
        }
    }
}

impl Entry {
    /// A header's value, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// True if `text` was sent anywhere in this call: path, query, header or body.
    pub fn holds(&self, text: &str) -> bool {
        self.target.contains(text)
            || self.body.contains(text)
            || self.headers.values().any(|value| value.contains(text))
    }
}
