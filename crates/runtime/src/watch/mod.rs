//! A watch with our policy around kube's watcher: paged lists, short watches, a pause after errors, objects that cannot
//! be decoded skipped.
//!
//! What kube's watcher does not tell: when a watch ends in good order and is resumed. So a hung watch would look like a
//! quiet one. But it always sends a request then, within [`ClientArgs::watch_guard`](crate::args::ClientArgs::watch_guard)
//! of the last; each request, event and error is a beat of the loop's heartbeat, and a successful answer is contact with
//! the API server. If the watch loses its way, or its consumer stops asking for events, the beats stop.

mod lenient;
mod pulse;
mod signs;

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use muster_core::retry::{Retry, Step};
use rand::RngExt as _;
use serde::de::DeserializeOwned;
use tokio::sync::watch::Receiver;

pub use lenient::{Lenient, Undecodable};
use pulse::Pulse;
pub use pulse::{Contact, WatchState};
pub use signs::Signs;

use crate::clock::Clock;
use crate::health::Check;
use crate::heartbeat::Loop;
use crate::kube_error::classify_watch;
use crate::metrics::{self, Counter, Meters};
use crate::rng::Rng;

/// The pause after an error, drawn evenly: every change of a CRD ends the watches of all replicas at once, and their
/// relists must not arrive at once.
pub const PAUSE: std::ops::RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(5);

/// Objects on one page of a list; client-go's figure.
const PAGE: u32 = 500;

/// What a watch is made from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Time, for pauses.
    pub clock: Clock,
    /// Jitter.
    pub rng: Rng,
    /// The loop this watch is; its name is the watch's name.
    pub beat: Loop,
    /// The readiness check it answers.
    pub check: Check,
    /// What that check means once the watch has synced.
    pub contact: Contact,
    /// `--watch-timeout`: how long each watch asks to last, before jitter.
    pub timeout: Duration,
    /// Instruments.
    pub meters: Meters,
}

/// Which objects.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Label selector; everything if `None`.
    pub labels: Option<String>,
    /// Field selector; everything if `None`.
    pub fields: Option<String>,
}

/// A running watch. Nothing is sent until [`Watch::next`] is polled.
pub struct Watch<K> {
    open: Box<dyn Fn(watcher::Config) -> Events<K> + Send>,
    events: Events<K>,
    pulse: Pulse,
    setup: Setup,
    selection: Selection,
    resume_at: Option<Duration>,
    skipped: Counter<1>,
}

type Events<K> = BoxStream<'static, watcher::Result<Event<Lenient<K>>>>;

impl<K> Watch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    /// A watch of what `api` addresses, for example `|client| Api::namespaced(client, "muster-system")` or `Api::all`.
    /// `K` decides what is fetched: `PartialObjectMeta<K>` metadata only.
    pub fn new(
        setup: Setup,
        client: Client,
        selection: Selection,
        api: impl Fn(Client) -> Api<Lenient<K>> + Send + 'static,
    ) -> Self {
        let pulse = Pulse::new(&setup);
        let observed = pulse.observe(client);
        let open = Box::new(move |config| watcher::watcher(api(observed.clone()), config).boxed());
        let skipped = setup.meters.counter(&metrics::WATCH_SKIPPED).from_zero([[setup.beat.id().as_str()]]);
        let mut watch =
            Self { events: futures::stream::empty().boxed(), open, pulse, setup, selection, resume_at: None, skipped };
        watch.reopen();
        watch
    }

    /// The next event. It never ends and never fails: errors are classed, told, and followed by a pause and another try.
    /// Cancel safe.
    pub async fn next(&mut self) -> Event<K> {
        loop {
            self.setup.beat.faults().await;
            if let Some(at) = self.resume_at {
                self.setup.clock.sleep_until(at).await;
                self.resume_at = None;
            }
            match self.events.next().await {
                Some(Ok(event)) => {
                    self.pulse.event(&event);
                    if let Some(event) = self.decoded(event) {
                        return event;
                    }
                }
                Some(Err(error)) => self.failed(&error),
                // kube's watcher has no end; should that change, begin again.
                None => self.reopen(),
            }
        }
    }

    /// Whether it has synced, and what is wrong with it.
    pub fn state(&self) -> Receiver<WatchState> {
        self.pulse.state()
    }

    fn failed(&mut self, error: &watcher::Error) {
        let verdict = classify_watch(error);
        let pause = self.setup.rng.random_range(PAUSE);
        let pause = match verdict.retry.step() {
            // The server's wish is a floor, and the draw spreads those who were told the same.
            Step::Wait { floor: Some(floor) } => floor + pause,
            _ => pause,
        };
        let at = self.setup.clock.now() + pause;
        // kube's watcher would try to resume from an expired version for ever if the server says so before the stream.
        if verdict.retry == Retry::Gone && matches!(error, watcher::Error::WatchStartFailed(_)) {
            self.reopen();
        }
        self.pulse.failed(verdict, at);
        self.resume_at = Some(at);
    }

    /// Begins with a list. The timeout is drawn anew, so that the watches of all replicas do not end in the same second.
    fn reopen(&mut self) {
        let timeout = self.setup.timeout.mul_f64(self.setup.rng.random_range(0.9..=1.1));
        let timeout = timeout.as_secs().max(1) as u32;
        let mut config = watcher::Config::default().page_size(PAGE).timeout(timeout);
        config.label_selector.clone_from(&self.selection.labels);
        config.field_selector.clone_from(&self.selection.fields);
        self.pulse.asks_for(Duration::from_secs(timeout.into()));
        self.events = (self.open)(config);
    }

    fn decoded(&self, event: Event<Lenient<K>>) -> Option<Event<K>> {
        let object = |lenient: Lenient<K>| match lenient.0 {
            Ok(object) => Some(object),
            Err(bad) => {
                let name = bad.metadata.name.as_deref().unwrap_or_default();
                let namespace = bad.metadata.namespace.as_deref().unwrap_or_default();
                tracing::warn!(watch = %self.setup.beat.id(), namespace, name, error = %bad, "skipping an object that cannot be decoded");
                self.skipped.one([self.setup.beat.id().as_str()]);
                None
            }
        };
        match event {
            Event::Init => Some(Event::Init),
            Event::InitDone => Some(Event::InitDone),
            Event::InitApply(lenient) => object(lenient).map(Event::InitApply),
            Event::Apply(lenient) => object(lenient).map(Event::Apply),
            Event::Delete(lenient) => object(lenient).map(Event::Delete),
        }
    }
}

impl<K> Debug for Watch<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("loop", &self.setup.beat.id()).field("state", &self.pulse).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
