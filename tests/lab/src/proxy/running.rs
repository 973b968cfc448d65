//! Requests that are being answered: a test may step in at any time, in the middle of a watch for instance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::asked::Asked;

/// What happens to an answer that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// The connection is closed.
    Cut,
    /// Nothing more comes, and the connection stays open.
    Silence,
    /// A watch ends with the event 410 `Expired`; anything else is cut.
    Expired,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Running(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    next_id: u64,
    all: BTreeMap<u64, (Arc<Asked>, watch::Sender<Option<Interrupt>>)>,
}

/// One of them; dropped when its answer is complete or its client has left.
#[derive(Debug)]
pub(super) struct Ticket {
    id: u64,
    running: Running,
    interrupt: watch::Receiver<Option<Interrupt>>,
}

impl Running {
    pub(super) fn enter(&self, asked: Arc<Asked>) -> Ticket {
        let (sender, interrupt) = watch::channel(None);
        let mut inner = self.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.all.insert(id, (asked, sender));
        Ticket { id, running: self.clone(), interrupt }
    }

    /// Steps in where `when` holds; returns in how many.
    pub(super) fn interrupt(&self, interrupt: Interrupt, when: impl Fn(&Asked) -> bool) -> usize {
        let inner = self.lock();
        let struck: Vec<_> = inner.all.values().filter(|(asked, _)| when(asked)).collect();
        for (_, sender) in &struck {
            sender.send_replace(Some(interrupt));
        }
        struck.len()
    }

    pub(super) fn count(&self, when: impl Fn(&Asked) -> bool) -> usize {
        self.lock().all.values().filter(|(asked, _)| when(asked)).count()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Returns when a test steps in.
    pub(super) async fn interrupted(&mut self) -> Interrupt {
        match self.interrupt.wait_for(Option::is_some).await.map(|interrupt| *interrupt) {
            Ok(Some(interrupt)) => interrupt,
            _ => std::future::pending().await,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.running.lock().all.remove(&self.id);
    }
}
