//! Providers, gates and tokens against a real HTTP server that misbehaves on request. Where waits are long, both sides
//! run in scaled time.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helpers fail as its tests do")]

#[path = "upstreams/answers.rs"]
mod answers;
#[path = "upstreams/azure.rs"]
mod azure;
#[path = "upstreams/ferrvault.rs"]
mod ferrvault;
#[path = "upstreams/gate.rs"]
mod gate;
#[path = "upstreams/leaks.rs"]
mod leaks;
#[path = "upstreams/network.rs"]
mod network;
#[path = "upstreams/secrets.rs"]
mod secrets;
#[path = "upstreams/world.rs"]
mod world;
