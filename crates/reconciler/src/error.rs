//! Why a replica does not start, or ends. Whatever may heal by itself is no error here: it is waited for.

use muster_runtime::process::{RunError, StartError};

use crate::{identity, upstreams};

/// The process ends with this.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be set up.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It does not know who it is.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// It cannot reach upstreams at all.
    #[error(transparent)]
    Upstreams(#[from] upstreams::Error),
    /// It ended otherwise than by being told to.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Error {
    /// Stable word for logs.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Start(error) => error.category(),
            Self::Identity(error) => error.category(),
            Self::Upstreams(error) => error.category(),
            Self::Run(error) => error.category(),
        }
    }
}
