//! What a replica does on a real API server, under the service account and the roles that we ship.

#[path = "replica/backoff.rs"]
mod backoff;
#[path = "replica/economy.rs"]
mod economy;
#[path = "replica/identity.rs"]
mod identity;
#[path = "replica/quota.rs"]
mod quota;
#[path = "replica/reporting.rs"]
mod reporting;
#[path = "replica/rights.rs"]
mod rights;
#[path = "replica/samples.rs"]
mod samples;
#[path = "replica/stage.rs"]
mod stage;
#[path = "replica/standalone.rs"]
mod standalone;
#[path = "replica/texts.rs"]
mod texts;
