//! Whichever way this replica reports, and what its failures are told as: one line for a kind of trouble, not one for
//! each executor and attempt.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::{ExecutorRef, PodReport};
use muster_core::retry::Retry;
use muster_runtime::clock::Clock;
use muster_runtime::kube_error::Verdict;

use crate::subject::Own;
use crate::{act, standalone};

/// The same kind of trouble is told again after this.
const REMIND: Duration = Duration::from_mins(10);

/// Writes outcomes.
#[derive(Clone)]
pub enum Reporter {
    /// Into objects of this pod.
    Pod(Box<act::Writer>),
    /// Into the executors themselves.
    Standalone(standalone::Writer),
}

/// What was told, and when. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble(Arc<Mutex<HashMap<&'static str, Duration>>>);

impl Reporter {
    /// Writes an outcome.
    pub(super) async fn report(&self, executor: &ExecutorRef, report: &PodReport) -> Result<Own, Verdict> {
        match self {
            Self::Pod(writer) => writer.apply(executor, report).await,
            Self::Standalone(writer) => writer.write(executor, report).await,
        }
    }

    /// Removes what was written about an executor that is gone.
    pub(super) async fn erase(&self, name: &str, uid: &str) -> Result<(), Verdict> {
        match self {
            Self::Pod(writer) => writer.delete(name, uid).await,
            // It went with the executor.
            Self::Standalone(_) => Ok(()),
        }
    }
}

impl Trouble {
    pub(super) fn tell(&self, clock: &Clock, verdict: &Verdict) {
        let now = clock.now();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let category = verdict.category();
        let fresh = told.get(category).is_none_or(|at| now.saturating_sub(*at) >= REMIND);
        if !fresh {
            tracing::debug!(category, error = %verdict, "the own status was not written");
            return;
        }
        told.insert(category, now);
        if verdict.retry == Retry::Unauthorized {
            tracing::error!(
                category,
                "the API server no longer accepts this pod's token: the pod was probably deleted; what it would report is lost"
            );
        } else {
            tracing::warn!(category, error = %verdict, "the own status was not written, trying again");
        }
    }
}
