//! Retry policies in virtual time against modelled rate limiters.
//!
//! A gate that learns from refusals can only be judged over hours of refusals. This package plays N resources of P
//! processes against an [`Upstream`] by discrete events: a run of a day takes milliseconds, and the same seed gives the
//! same run. The product's own [`Gate`](muster_core::gate::Gate) and [`Backoff`](muster_core::backoff::Backoff) decide,
//! nothing of them is modelled. The tests prove the bounds in time; the binary `livelock` prints the figures.

pub mod report;
mod upstream;
mod world;

pub use upstream::{Bucket, Charge, Gcra, Prolonged, Prolonging, Quota, Reply, RetryAfter, Unlimited, Upstream};
pub use world::{Call, Outcome, Policy, Scenario, run, run_observed};
