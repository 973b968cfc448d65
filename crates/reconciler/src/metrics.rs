//! What a replica counts. Labels come from closed lists; no pod, no executor is named.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_api::{Reason, RetryClass, Serves};
use muster_runtime::clock::Clock;
use muster_runtime::metrics::{self as catalogue, Counter, Gauge, Histogram, Meters};

use crate::controller::Shared;
use crate::subject::Failure;

/// Value of the `controller` label.
const CONTROLLER: &str = "executor";
/// How a run ends.
const RESULTS: [&str; 2] = ["success", "error"];

/// The instruments of a replica. Clones are the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    builds: Counter<2>,
    runs: Counter<2>,
    errors: Counter<2>,
    time: Histogram<1>,
    panics: Counter<1>,
    timeouts: Counter<1>,
    retries: Counter<2>,
    reports: Counter<1>,
    active: Gauge<1>,
    gate_waits: Histogram<1>,
    at_work: Arc<AtomicUsize>,
}

/// Counts as a run at work until it is dropped.
#[derive(Debug)]
pub struct Active(Metrics);

impl Metrics {
    /// Makes the instruments; `workers` is how many builds may run at once.
    pub fn new(meters: &Meters, workers: usize) -> Self {
        meters.gauge(&catalogue::MAX_CONCURRENT).set(workers as f64, [CONTROLLER]);
        Self {
            builds: meters.counter(&catalogue::BUILDS),
            runs: meters.counter(&catalogue::RECONCILE).from_zero(RESULTS.map(|result| [CONTROLLER, result])),
            errors: meters.counter(&catalogue::RECONCILE_ERRORS),
            time: meters.histogram(&catalogue::RECONCILE_TIME),
            panics: meters.counter(&catalogue::RECONCILE_PANICS).from_zero([[CONTROLLER]]),
            timeouts: meters.counter(&catalogue::RECONCILE_TIMEOUTS).from_zero([[CONTROLLER]]),
            retries: meters.counter(&catalogue::RETRIES),
            reports: meters.counter(&catalogue::REPORTS).from_zero([["ok"]]),
            active: meters.gauge(&catalogue::ACTIVE_WORKERS),
            gate_waits: meters.histogram(&catalogue::GATE_WAIT_TIME),
            at_work: Arc::default(),
        }
    }

    /// A verdict of an executor of this kind.
    pub fn built(&self, kind: &str, result: Result<(), &Failure>) {
        match result {
            Ok(()) => {
                self.builds.one([kind, Reason::Built.as_str()]);
                self.runs.one([CONTROLLER, "success"]);
            }
            Err(failure) => {
                self.builds.one([kind, failure.reason.as_str()]);
                self.runs.one([CONTROLLER, "error"]);
                self.errors.one([CONTROLLER, failure.reason.as_str()]);
                let class = failure.reason.retry_class();
                if !matches!(class, RetryClass::None | RetryClass::Permanent | RetryClass::Blocked) {
                    self.retries.one([CONTROLLER, &format!("{class:?}")]);
                }
            }
        }
    }

    /// A request for the own object ended: `ok`, or the category of its error.
    pub fn reported(&self, result: &str) {
        self.reports.one([result]);
    }

    /// A run took so long, gates excluded.
    pub fn took(&self, time: Duration) {
        self.time.took(time, [CONTROLLER]);
    }

    /// A run waited so long at a gate, in this line.
    pub fn waited(&self, time: Duration, line: &str) {
        self.gate_waits.took(time, [line]);
    }

    /// A run panicked.
    pub fn panicked(&self) {
        self.panics.one([CONTROLLER]);
    }

    /// A run met its deadline.
    pub fn timed_out(&self) {
        self.timeouts.one([CONTROLLER]);
    }

    /// A run is at work until this is dropped.
    pub fn active(&self) -> Active {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        self.show_active();
        Active(self.clone())
    }

    fn show_active(&self) {
        self.active.set(self.at_work.load(Ordering::Relaxed) as f64, [CONTROLLER]);
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::Relaxed);
        self.0.show_active();
    }
}

/// Tells, at each scrape, what the replica serves and when the first of its certificates expires.
pub fn observe(meters: &Meters, shared: Shared, clock: Clock) {
    let state = shared.clone();
    meters.observe(&catalogue::EXECUTORS, move |gauge| {
        let mut counts: BTreeMap<(&str, String), u32> = BTreeMap::new();
        for (_, subject) in state.lock().replica.subjects().filter(|(_, subject)| subject.present().is_some()) {
            let serves = subject.served.as_ref().map_or(&Serves::Nothing, |served| &served.serves);
            *counts.entry((subject.reference.kind.as_str(), serves.to_string())).or_default() += 1;
        }
        for ((kind, serves), count) in counts {
            gauge.tell(f64::from(count), [kind, &serves]);
        }
    });
    meters.observe(&catalogue::TRUST_EXPIRES, move |gauge| {
        let state = shared.lock();
        let in_use = state.replica.subjects().filter(|(_, subject)| subject.served.is_some());
        let expiries = in_use.filter_map(|(_, subject)| subject.held.as_ref()?.facts.trust_expires_at);
        if let Some(first) = expiries.min() {
            gauge.tell(first.duration_since(clock.wall()).as_secs_f64(), []);
        }
    });
}
