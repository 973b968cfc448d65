//! What replicas do behind real upstreams, on a real API server, under the service account and the roles that we ship.

#[path = "upstreams/behind.rs"]
mod behind;
#[path = "upstreams/changes.rs"]
mod changes;
#[path = "upstreams/leaks.rs"]
mod leaks;
#[path = "upstreams/storms.rs"]
mod storms;

#[path = "replica/stage.rs"]
#[expect(dead_code, reason = "shared with the tests of replicas, which use the rest")]
mod stage;
