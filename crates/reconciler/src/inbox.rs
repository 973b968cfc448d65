//! The one way in which news reaches the controller. Each letter carries a piece of work that is due until it is read:
//! a controller that no longer reads its letters is a stall, however alive the watches are that write them.

use std::sync::Arc;

use muster_core::heartbeat::{Due, LoopId};
use muster_executor::{Built, Compiled};
use muster_runtime::heartbeat::{Heartbeat, Loop, Work};
use tokio::sync::mpsc;

use crate::replica::Event;

/// Letters that may wait; then whoever writes another one waits instead.
const CAPACITY: usize = 1_024;

/// Something that happened, and the things that came of it.
#[derive(Debug)]
pub struct Letter {
    /// What happened.
    pub event: Event,
    /// What a spec that was read compiled to.
    pub compiled: Option<Arc<Compiled>>,
    /// What an attempt built.
    pub built: Option<Arc<Built>>,
    /// Withdrawn when the letter is dropped: reading letters is nobody's run, so it completes none.
    _owed: Work<Due>,
}

/// Where letters are handed in. Clones lead to the same inbox.
#[derive(Clone, Debug)]
pub struct Sender {
    letters: mpsc::Sender<Letter>,
    beat: Loop,
}

/// An inbox and its sender.
pub fn inbox(heartbeat: &Heartbeat) -> (Sender, mpsc::Receiver<Letter>) {
    let (letters, inbox) = mpsc::channel(CAPACITY);
    (Sender { letters, beat: heartbeat.of(LoopId::BUILD) }, inbox)
}

impl Sender {
    /// Hands in an event. After the controller has ended, there is nobody to tell.
    pub async fn tell(&self, event: Event) {
        self.send(event, None, None).await;
    }

    /// Hands in a spec that was read.
    pub async fn tell_compiled(&self, event: Event, compiled: Option<Arc<Compiled>>) {
        self.send(event, compiled, None).await;
    }

    /// Hands in what an attempt built.
    pub async fn tell_built(&self, event: Event, built: Option<Arc<Built>>) {
        self.send(event, None, built).await;
    }

    async fn send(&self, event: Event, compiled: Option<Arc<Compiled>>, built: Option<Arc<Built>>) {
        let letter = Letter { event, compiled, built, _owed: self.beat.due_now("the controller's next letter") };
        let _ended = self.letters.send(letter).await;
    }
}
