//! Somebody who looks at an executor all the time, and remembers every claim that all is ready.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::runtime::{WatchStreamExt as _, watcher};
use muster_api::{Executor, State};

use crate::stage::Stage;

/// What was seen of one executor since it began to look.
pub(crate) struct Witness {
    seen: Arc<Mutex<Vec<Executor>>>,
    looking: tokio::task::JoinHandle<()>,
}

impl Witness {
    pub(crate) fn of(stage: &Stage, name: &str) -> Self {
        let seen = Arc::<Mutex<Vec<Executor>>>::default();
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let stream = watcher(stage.executors(), config).default_backoff().applied_objects();
        let notes = Arc::clone(&seen);
        let looking = tokio::spawn(async move {
            let mut stream = stream.into_stream().boxed();
            while let Some(executor) = stream.next().await {
                if let Ok(executor) = executor {
                    notes.lock().unwrap_or_else(PoisonError::into_inner).push(executor);
                }
            }
        });
        Self { seen, looking }
    }

    /// Every "all ready" was true: at least `fewest` replicas, each of which had built this generation and was heard. There
    /// were at least `writes` changes, so that something was seen at all.
    pub(crate) fn saw_no_wrong_claim(self, fewest: usize, writes: usize) -> Result<usize> {
        self.looking.abort();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(seen.len() >= writes, "only {} changes were seen", seen.len());
        for executor in seen.iter() {
            let Some(status) = executor.status.as_ref().filter(|status| status.succeeded) else { continue };
            let current = status.by_pod.iter().all(|entry| entry.succeeded && entry.state == State::Current);
            let expected = status.replicas.as_ref().map_or(0, |replicas| replicas.expected);
            ensure!(status.by_pod.len() >= fewest && current, "a wrong claim: {status:?}");
            ensure!(u64::from(expected) == status.by_pod.len() as u64, "{expected} expected: {status:?}");
        }
        Ok(seen.len())
    }
}
