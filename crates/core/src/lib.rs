//! Decisions about time, texts and names that every Muster process shares.
//!
//! Nothing here knows a client, a clock or a source of randomness: monotonic time is a [`std::time::Duration`] since
//! process start, wall time a [`jiff::Timestamp`], randomness the caller's [`rand::Rng`]. So each rule can be tested
//! with scripted time, and none can be changed by stepping the wall clock (C54).

pub mod backoff;
pub mod election;
pub mod gate;
pub mod go_duration;
pub mod heartbeat;
pub mod name;
pub mod retry;
pub mod retry_after;
pub mod text;
