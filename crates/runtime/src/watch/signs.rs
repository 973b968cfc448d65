//! Signs of life of something that waits for others most of the time. A watch that is quiet, or resumed in good order,
//! tells nothing, but it always sends a request before long: each request, event and error is a beat of its loop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::client::Body;
use muster_core::heartbeat::{Due, Running};

use crate::heartbeat::{Loop, Work};

/// What is owed is the next sign of life. Clones are the same; with the last of them nothing is owed any more.
#[derive(Clone, Debug)]
pub struct Signs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    beat: Loop,
    what: &'static str,
    owed: Mutex<Owed>,
}

#[derive(Debug)]
enum Owed {
    Later(Work<Due>),
    Now(Work<Running>),
    /// Only while it is being exchanged.
    Exchanged,
}

impl Signs {
    /// A first sign of `what` is due now, in the loop of `beat`.
    pub fn new(beat: Loop, what: &'static str) -> Self {
        let owed = Mutex::new(Owed::Later(beat.due_now(what)));
        Self(Arc::new(Shared { beat, what, owed }))
    }

    /// A sign: one turn is complete and the next has begun.
    pub fn seen(&self) {
        let mut owed = self.owed();
        let due = match std::mem::replace(&mut *owed, Owed::Exchanged) {
            Owed::Now(running) => running.complete_then_due(self.0.beat.now()),
            Owed::Later(due) => due,
            Owed::Exchanged => self.0.beat.due_now(self.0.what),
        };
        *owed = Owed::Now(due.start_unhindered());
    }

    /// The turn has failed; the next begins at `at`.
    pub fn failed(&self, at: Duration) {
        let mut owed = self.owed();
        *owed = match std::mem::replace(&mut *owed, Owed::Exchanged) {
            Owed::Now(running) => Owed::Later(running.complete_then_due(at)),
            Owed::Later(due) => {
                due.reschedule(at);
                Owed::Later(due)
            }
            Owed::Exchanged => Owed::Later(self.0.beat.due_at(self.0.what, at)),
        };
    }

    /// A client each of whose requests is a sign.
    #[must_use]
    pub fn of_requests(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let signs = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let client = client.clone();
            signs.seen();
            async move { client.send(request).await }
        });
        Client::new(service, namespace)
    }

    fn owed(&self) -> MutexGuard<'_, Owed> {
        // No holder panics while it holds it.
        self.0.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
