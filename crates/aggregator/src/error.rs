//! Why an aggregator does not start, or ends. Whatever may heal by itself is no error here: it is waited for.

use muster_core::election::TimingError;
use muster_runtime::process::{RunError, StartError};

/// The process ends with this.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be set up.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It does not know who it is.
    #[error("{variable} is not set: it comes from the downward API of the pod")]
    Identity {
        /// The missing variable.
        variable: &'static str,
    },
    /// The times of leader election contradict each other.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// It ended otherwise than by being told to.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Error {
    /// Stable word for logs.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Start(error) => error.category(),
            Self::Identity { .. } => "Identity",
            Self::Timing(_) => "Timing",
            Self::Run(error) => error.category(),
        }
    }
}
