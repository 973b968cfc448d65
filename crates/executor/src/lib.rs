//! From an Executor spec to an in-memory executor.
//!
//! Four steps, each a module, each of its own kind of failure: [`compile`] reads the spec without any I/O (a mistake is
//! permanent), [`claims`] decides which executor of a bucket holds a scope (a conflict ends when another object changes),
//! [`build`] loads trust material through [`trust`] providers (may heal by itself), and [`serve_set`] answers lookups.
//! Nothing here knows the API server: who reconciles hands in specs and puts the results where they belong.

pub mod build;
pub mod claims;
pub mod compile;
pub mod scope;
pub mod serve_set;
pub mod trust;
mod warnings;
mod words;

pub use build::{BuildError, Built, build};
pub use claims::{Claim, claimed_scopes};
pub use compile::{CompileError, CompileOptions, Compiled, compile};
pub use scope::{Reference, ReferenceError, Scope, ScopeError};
pub use serve_set::{Bucket, LookupError, Resident, ServeSet, Served};
pub use trust::{ProviderKind, Sources, TrustProvider};
