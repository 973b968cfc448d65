//! An upstream that misbehaves on request, for tests, the demo and the benches.
//!
//! It speaks real HTTP and HTTPS: enough of the Azure Key Vault APIs with their token endpoints ([`azure`]) and of
//! FerrVault's API ([`ferrvault`]), behind one rate limit per token ([`Limit`]), with faults by rule ([`Fault`]). It
//! keeps a log of all it was sent, secrets included, so that a test which looks for leaked secrets can first prove that
//! they were really used. Time can run faster than real time ([`Config::scale`]): then rates, windows, latencies, life
//! times and `Retry-After` all count in scaled seconds.
//!
//! A test holds an [`Upstream`] and changes its [`Behaviour`] through it; anything else does so with JSON at `/_control`.

pub mod azure;
mod behaviour;
mod clock;
mod control;
mod fault;
pub mod ferrvault;
mod journal;
mod meter;
mod proxy;
mod request;
mod server;
mod tls;
mod upstream;

pub use behaviour::{Behaviour, Config, Fault, Limit, Prolong, RetryAfter, Rule};
pub use journal::{Counts, Entry, Outcome};
pub use proxy::Proxy;
pub use tls::authority_pem;
pub use upstream::{Error, Upstream};
