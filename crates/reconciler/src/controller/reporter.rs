//! Whichever way this replica reports.

use muster_api::{ExecutorRef, PodReport};
use muster_runtime::kube_error::Verdict;

use crate::subject::Own;
use crate::{act, standalone};

/// Writes outcomes.
#[derive(Clone)]
pub enum Reporter {
    /// Into objects of this pod.
    Pod(Box<act::Writer>),
    /// Into the executors themselves.
    Standalone(standalone::Writer),
}

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
