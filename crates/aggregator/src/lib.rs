//! The aggregator: folds what the replicas report into the status of each executor, and is the only one that writes it.
//!
//! [`observe`] fills the [`index`] from watches, [`fold`] computes what a status should be, [`decide`] and [`pace`] say
//! whether and when it is written, [`act`] writes it, and [`controller`] joins them. [`replica_health`] asks the replicas
//! how they are, [`roster`] judges their answers, [`sweep`] removes what nobody else would. Everything that decides knows
//! no clock, no client and no task.

pub mod act;
pub mod announce;
pub mod args;
pub mod contest;
pub mod controller;
pub mod decide;
pub mod error;
pub mod facts;
pub mod fold;
pub mod index;
pub mod metrics;
pub mod observe;
pub mod pace;
pub mod replica_health;
pub mod roster;
pub mod sweep;

#[cfg(test)]
mod simulation;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use muster_api::{Executor, NamespacedExecutor};
use muster_core::heartbeat::LoopId;
use muster_runtime::args::PodArgs;
use muster_runtime::client::aggregator_manager;
use muster_runtime::health::Check;
use muster_runtime::lease::{Candidate, Leadership};
use muster_runtime::process::{Process, Setup};
use muster_runtime::telemetry::Component;
use muster_runtime::watch::Contact;
use tokio::sync::{Semaphore, mpsc};

use crate::act::Actor;
use crate::controller::{Controller, Parts, work::Worker};
use crate::metrics::Metrics;
use crate::replica_health::Listener;
use crate::sweep::Sweeper;

pub use crate::args::Args;
pub use crate::error::Error;

/// Name of the component in logs, metrics and Events.
const NAME: &str = "muster-aggregator";
/// An aggregator that has not reached the API server for so long is not ready: it is of no use without it.
const CONTACT: Duration = Duration::from_secs(30);
/// What the hard deadline of a request adds to the client's own, which should always strike first.
const SLACK: Duration = Duration::from_secs(2);
/// Changes on their way from the watches to the loop; a page of a list is 500.
const CHANGES: usize = 1_024;
/// Events on their way out; one too many is dropped and counted.
const EVENTS: usize = 256;

/// Runs an aggregator until it is told to end.
pub async fn run(args: Args) -> Result<(), Error> {
    let identity = Identity::of(&args.process.pod)?;
    let candidate = Candidate::new(&args.lease, &identity.namespace, &identity.pod, &identity.uid)?;
    let setup = Setup {
        component: Component { name: NAME, version: env!("CARGO_PKG_VERSION") },
        loops: &LoopId::AGGREGATOR,
        deadlines: &[("--request-timeout and a little", args.process.client.request_timeout.get() + SLACK)],
    };
    let process = Process::bind(&args.process, setup, &[]).await?;
    let leadership = args.aggregator.leader_elect.then(|| process.contend(candidate));
    spawn(&process, &args, &identity, leadership.as_ref());
    Ok(process.run().await?)
}

/// Who this process is.
struct Identity {
    namespace: String,
    pod: String,
    uid: String,
}

impl Identity {
    fn of(args: &PodArgs) -> Result<Self, Error> {
        let given = |value: &Option<String>, variable| {
            value.clone().filter(|value| !value.is_empty()).ok_or(Error::Identity { variable })
        };
        Ok(Self {
            namespace: given(&args.pod_namespace, "POD_NAMESPACE")?,
            pod: given(&args.pod_name, "POD_NAME")?,
            uid: given(&args.pod_uid, "POD_UID")?,
        })
    }
}

/// Starts every task.
fn spawn(process: &Process, args: &Args, identity: &Identity, leadership: Option<&Leadership>) {
    let (flags, namespace) = (&args.aggregator, &identity.namespace);
    let metrics = Metrics::new(&process.meters);
    let actor = Actor::new(process.client.clone(), namespace, &aggregator_manager(namespace));
    let (changes, incoming) = mpsc::channel(CHANGES);
    let (events, outgoing) = mpsc::channel(EVENTS);
    let (heard, answers) = mpsc::channel(CHANGES);
    let (leftovers, found) = mpsc::channel(1);
    let (pods, wanted) = tokio::sync::watch::channel(Vec::new());

    let watching = |id| (process.watching(id, Contact::Within(CONTACT)), process.client.clone());
    let (setup, client) = watching(LoopId::WATCH_EXECUTORS);
    process.spawn_reader("watch-executors", observe::watch_executors::<Executor>(setup, client, changes.clone()));
    let (setup, client) = watching(LoopId::WATCH_NAMESPACED_EXECUTORS);
    let watch = observe::watch_executors::<NamespacedExecutor>(setup, client, changes.clone());
    process.spawn_reader("watch-namespacedexecutors", watch);
    let (setup, client) = watching(LoopId::WATCH_POD_STATUSES);
    process
        .spawn_reader("watch-podstatuses", observe::watch_reports(setup, client, namespace.clone(), changes.clone()));
    let (setup, client) = watching(LoopId::WATCH_PODS);
    let selector = flags.reconciler_selector.clone();
    process.spawn_reader("watch-pods", observe::watch_pods(setup, client, namespace.clone(), selector, changes));

    let worker = Worker {
        actor: actor.clone(),
        permits: Arc::new(Semaphore::new(flags.write_workers.get())),
        leadership: leadership.cloned(),
        beat: process.heartbeat.of(LoopId::WRITE),
        deadline: args.process.client.request_timeout.get() + SLACK,
        events,
        reporter: (NAME.to_owned(), identity.pod.clone()),
    };
    let writes = process.readiness.register("status-writes", "nothing written yet");
    writes.pass();
    let controller = Controller::new(Parts {
        clock: process.clock.clone(),
        rng: process.rng.clone(),
        by_pod_max_bytes: flags.by_pod_max_bytes,
        watch_health: flags.watch_health,
        worker,
        beat: process.heartbeat.of(LoopId::FOLD),
        check: writes,
        metrics: metrics.clone(),
        leadership: leadership.cloned(),
        changes: incoming,
        heard: answers,
        pods,
        sweep_interval: sweep::interval(flags.sweep_grace.get()),
        leftovers,
    });
    process.spawn("fold", controller.run(process.shutdown.draining().clone()));

    let check = process.readiness.register("events", "none sent yet");
    process.spawn("events", publish(actor.clone(), outgoing, check, metrics.clone()));
    if flags.watch_health {
        let beat = process.heartbeat.of(LoopId::HEALTH);
        let listener = Listener { clock: process.clock.clone(), rng: process.rng.clone(), beat, heard };
        process.spawn("health", listener.run(wanted));
    }
    let sweeper = Sweeper {
        actor,
        clock: process.clock.clone(),
        beat: process.heartbeat.of(LoopId::SWEEP),
        check: process.readiness.register("sweep", "not begun"),
        grace: flags.sweep_grace.get(),
        metrics,
        leadership: leadership.cloned(),
    };
    process.spawn("sweep", sweeper.run(found));
}

/// Sends Events one after the other. One that is refused is lost: it is news, not state.
async fn publish(actor: Actor, mut events: mpsc::Receiver<Event>, check: Check, metrics: Metrics) {
    check.pass();
    while let Some(event) = events.recv().await {
        let reason = event.reason.as_deref().unwrap_or_default();
        match actor.publish(&event).await {
            Ok(()) => {
                metrics.event(reason, "sent");
                check.pass();
            }
            Err(verdict) => {
                metrics.event(reason, "failed");
                tracing::warn!(reason, category = verdict.category(), error = %verdict, "Event not sent");
                // Statuses are right without it, so this does not take readiness away.
                check.pass_with(verdict.sentence);
            }
        }
    }
}
