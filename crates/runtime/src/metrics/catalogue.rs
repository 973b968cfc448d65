//! Every metric of every Muster process, as one table. The shapes of `muster_reconcile_*` are controller-runtime's, which
//! dashboards know.

use super::{Entry, Kind, Metric, Unit};

/// Buckets for what takes milliseconds and may take a minute, in seconds.
const WORK: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Buckets for waits behind a gate, up to hours, in seconds.
const WAITS: &[f64] = &[0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0];
/// Buckets for pure computing, in seconds.
const MICROS: &[f64] = &[0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25];
/// Buckets for how long a new generation takes, in seconds.
const ROLLS: &[f64] = &[0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3_600.0];
/// For what has none.
const NONE: &[f64] = &[];

macro_rules! catalogue {
    ($($id:ident: $kind:ident($name:literal, $unit:ident, [$($label:literal),*], $buckets:ident) = $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $id: Metric<{ let labels: &[&str] = &[$($label),*]; labels.len() }> = Metric {
                name: $name,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: [$($label),*],
                buckets: $buckets,
                help: $help,
            };
        )*

        /// All of them, in the order of the documentation.
        pub static CATALOGUE: &[Entry] = &[$($id.entry()),*];
    };
}

catalogue! {
    // Every process.
    BUILD_INFO: Gauge("muster_build_info", Count, ["component", "version"], NONE) = "Always 1; what is running.";
    LIVE: Gauge("muster_live", Count, [], NONE) = "1 while liveness passes.";
    READY: Gauge("muster_ready", Count, [], NONE) = "1 while readiness passes.";
    READINESS_CHECK: Gauge("muster_readiness_check", Count, ["check"], NONE) = "1 while this check passes.";
    LOOP_COMPLETED: Counter("muster_loop_completed_total", Count, ["loop"], NONE) = "Runs a loop completed, good or bad.";
    LOOP_STUCK: Gauge("muster_loop_stuck_seconds", Seconds, ["loop"], NONE) = "How long a loop has made no progress although something was due; liveness fails above the stall threshold.";
    LOOP_OVERDUE: Gauge("muster_loop_overdue", Count, ["loop"], NONE) = "Pieces of work that are due and not started.";
    LOOP_RUNNING: Gauge("muster_loop_running", Count, ["loop"], NONE) = "Runs that are going on.";
    API_REQUESTS: Counter("muster_api_requests_total", Count, ["verb", "resource", "code"], NONE) = "Calls to the API server by outcome; code is the HTTP status, timeout or broken.";
    API_REQUEST_TIME: Histogram("muster_api_request_time_seconds", Seconds, ["verb"], WORK) = "Time of a call to the API server; for a watch, until it began.";
    WATCH_STARTS: Counter("muster_watch_starts_total", Count, ["watch", "reason"], NONE) = "Times a watch was started: the first time, after its orderly end (timeout), after it fell silent, or after an error of this category.";
    WATCH_SYNCED: Gauge("muster_watch_synced", Count, ["watch"], NONE) = "1 once the first list of this watch is complete.";
    WATCH_SKIPPED: Counter("muster_watch_objects_skipped_total", Count, ["watch"], NONE) = "Objects that could not be decoded and were skipped.";
    // Reconcile loops, in controller-runtime's shapes.
    RECONCILE: Counter("muster_reconcile_total", Count, ["controller", "result"], NONE) = "Runs by result: success or error.";
    RECONCILE_ERRORS: Counter("muster_reconcile_errors_total", Count, ["controller", "reason"], NONE) = "Failed runs by reason.";
    RECONCILE_TIME: Histogram("muster_reconcile_time_seconds", Seconds, ["controller"], WORK) = "Time of a run, waits at a gate excluded.";
    RECONCILE_PANICS: Counter("muster_reconcile_panics_total", Count, ["controller"], NONE) = "Runs that panicked; each was caught and backed off.";
    RECONCILE_TIMEOUTS: Counter("muster_reconcile_timeouts_total", Count, ["controller"], NONE) = "Runs given up at their hard deadline.";
    ACTIVE_WORKERS: Gauge("muster_active_workers", Count, ["controller"], NONE) = "Runs at work now.";
    MAX_CONCURRENT: Gauge("muster_max_concurrent_reconciles", Count, ["controller"], NONE) = "Most runs at work at once.";
    QUEUE_DEPTH: Gauge("muster_queue_depth", Count, ["controller"], NONE) = "Objects waiting for a run.";
    RETRIES: Counter("muster_retries_total", Count, ["controller", "class"], NONE) = "Runs that will be tried again, by retry class.";
    EVENTS: Counter("muster_events_total", Count, ["reason", "result"], NONE) = "Kubernetes Events: sent, limited or failed.";
    // The reconciler.
    EXECUTORS: Gauge("muster_executors", Count, ["kind", "serves"], NONE) = "Executors this replica knows, by what it serves for them.";
    BUILDS: Counter("muster_builds_total", Count, ["kind", "reason"], NONE) = "Verdicts reached by this replica, by reason.";
    REPORTS: Counter("muster_reports_total", Count, ["result"], NONE) = "Writes of this replica's own status objects by result.";
    TRUST_EXPIRES: Gauge("muster_trust_expires_seconds", Seconds, [], NONE) = "Seconds until the first trust material in use expires; negative once it has.";
    UPSTREAM_REQUESTS: Counter("muster_upstream_requests_total", Count, ["provider", "outcome"], NONE) = "Calls to upstreams by outcome: answered, throttled or failed.";
    UPSTREAM_REQUEST_TIME: Histogram("muster_upstream_request_time_seconds", Seconds, ["provider"], WORK) = "Time of a call to an upstream.";
    GATES: Gauge("muster_gates", Count, [], NONE) = "Credentials with a gate.";
    GATE_WAITING: Gauge("muster_gate_waiting", Count, ["line"], NONE) = "Resources waiting at a gate, urgent or refresh.";
    GATE_WAIT_TIME: Histogram("muster_gate_wait_time_seconds", Seconds, ["line"], WAITS) = "Time a resource waited at a gate.";
    GATE_REFUSALS: Counter("muster_gate_refusals_total", Count, [], NONE) = "Calls an upstream refused for their number: 429, 503 with Retry-After, or a 403 that speaks of throttling.";
    GATE_OLDEST_WAIT: Gauge("muster_gate_oldest_wait_seconds", Seconds, [], NONE) = "Longest wait at a gate at present.";
    // The aggregator.
    LEADER: Gauge("muster_leader", Count, [], NONE) = "1 on the aggregator that leads.";
    LEADER_CHANGES: Counter("muster_leader_changes_total", Count, ["change"], NONE) = "Times this aggregator began to lead, or stopped, by reason.";
    LEASE_CALLS: Counter("muster_lease_calls_total", Count, ["action", "result"], NONE) = "Calls for the Lease.";
    FOLD_TIME: Histogram("muster_fold_time_seconds", Seconds, [], MICROS) = "Time of computing one status.";
    SETTLE_TIME: Histogram("muster_settle_time_seconds", Seconds, [], ROLLS) = "Time from a new generation of an executor, as the leader saw it, until its status says that every replica has a verdict on it.";
    STATUS_WRITES: Counter("muster_status_writes_total", Count, ["kind", "result"], NONE) = "Writes of Executor.status by result.";
    STATUS_WRITES_SAVED: Counter("muster_status_writes_saved_total", Count, ["kind"], NONE) = "Folds that changed nothing and were not written.";
    FOREIGN_WRITES: Counter("muster_foreign_status_writes_total", Count, ["kind"], NONE) = "Times another manager rewrote a status after us.";
    REPLICAS: Gauge("muster_replicas", Count, ["state"], NONE) = "Reconciler replicas by state, as the leader sees them.";
    STATUSES: Gauge("muster_executor_statuses", Count, ["ready"], NONE) = "Executors by whether their status says Ready.";
    UNSERVED: Gauge("muster_executors_unserved", Count, [], NONE) = "Executors that no replica is known to serve.";
    ENTRIES: Gauge("muster_by_pod_entries", Count, ["state"], NONE) = "Entries of byPod of all Executors by state.";
    ENTRY_REASONS: Gauge("muster_by_pod_reasons", Count, ["reason"], NONE) = "Entries of byPod of all Executors by reason, omitted ones apart.";
    ENTRIES_OMITTED: Gauge("muster_by_pod_omitted", Count, [], NONE) = "Entries left out of byPod for its size.";
    HEALTH_WATCHES: Gauge("muster_health_watches", Count, ["state"], NONE) = "Health watches to replicas: serving, not_serving, unreachable, no_port, in_doubt (all lost at once) or unheard (a new leader has not reached it yet).";
    SWEPT: Counter("muster_swept_total", Count, ["reason"], NONE) = "Leftover status objects deleted, by reason.";
}
