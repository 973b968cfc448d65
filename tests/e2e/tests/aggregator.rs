//! What the aggregator does on a real API server, under the service account and the roles that we ship.

#[path = "aggregator/bounds.rs"]
mod bounds;
#[path = "aggregator/cast.rs"]
mod cast;
#[path = "aggregator/freshness.rs"]
mod freshness;
#[path = "aggregator/halves.rs"]
mod halves;
#[path = "../../../crates/aggregator/tests/oracle/mod.rs"]
mod oracle;
#[path = "aggregator/pair.rs"]
mod pair;
#[path = "aggregator/pods.rs"]
mod pods;
#[path = "aggregator/rights.rs"]
mod rights;
#[path = "aggregator/stage.rs"]
mod stage;
#[path = "aggregator/sweep.rs"]
mod sweep;
#[path = "aggregator/valve.rs"]
mod valve;
#[path = "aggregator/writes.rs"]
mod writes;
