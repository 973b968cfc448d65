//! The chart, the kustomizations, the admission policy and the alerts, as users get them.

#[path = "deploy/alerts.rs"]
mod alerts;
#[path = "deploy/chart.rs"]
mod chart;
#[path = "deploy/policy.rs"]
mod policy;
#[path = "deploy/rights.rs"]
mod rights;
#[path = "deploy/server.rs"]
mod server;
#[path = "deploy/tools.rs"]
mod tools;
