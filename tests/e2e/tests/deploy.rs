//! The chart, the kustomizations, the admission policy and the alerts, as users get them.

#[path = "deploy/alerts.rs"]
mod alerts;
#[path = "upstreams/behind.rs"]
#[expect(dead_code, reason = "shared with the tests of upstreams, which use the rest")]
mod behind;
#[path = "deploy/chart.rs"]
mod chart;
#[path = "deploy/policy.rs"]
mod policy;
#[path = "deploy/rights.rs"]
mod rights;
#[path = "deploy/scrape.rs"]
mod scrape;
#[path = "deploy/server.rs"]
mod server;
#[path = "replica/stage.rs"]
#[expect(dead_code, reason = "shared with the tests of replicas, which use the rest")]
mod stage;
#[path = "deploy/tools.rs"]
mod tools;
