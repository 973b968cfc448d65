//! Probes and scrapes have a thread and a runtime of their own: work that keeps the main runtime busy for seconds must
//! not fail a probe. Whether that work still makes progress is the ledger's to judge, and it is asked from here.

use axum::Router;
use tokio::sync::oneshot;
use tonic::service::Routes;

use crate::health::Health;
use crate::net::Bound;
use crate::supervise::{Ended, How, Tasks};
use crate::{admin, health};

const NAME: &str = "probes";

/// How long the ports may take to close.
const CLOSING: std::time::Duration = std::time::Duration::from_secs(2);

/// The thread that answers.
#[derive(Debug)]
pub(super) struct Probes(oneshot::Receiver<()>);

impl Probes {
    /// Waits until the ports are closed, or long enough.
    pub(super) async fn ended(self) {
        // An error means that the thread is gone, which is what is waited for.
        let _ = tokio::time::timeout(CLOSING, self.0).await;
    }
}

/// Records the end of the thread, by whatever way it ends.
struct Mourner {
    health: Health,
    tasks: Tasks,
    how: How,
    done: Option<oneshot::Sender<()>>,
}

impl Mourner {
    /// Records that it ended in this way, and not by a panic.
    fn mourn(mut self, how: How) {
        self.how = how;
    }
}

impl Drop for Mourner {
    fn drop(&mut self) {
        if !self.health.closed().is_cancelled() {
            self.tasks.record(Ended { task: NAME, how: self.how.clone() });
        }
        if let Some(done) = self.done.take() {
            let _ = done.send(());
        }
    }
}

/// Answers on both ports until [`Health::close`].
pub(super) fn start(grpc: Bound, routes: Routes, http: Bound, pages: Router, health: Health, tasks: Tasks) -> Probes {
    let (done, ended) = oneshot::channel();
    let how = How::Panicked("in the probes' thread".to_owned());
    let mourner = Mourner { health: health.clone(), tasks, how, done: Some(done) };
    let serve = async move {
        let grpc = async { health::serve(grpc, routes, health.clone()).await.map_err(|error| error.to_string()) };
        let http = async { admin::serve(http, pages, health.clone()).await.map_err(|error| error.to_string()) };
        futures::future::try_join(grpc, http).await.map(|_| ())
    };
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let result = runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(serve));
        mourner.mourn(result.map_or_else(How::Failed, |()| How::Returned));
    };
    if let Err(error) = std::thread::Builder::new().name(NAME.to_owned()).spawn(run) {
        // The closure, and the mourner in it, were dropped: that the thread is missing is recorded.
        tracing::error!(%error, "cannot start the probes' thread");
    }
    Probes(ended)
}
