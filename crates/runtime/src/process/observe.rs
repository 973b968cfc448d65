//! The metrics a process has without doing anything: its calls to the API server, its loops, its health.

use muster_core::heartbeat::LoopSnapshot;

use crate::client::Options;
use crate::health::Health;
use crate::heartbeat::Heartbeat;
use crate::metrics::{self, Meters, Metric};
use crate::telemetry::Component;

/// Counts and times calls to the API server.
pub(super) fn api_calls(options: Options, meters: &Meters) -> Options {
    let requests = meters.counter(&metrics::API_REQUESTS);
    let time = meters.histogram(&metrics::API_REQUEST_TIME);
    options.observed(move |call, answer, took| {
        requests.one([call.verb.as_str(), &call.resource, &answer.label()]);
        time.took(took, [call.verb.as_str()]);
    })
}

/// Shows the ledger, the checks and the build at each scrape.
pub(super) fn health(health: &Health, heartbeat: &Heartbeat, component: Component, meters: &Meters) {
    let flag = f64::from;
    meters.observe(&metrics::BUILD_INFO, move |seen| seen.tell(1.0, [component.name, component.version]));
    let asked = health.clone();
    meters.observe(&metrics::LIVE, move |seen| seen.tell(flag(u8::from(asked.liveness().is_ok())), []));
    let asked = health.clone();
    meters.observe(&metrics::READY, move |seen| seen.tell(flag(u8::from(asked.is_ready())), []));
    let asked = health.clone();
    meters.observe(&metrics::READINESS_CHECK, move |seen| {
        for line in asked.checks() {
            seen.tell(flag(u8::from(line.passed)), [line.name]);
        }
    });
    loops(heartbeat, meters, &metrics::LOOP_COMPLETED, |line| line.completed as f64);
    loops(heartbeat, meters, &metrics::LOOP_STUCK, |line| line.stuck_for.as_secs_f64());
    loops(heartbeat, meters, &metrics::LOOP_OVERDUE, |line| line.overdue as f64);
    loops(heartbeat, meters, &metrics::LOOP_RUNNING, |line| line.running as f64);
}

fn loops(heartbeat: &Heartbeat, meters: &Meters, metric: &'static Metric<1>, value: fn(&LoopSnapshot) -> f64) {
    let heartbeat = heartbeat.clone();
    meters.observe(metric, move |seen| {
        for line in heartbeat.snapshot() {
            seen.tell(value(&line), [line.loop_id.as_str()]);
        }
    });
}
