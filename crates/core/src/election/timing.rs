//! The three durations of leader election, and which combinations are safe.

use std::time::Duration;

use rand::{Rng, RngExt as _};

use crate::go_duration::GoDuration;

/// Durations of leader election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

/// Why a [`Timing`] is unsafe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The Lease stores whole seconds; a fraction would be cut off for everybody else, who would take over too early.
    #[error("a lease duration of {} is not a whole number of seconds from 1s on", go(*lease))]
    LeaseNotWholeSeconds {
        /// The refused lease duration.
        lease: Duration,
    },
    /// A leader would still lead when others may take over.
    #[error("the renew deadline ({}) must be below the lease duration ({})", go(*renew_deadline), go(*lease))]
    RenewDeadlineTooLong {
        /// The refused renew deadline.
        renew_deadline: Duration,
        /// The lease duration.
        lease: Duration,
    },
    /// The deadline would strike before the second try.
    #[error("the renew deadline ({}) must be above 1.2 times the retry period ({})", go(*renew_deadline), go(*retry))]
    RetryTooLong {
        /// The renew deadline.
        renew_deadline: Duration,
        /// The refused retry period.
        retry: Duration,
    },
    /// A busy loop.
    #[error("the retry period must be above zero")]
    ZeroRetry,
}

impl Timing {
    /// Checks client-go's rules (`lease > renew_deadline > 1.2 × retry > 0`), and that the lease is whole seconds.
    pub fn new(lease: Duration, renew_deadline: Duration, retry: Duration) -> Result<Self, TimingError> {
        if lease.is_zero() || lease.subsec_nanos() != 0 {
            return Err(TimingError::LeaseNotWholeSeconds { lease });
        }
        if renew_deadline >= lease {
            return Err(TimingError::RenewDeadlineTooLong { renew_deadline, lease });
        }
        if retry.is_zero() {
            return Err(TimingError::ZeroRetry);
        }
        if renew_deadline <= retry.saturating_mul(6) / 5 {
            return Err(TimingError::RetryTooLong { renew_deadline, retry });
        }
        Ok(Self { lease, renew_deadline, retry })
    }

    /// How long a claim holds for those who see it.
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// How long a leader tries to renew before it steps down.
    pub const fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// Pause between two tries, before jitter.
    pub const fn retry(&self) -> Duration {
        self.retry
    }

    /// A pause: the retry period and up to a fifth more, client-go's jitter.
    pub(super) fn pause(&self, rng: &mut (impl Rng + ?Sized)) -> Duration {
        self.retry + rng.random_range(Duration::ZERO..=self.retry / 5)
    }

    /// How long after sending the write that made or renewed it a claim must at most be relied on. The tenth that is
    /// left over is for clocks that do not run equally fast; between two machines' crystals it is some thousandths.
    pub(super) fn reliable(&self) -> Duration {
        self.lease / 10 * 9
    }
}

impl Default for Timing {
    /// 15 s, 10 s, 2 s: the defaults of client-go and of Kubernetes' own components.
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), renew_deadline: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

impl TimingError {
    /// Stable word for this kind of error.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::LeaseNotWholeSeconds { .. } => "LeaseNotWholeSeconds",
            Self::RenewDeadlineTooLong { .. } => "RenewDeadlineTooLong",
            Self::RetryTooLong { .. } => "RetryTooLong",
            Self::ZeroRetry => "ZeroRetry",
        }
    }
}

fn go(duration: Duration) -> String {
    GoDuration::try_from(duration).map_or_else(|_| format!("{}s", duration.as_secs()), |duration| duration.to_string())
}
