//! `byPod` within its bound, which counts bytes of JSON: the API server and etcd count bytes too, while `maxLength` in a
//! schema counts characters (C65). Failing entries come first, their texts are cut before any of them is left out, and
//! what is left out is counted by state.

use std::io;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{Omitted, PodEntry};
use muster_core::text;

use super::Previous;
use super::verdict::Verdict;

/// Lengths to which errors are cut, in bytes, until every failing entry fits. At the last one the two texts of an entry
/// are equal; below that they would say nothing.
const TEXT_STEPS: [usize; 3] = [text::ERROR_MAX, 300, text::BRIEF_MAX];
/// The brackets of the list.
const BRACKETS: usize = 2;

/// The entries that fit, and what does not. `verdicts` are in their final order.
pub(super) fn bounded(
    verdicts: &[Verdict<'_>],
    previous: &Previous<'_>,
    now: Timestamp,
    max_bytes: usize,
) -> (Vec<PodEntry>, Option<Omitted>) {
    let failing = verdicts.partition_point(|verdict| !verdict.healthy());
    let mut fitted = Vec::new();
    for limit in TEXT_STEPS {
        let texts = verdicts[..failing].iter().map(|verdict| verdict.error().len().min(limit));
        if limit > text::BRIEF_MAX && texts.sum::<usize>() > max_bytes {
            continue; // the texts alone are too long
        }
        fitted = entries(verdicts, previous, now, limit, max_bytes);
        if fitted.len() >= failing {
            break;
        }
    }
    let left_out = &verdicts[fitted.len()..];
    let omitted = (!left_out.is_empty()).then(|| omitted(left_out));
    (fitted, omitted)
}

/// As many leading entries as fit, with texts of at most `limit` bytes.
fn entries(
    verdicts: &[Verdict<'_>],
    previous: &Previous<'_>,
    now: Timestamp,
    limit: usize,
    max_bytes: usize,
) -> Vec<PodEntry> {
    let mut used = BRACKETS;
    let mut entries: Vec<PodEntry> = Vec::with_capacity(verdicts.len().min(max_bytes / 150));
    for verdict in verdicts {
        let entry = entry(verdict, previous.entry(&verdict.pod.uid), now, limit);
        let comma = usize::from(!entries.is_empty());
        used += json_len(&entry) + comma;
        if used > max_bytes {
            break;
        }
        entries.push(entry);
    }
    entries
}

fn entry(verdict: &Verdict<'_>, previous: Option<&PodEntry>, now: Timestamp, limit: usize) -> PodEntry {
    let error = verdict.error();
    let mut entry = PodEntry {
        id: verdict.pod.name.to_string(),
        pod_uid: verdict.pod.uid.to_string(),
        observed_generation: verdict.outcome.map_or(0, |outcome| outcome.generation),
        succeeded: verdict.outcome.is_some_and(|outcome| outcome.succeeded),
        error: text::cut(&error, limit).into_owned(),
        brief_error: text::cut(&error, text::BRIEF_MAX).into_owned(),
        last_transition_time: None,
        state: verdict.state.clone(),
        reason: verdict.reason(),
        serves: verdict.serves(),
    };
    let since = previous
        .filter(|previous| !moved(previous, &entry))
        .and_then(|previous| previous.last_transition_time.as_ref());
    entry.last_transition_time = Some(since.map_or(Time(now), |time| Time(super::whole_seconds(time.0))));
    entry
}

/// What moves `lastTransitionTime`. Texts do not: one may be cut at another length in the next pass.
fn moved(previous: &PodEntry, entry: &PodEntry) -> bool {
    previous.state != entry.state
        || previous.succeeded != entry.succeeded
        || previous.serves != entry.serves
        || previous.reason != entry.reason
        || previous.observed_generation != entry.observed_generation
}

fn omitted(left_out: &[Verdict<'_>]) -> Omitted {
    let mut omitted = Omitted::default();
    for verdict in left_out {
        omitted.count += 1;
        *omitted.by_state.entry(verdict.state.to_string()).or_default() += 1;
    }
    omitted
}

/// Length of the entry as the request's body will hold it. A sum that saturates counts as not fitting.
fn json_len(entry: &PodEntry) -> usize {
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, entry) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX / 2,
    }
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
