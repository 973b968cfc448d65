//! What every Muster process stands on: arguments, API client, telemetry, health, admin, shutdown, lease.
//!
//! Decisions live in `muster-core`; this crate gives them a clock, a socket and an API server. Each module is one concern
//! of a controller process, so this list reads as its table of contents.

pub mod admin;
pub mod args;
pub mod client;
pub mod clock;
#[cfg(test)]
mod fake;
pub mod fault;
pub mod health;
pub mod heartbeat;
pub mod kube_error;
pub mod lease;
pub mod metrics;
pub mod net;
pub mod process;
pub mod replica;
pub mod rng;
pub mod shutdown;
pub mod supervise;
pub mod telemetry;
pub mod watch;
