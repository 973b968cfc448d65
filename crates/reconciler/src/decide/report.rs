//! What the own object must say, and whether it has to be written. An unchanged outcome is never written; an altered or
//! missing object is (C06, C11, C12).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::PodReport;
use muster_core::text;

use super::{Next, Plan, Say, Snapshot};
use crate::subject::{Outcome, Own, Said, Subject};

/// Most warnings of a report; the schema allows no more.
const WARNINGS_MAX: usize = 8;

/// The next write.
pub(super) fn next(seen: &Snapshot<'_>, say: &Say) -> Next {
    let subject = seen.subject;
    if !seen.own_synced || subject.writing.is_some() {
        return Next::Never;
    }
    let said = match (say, &subject.said) {
        (Say::Silence, _) | (Say::TheSame, None) => return Next::Never,
        (Say::TheSame, Some(said)) => said.clone(),
        (Say::Outcome(outcome), _) => Said { outcome: outcome.clone(), since: since(subject, outcome, seen.now.wall) },
    };
    let report = pod_report(&said);
    let was_said = subject.said.as_ref() == Some(&said);
    if subject.own.as_ref().is_some_and(|own| own.says(&report)) {
        return if was_said { Next::Never } else { Next::Now(Plan::Adopt(Box::new(said))) };
    }
    if subject.refused.as_ref() == Some(&report) {
        return Next::Never;
    }
    // What failed to be written about another generation is no reason to hold this one back (C17).
    let same_generation = |before: &Said| before.outcome.generation == said.outcome.generation;
    let write = seen.waits.write.filter(|_| subject.said.as_ref().is_some_and(same_generation));
    let restore = seen.waits.restore.filter(|_| was_said);
    match [write, restore].into_iter().flatten().max() {
        Some(at) if at > seen.now.mono => Next::At(at),
        _ => Next::Now(Plan::Report(Box::new(said))),
    }
}

/// The report as it stands in the object: bounded in bytes, on one line, at most eight warnings.
pub fn pod_report(said: &Said) -> PodReport {
    let outcome = &said.outcome;
    let error = text::single_line(&outcome.error);
    let mut warnings: Vec<String> = Vec::new();
    for warning in &outcome.warnings {
        let warning = text::cut(&text::single_line(warning), text::WARNING_MAX).into_owned();
        if warnings.len() < WARNINGS_MAX && !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    PodReport {
        observed_generation: outcome.generation,
        succeeded: outcome.succeeded,
        serves: outcome.serves.clone(),
        reason: outcome.reason.clone(),
        brief_error: text::cut(&error, text::BRIEF_MAX).into_owned(),
        error: text::cut(&error, text::ERROR_MAX).into_owned(),
        last_transition_time: Time(said.since),
        trust_expires_at: outcome.trust_expires_at.map(|expires| Time(whole_seconds(expires))),
        warnings,
    }
}

/// Times of an object have whole seconds; one with a fraction would never equal what the API server gives back.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Since when the outcome is so: now, unless it was already said, by this process or by the one before it in this pod.
fn since(subject: &Subject, outcome: &Outcome, wall: Timestamp) -> Timestamp {
    if let Some(said) = &subject.said {
        return if is_same(&said.outcome, outcome) { said.since } else { whole_seconds(wall) };
    }
    let report = subject.own.as_ref().and_then(|own: &Own| own.report.as_ref());
    let before = report.filter(|report| {
        let as_of_then = Said { outcome: outcome.clone(), since: report.last_transition_time.0 };
        is_same_report(report, &pod_report(&as_of_then))
    });
    before.map_or_else(|| whole_seconds(wall), |report| report.last_transition_time.0)
}

/// What counts as the same outcome: a certificate that was renewed or a warning more is no transition.
fn is_same(a: &Outcome, b: &Outcome) -> bool {
    a.generation == b.generation
        && a.succeeded == b.succeeded
        && a.serves == b.serves
        && a.reason == b.reason
        && a.error == b.error
}

fn is_same_report(a: &PodReport, b: &PodReport) -> bool {
    a.observed_generation == b.observed_generation
        && a.succeeded == b.succeeded
        && a.serves == b.serves
        && a.reason == b.reason
        && a.error == b.error
}
