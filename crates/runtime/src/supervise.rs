//! No zombies: every long-lived task has a name, and one that ends or panics while the process should be running fails
//! liveness and ends the process with a reason. One reconcile run that panics is caught, counted and backed off instead.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The long-lived tasks of this process. Clones share them.
#[derive(Clone, Debug)]
pub struct Tasks {
    draining: CancellationToken,
    aborting: CancellationToken,
    tracker: TaskTracker,
    ended: Arc<Mutex<Vec<Ended>>>,
    noticed: Arc<Notify>,
}

/// A task ended although the process was not shutting down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {task} {how}")]
pub struct Ended {
    /// Its name.
    pub task: &'static str,
    /// How it ended.
    pub how: How,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// It returned, which it should not.
    Returned,
    /// It gave up with this reason.
    Failed(String),
    /// It panicked with this message.
    Panicked(String),
}

/// A future panicked; the message of the panic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {0}")]
pub struct Panicked(pub String);

/// What a task may return: nothing, or a reason for giving up.
pub trait Outcome {
    /// How the task ended, if it was not told to.
    fn how(self) -> How;
}

impl Tasks {
    /// No task yet. `draining` tells tasks to finish; `aborting` drops them where they are.
    pub fn new(draining: CancellationToken, aborting: CancellationToken) -> Self {
        Self { draining, aborting, tracker: TaskTracker::new(), ended: Arc::default(), noticed: Arc::default() }
    }

    /// Spawns a task that must run until the process drains.
    pub fn spawn<F>(&self, task: &'static str, future: F)
    where
        F: Future + Send + 'static,
        F::Output: Outcome + Send,
    {
        let tasks = self.clone();
        self.tracker.spawn(async move {
            let how = tokio::select! {
                biased;
                () = tasks.aborting.cancelled() => return,
                result = catch(future) => match result {
                    Ok(output) => output.how(),
                    Err(Panicked(message)) => How::Panicked(message),
                },
            };
            // A task that was told to finish may return, or fail on the way out; only a panic is never in order.
            if tasks.draining.is_cancelled() && !matches!(how, How::Panicked(_)) {
                tracing::debug!(task, "finished");
                return;
            }
            tasks.record(Ended { task, how });
        });
    }

    /// Records a task that ended outside [`Tasks::spawn`], such as a thread.
    pub fn record(&self, ended: Ended) {
        tracing::error!(task = ended.task, reason = %ended.how, "a task ended that must not");
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        self.noticed.notify_waiters();
    }

    /// The tasks that ended although they must not, in order.
    pub fn ended(&self) -> Vec<Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until a task has ended that must not.
    pub async fn first_ended(&self) -> Ended {
        loop {
            let noticed = self.noticed.notified();
            tokio::pin!(noticed);
            noticed.as_mut().enable();
            if let Some(ended) = self.ended().into_iter().next() {
                return ended;
            }
            noticed.await;
        }
    }

    /// Waits until all tasks have finished. Call it after draining or aborting began.
    pub async fn finished(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// How many tasks are running.
    pub fn running(&self) -> usize {
        self.tracker.len()
    }
}

impl Outcome for () {
    fn how(self) -> How {
        How::Returned
    }
}

impl<E: std::fmt::Display> Outcome for Result<(), E> {
    fn how(self) -> How {
        match self {
            Ok(()) => How::Returned,
            Err(error) => How::Failed(error.to_string()),
        }
    }
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Returned => f.write_str("ended without being told to"),
            Self::Failed(reason) => write!(f, "gave up: {reason}"),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
        }
    }
}

/// Runs one unit of work so that a panic becomes an error. State it shared by `&mut` may be half-changed, so hand it
/// only what is dropped with it or guarded by its own invariants.
pub async fn catch<F: Future>(future: F) -> Result<F::Output, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| Panicked(message(payload.as_ref())))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn tasks() -> (Tasks, CancellationToken, CancellationToken) {
        let (draining, aborting) = (CancellationToken::new(), CancellationToken::new());
        (Tasks::new(draining.clone(), aborting.clone()), draining, aborting)
    }

    async fn first(tasks: &Tasks) -> String {
        tokio::time::timeout(Duration::from_secs(5), tasks.first_ended()).await.expect("noticed").to_string()
    }

    async fn boom(message: &'static str) {
        std::future::ready(()).await;
        panic!("{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn c33_a_task_that_ends_is_noticed_with_its_name() {
        let (tasks, ..) = tasks();
        tasks.spawn("watch-executors", async {});
        assert_eq!(first(&tasks).await, "task watch-executors ended without being told to");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_and_a_failure_are_told_with_their_reason() {
        let (tasks, ..) = tasks();
        tasks.spawn("fold", boom("index 3 out of bounds"));
        assert_eq!(first(&tasks).await, "task fold panicked: index 3 out of bounds");

        let (tasks, ..) = self::tasks();
        tasks.spawn("lease", async { Err::<(), _>("no way on") });
        assert_eq!(first(&tasks).await, "task lease gave up: no way on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_told_to_finish_may_but_may_not_panic() {
        let (tasks, draining, _) = tasks();
        let told = draining.clone();
        tasks.spawn("good", async move { told.cancelled().await });
        let told = draining.clone();
        tasks.spawn("bad", async move {
            told.cancelled().await;
            boom("on the way out").await;
        });
        draining.cancel();
        tasks.finished().await;
        assert_eq!(tasks.ended().len(), 1);
        assert_eq!(first(&tasks).await, "task bad panicked: on the way out");
    }

    #[tokio::test(start_paused = true)]
    async fn aborting_drops_a_task_that_will_not_finish() {
        let (tasks, draining, aborting) = tasks();
        tasks.spawn("stuck", std::future::pending::<()>());
        draining.cancel();
        assert!(tokio::time::timeout(Duration::from_mins(1), tasks.finished()).await.is_err());
        aborting.cancel();
        tasks.finished().await;
        assert_eq!(tasks.ended(), []);
    }

    #[tokio::test]
    async fn one_run_that_panics_is_an_error_like_any_other() {
        assert_eq!(catch(async { 7 }).await, Ok(7));
        assert_eq!(catch(boom("bad object")).await.unwrap_err().to_string(), "panicked: bad object");
    }
}
