//! Liveness and readiness of the shipped Deployments on a real API server, asked over real gRPC by the kubelet's rules,
//! while a proxy in front of the API server, signals and injected faults do their worst.
//!
//! Durations are scaled by flags where the real ones are long; `cargo xtask test --long` uses the real ones.

#[path = "liveness/clock.rs"]
mod clock;
#[path = "liveness/failover.rs"]
mod failover;
#[path = "liveness/hang.rs"]
mod hang;
#[path = "liveness/lease.rs"]
mod lease;
#[path = "liveness/matrix.rs"]
mod matrix;
#[path = "liveness/outage.rs"]
mod outage;
#[path = "liveness/ports.rs"]
mod ports;
#[path = "liveness/probe.rs"]
mod probe;
#[path = "liveness/quiet.rs"]
mod quiet;
#[path = "liveness/refusals.rs"]
mod refusals;
#[path = "liveness/shutdown.rs"]
mod shutdown;
#[path = "liveness/stage.rs"]
mod stage;
#[path = "liveness/start.rs"]
mod start;
#[path = "liveness/watches.rs"]
mod watches;
#[path = "liveness/witness.rs"]
mod witness;
