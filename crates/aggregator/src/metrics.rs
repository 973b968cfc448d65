//! The aggregator's instruments, all from the catalogue. No label holds the name of an object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::{ExecutorKind, ExecutorStatus, Reason, Serves, State};
use muster_runtime::metrics::{self, Counter, Gauge, Histogram, Meters};

use crate::facts::Life;
use crate::fold::Health;
use crate::sweep::Why;

/// Label value of the loop that folds and writes.
const CONTROLLER: &str = "status";
/// Result of a write that stands.
const WRITTEN: &str = "ok";
/// How a run ends.
const RESULTS: [&str; 2] = ["success", "error"];

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Metrics {
    fold_time: Histogram<0>,
    settle_time: Histogram<0>,
    writes: Counter<2>,
    saved: Counter<1>,
    foreign: Counter<1>,
    events: Counter<2>,
    swept: Counter<1>,
    reconciles: Counter<2>,
    errors: Counter<2>,
    queue: Gauge<1>,
    census: Arc<Mutex<Census>>,
}

/// What a scrape is told about entries and replicas.
#[derive(Debug, Default)]
struct Census {
    statuses: BTreeMap<&'static str, u32>,
    /// `None` on a standby, which knows nothing.
    unserved: Option<u32>,
    reasons: BTreeMap<&'static str, u32>,
    entries: BTreeMap<&'static str, u32>,
    omitted: u32,
    replicas: BTreeMap<&'static str, u32>,
    health: BTreeMap<&'static str, u32>,
}

impl Metrics {
    /// Registers the instruments.
    pub fn new(meters: &Meters) -> Self {
        let census = Arc::<Mutex<Census>>::default();
        let shared = census.clone();
        meters.observe(&metrics::STATUSES, move |seen| {
            for (ready, count) in &lock(&shared).statuses {
                seen.tell(f64::from(*count), [ready]);
            }
        });
        let shared = census.clone();
        meters.observe(&metrics::UNSERVED, move |seen| {
            if let Some(count) = lock(&shared).unserved {
                seen.tell(f64::from(count), []);
            }
        });
        let shared = census.clone();
        meters.observe(&metrics::ENTRY_REASONS, move |seen| {
            for (reason, count) in &lock(&shared).reasons {
                seen.tell(f64::from(*count), [reason]);
            }
        });
        let shared = census.clone();
        meters.observe(&metrics::ENTRIES, move |seen| {
            for (state, count) in &lock(&shared).entries {
                seen.tell(f64::from(*count), [state]);
            }
        });
        let shared = census.clone();
        meters.observe(&metrics::ENTRIES_OMITTED, move |seen| seen.tell(f64::from(lock(&shared).omitted), []));
        let shared = census.clone();
        meters.observe(&metrics::REPLICAS, move |seen| {
            for (state, count) in &lock(&shared).replicas {
                seen.tell(f64::from(*count), [state]);
            }
        });
        let shared = census.clone();
        meters.observe(&metrics::HEALTH_WATCHES, move |seen| {
            for (state, count) in &lock(&shared).health {
                seen.tell(f64::from(*count), [state]);
            }
        });
        let kinds = [ExecutorKind::Executor, ExecutorKind::NamespacedExecutor].map(ExecutorKind::as_str);
        Self {
            fold_time: meters.histogram(&metrics::FOLD_TIME),
            settle_time: meters.histogram(&metrics::SETTLE_TIME),
            writes: meters.counter(&metrics::STATUS_WRITES).from_zero(kinds.map(|kind| [kind, WRITTEN])),
            saved: meters.counter(&metrics::STATUS_WRITES_SAVED).from_zero(kinds.map(|kind| [kind])),
            foreign: meters.counter(&metrics::FOREIGN_WRITES).from_zero(kinds.map(|kind| [kind])),
            events: meters.counter(&metrics::EVENTS),
            swept: meters.counter(&metrics::SWEPT).from_zero(Why::DELETED.map(|why| [why.as_str()])),
            reconciles: meters.counter(&metrics::RECONCILE).from_zero(RESULTS.map(|result| [CONTROLLER, result])),
            errors: meters.counter(&metrics::RECONCILE_ERRORS),
            queue: meters.gauge(&metrics::QUEUE_DEPTH),
            census,
        }
    }

    /// A status was computed.
    pub fn folded(&self, took: Duration) {
        self.fold_time.took(took, []);
    }

    /// A status says that every replica has a verdict on a generation that was new so long ago.
    pub fn settled(&self, took: Duration) {
        self.settle_time.took(took, []);
    }

    /// A status that was computed is the one that stands.
    pub fn saved(&self, kind: ExecutorKind) {
        self.saved.one([kind.as_str()]);
    }

    /// A write ended: `ok`, `skipped`, or the category of its error.
    pub fn wrote(&self, kind: ExecutorKind, result: &str) {
        self.writes.one([kind.as_str(), result]);
        match result {
            WRITTEN => self.reconciles.one([CONTROLLER, "success"]),
            "skipped" => {}
            error => {
                self.reconciles.one([CONTROLLER, "error"]);
                self.errors.one([CONTROLLER, error]);
            }
        }
    }

    /// Another manager rewrote a status.
    pub fn foreign(&self, kind: ExecutorKind) {
        self.foreign.one([kind.as_str()]);
    }

    /// An Event was sent, limited or failed.
    pub fn event(&self, reason: &str, result: &str) {
        let known = muster_api::Reason::ALL.iter().any(|known| known.as_str() == reason);
        let reason = if known || reason == crate::announce::FOREIGN_WRITER { reason } else { "Other" };
        self.events.one([reason, result]);
    }

    /// A leftover was deleted.
    pub fn swept(&self, reason: &str) {
        self.swept.one([reason]);
    }

    /// So many executors wait for a look.
    pub fn waiting(&self, count: usize) {
        self.queue.set(count as f64, [CONTROLLER]);
    }

    /// What stands in all statuses now, and how the replicas are. Nothing on a standby.
    pub fn census<'a>(
        &self,
        statuses: impl Iterator<Item = &'a ExecutorStatus>,
        replicas: impl Iterator<Item = (Life, Health)>,
    ) {
        let mut census = Census { unserved: Some(0), ..Census::default() };
        for state in [&State::Pending, &State::Unknown, &State::Stale, &State::Outdated, &State::Current] {
            census.entries.insert(word(state), 0);
        }
        census.statuses.extend([("false", 0), ("true", 0)]);
        for status in statuses {
            *census.statuses.entry(if status.succeeded { "true" } else { "false" }).or_default() += 1;
            *census.unserved.get_or_insert_default() += u32::from(!is_served(status));
            for entry in &status.by_pod {
                *census.reasons.entry(reason_word(&entry.reason)).or_default() += 1;
                *census.entries.entry(word(&entry.state)).or_default() += 1;
            }
            for (state, count) in status.by_pod_omitted.iter().flat_map(|omitted| &omitted.by_state) {
                *census.entries.entry(word(&State::from(state.as_str()))).or_default() += count;
                census.omitted += count;
            }
        }
        for health in
            [Health::Serving, Health::NotServing, Health::Silent, Health::NoPort, Health::Doubtful, Health::Unheard]
        {
            census.health.insert(health.as_str(), 0);
        }
        for life in [Life::Expected, Life::Unschedulable, Life::Over] {
            census.replicas.insert(life.as_str(), 0);
        }
        for (life, health) in replicas {
            *census.replicas.entry(life.as_str()).or_default() += 1;
            if life.is_expected() {
                *census.health.entry(health.as_str()).or_default() += 1;
            }
        }
        *lock(&self.census) = census;
    }

    /// Nothing is known to a standby that a scrape should add to the leader's figures.
    pub fn no_census(&self) {
        *lock(&self.census) = Census::default();
    }
}

/// Whether any replica is known to serve something for an executor, listed or left out of the list for its size.
fn is_served(status: &ExecutorStatus) -> bool {
    status.replicas.as_ref().is_some_and(|replicas| replicas.succeeded > 0)
        || status.by_pod.iter().any(|entry| matches!(entry.serves, Serves::Wanted | Serves::Older | Serves::LastGood))
}

/// The closed list again: a word of a newer replica must not make a label of its own.
fn reason_word(reason: &Reason) -> &'static str {
    Reason::ALL.iter().find(|known| *known == reason).map_or("Other", |known| known.as_str())
}

fn word(state: &State) -> &'static str {
    match state {
        State::Pending => "Pending",
        State::Unknown => "Unknown",
        State::Stale => "Stale",
        State::Outdated => "Outdated",
        State::Current => "Current",
        State::Unrecognised(_) => "Other",
    }
}

fn lock(census: &Mutex<Census>) -> std::sync::MutexGuard<'_, Census> {
    census.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use muster_api::{Omitted, PodEntry, ReplicaCounts};

    use super::*;

    #[test]
    fn an_executor_is_served_if_a_replica_is_known_to_serve_it_listed_or_not() {
        let failing: PodEntry = serde_json::from_value(serde_json::json!({
            "id": "a", "podUID": "u", "observedGeneration": 1, "succeeded": false, "error": "", "briefError": "",
            "state": "Current", "reason": "Unreachable", "serves": "Nothing",
        }))
        .unwrap();
        let mut status = ExecutorStatus { by_pod: vec![failing], ..ExecutorStatus::default() };
        status.by_pod_omitted = Some(Omitted { count: 999, ..Omitted::default() });
        status.replicas = Some(ReplicaCounts { expected: 1_000, ..ReplicaCounts::default() });
        assert!(!is_served(&status), "all of them fail, also those that were left out");
        status.replicas = Some(ReplicaCounts { expected: 1_000, succeeded: 1, ..ReplicaCounts::default() });
        assert!(is_served(&status));
        status.replicas = None;
        status.by_pod[0].serves = Serves::LastGood;
        assert!(is_served(&status));
    }
}
