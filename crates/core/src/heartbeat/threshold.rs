//! A threshold below what a legal run may take would restart healthy processes; this refuses it at start.

use std::time::Duration;

use crate::go_duration::GoDuration;

/// Why a stall threshold is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// A run may legally take more than half of the threshold.
    #[error(
        "a stall threshold of {} is below twice the longest deadline ({longest}: {}); \
         use at least {}, or 0 to disable the check",
        go(*threshold),
        go(*deadline),
        go(deadline.saturating_mul(2))
    )]
    TooShort {
        /// The refused threshold.
        threshold: Duration,
        /// Name of the longest deadline.
        longest: &'static str,
        /// The longest deadline.
        deadline: Duration,
    },
}

/// Checks `threshold` against the hard deadlines of all runs, each with its name (a flag's, best). Zero disables the
/// verdict and is always accepted. Twice the longest: a run may start just before the threshold begins to count for the
/// next one, and its deadline needs room to strike, be recorded and be seen by a probe.
pub fn validate_threshold(
    threshold: Duration,
    deadlines: impl IntoIterator<Item = (&'static str, Duration)>,
) -> Result<(), ThresholdError> {
    let Some((longest, deadline)) = deadlines.into_iter().max_by_key(|(_, deadline)| *deadline) else {
        return Ok(());
    };
    if threshold.is_zero() || threshold >= deadline.saturating_mul(2) {
        return Ok(());
    }
    Err(ThresholdError::TooShort { threshold, longest, deadline })
}

impl ThresholdError {
    /// Stable word for this kind of error.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::TooShort { .. } => "TooShort",
        }
    }
}

fn go(duration: Duration) -> String {
    GoDuration::try_from(duration).map_or_else(|_| format!("{}s", duration.as_secs()), |duration| duration.to_string())
}
