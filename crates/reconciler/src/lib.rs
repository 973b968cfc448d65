//! A replica: builds each Executor for itself and reports its own ExecutorPodStatus.
//!
//! [`observe`] reads watches, [`replica`] keeps what is known, [`decide`] says what to do next, [`act`] speaks to the API
//! server, and [`controller`] joins them. `decide` and `replica` know no clock, no client and no task.

pub mod act;
pub mod args;
pub mod bucket;
pub mod builds;
pub mod controller;
pub mod decide;
pub mod describe;
pub mod error;
pub mod files;
pub mod identity;
pub mod inbox;
pub mod metrics;
pub mod observe;
pub mod own;
pub mod replica;
pub mod secrets;
pub mod standalone;
pub mod subject;
pub mod upstreams;

use std::sync::Arc;
use std::time::Duration;

use muster_api::{Executor, NamespacedExecutor};
use muster_core::heartbeat::LoopId;
use muster_executor::{CompileOptions, ProviderKind, ServeSet, Sources};
use muster_runtime::process::{Process, Setup};
use muster_runtime::telemetry::Component;
use muster_runtime::watch::Contact;

use crate::builds::Workshop;
use crate::controller::{Controller, Hands, Refusals, Reporter, Shared, Shelf, Tools};
use crate::identity::{Caller, Identity};
use crate::inbox::Sender;
use crate::metrics::Metrics;
use crate::replica::Event;
use crate::subject::Now;

pub use crate::args::Args;
pub use crate::error::Error;

/// A write may read again and send again after a conflict; this many calls at most fit into its deadline.
const CALLS_PER_WRITE: u32 = 3;

/// Runs a replica until it is told to end.
pub async fn run(args: Args) -> Result<(), Error> {
    let told = if args.replica.standalone { None } else { Some(Identity::told(&args.process.pod)?) };
    let write_deadline = args.process.client.request_timeout.get().saturating_mul(CALLS_PER_WRITE);
    let setup = Setup {
        component: Component { name: "muster-reconciler", version: env!("CARGO_PKG_VERSION") },
        loops: &LoopId::RECONCILER,
        deadlines: &[
            ("--build-deadline", args.replica.build_deadline.get()),
            ("--upstream-timeout", args.upstreams.upstream_timeout.get()),
            ("three times --request-timeout", write_deadline),
        ],
    };
    let mut process = Process::bind(&args.process, setup, &[muster_runtime::replica::DESCRIPTORS]).await?;
    let replica = Replica::of(&mut process, &args, told.clone(), write_deadline)?;
    process.answer();
    let confirmed = first_answer(&process, told.as_ref()).await?;
    replica.spawn(&process, confirmed);
    Ok(process.run().await?)
}

/// Asks once before anything runs, so that a wrong identity ends the process with one line. False if the API server is
/// away: then the question goes on while probes are answered already.
async fn first_answer(process: &Process, told: Option<&Identity>) -> Result<bool, identity::Error> {
    match Caller::ask(process.client.clone()).await {
        Ok(caller) => confirm(told, &caller).map(|()| true),
        Err(verdict) if verdict.retry == muster_core::retry::Retry::Unauthorized => {
            Err(identity::Error::Rejected { pod: pod_name(told) })
        }
        Err(verdict) => {
            tracing::warn!(category = verdict.category(), error = %verdict, "cannot ask the API server who we are, trying again");
            Ok(false)
        }
    }
}

fn confirm(told: Option<&Identity>, caller: &Caller) -> Result<(), identity::Error> {
    told.map_or_else(|| caller.confirm_standalone(), |identity| identity.confirm(caller))
}

/// Where the release's Secrets are: the pod's namespace, or outside of a pod the one that is given, or the usual one.
fn namespace(told: Option<&Identity>, args: &Args) -> String {
    let given = || args.process.pod.pod_namespace.clone().filter(|namespace| !namespace.is_empty());
    told.map(|identity| identity.namespace.clone()).or_else(given).unwrap_or_else(|| "muster-system".to_owned())
}

fn pod_name(told: Option<&Identity>) -> String {
    told.map_or_else(|| "--standalone".to_owned(), |identity| identity.pod.name.clone())
}

/// The parts of a replica, ready to run.
struct Replica {
    told: Option<Identity>,
    shared: Shared,
    controller: Controller,
    inbox: Sender,
    /// What watching files takes, if specs may name any.
    files: Option<(Shelf, Sources, Duration, Duration)>,
}

impl Replica {
    fn of(process: &mut Process, args: &Args, told: Option<Identity>, write_deadline: Duration) -> Result<Self, Error> {
        let flags = &args.replica;
        let shared = Shared::new(flags.settings());
        metrics::observe(&process.meters, shared.clone(), process.clock.clone());
        let (client, clock, rng) = (process.client.clone(), process.clock.clone(), process.rng.clone());
        let namespace = namespace(told.as_ref(), args);
        let reader = secrets::Reader::new(client.clone(), &namespace, args.process.client.request_timeout.get());
        let upstreams = args.upstreams.upstreams(&namespace, Arc::new(reader), clock.clone(), rng.clone())?;
        let upstreams = upstreams.telling(upstreams::calls(&process.meters));
        upstreams::observe(&process.meters, upstreams.gates());
        let description = describe::Description::new(
            told.clone(),
            shared.clone(),
            process.heartbeat.clone(),
            upstreams.gates().clone(),
            clock.clone(),
        );
        process.serve(|routes| routes.add_service(description.into_service()));

        let (inbox, letters) = inbox::inbox(&process.heartbeat);
        let (sources, shelf) = (Sources::local(), Shelf::default());
        let workers = flags.build_workers.get();
        let metrics = Metrics::new(&process.meters, workers);
        let options = CompileOptions {
            providers: [ProviderKind::AzureKeyVault, ProviderKind::FerrVault, ProviderKind::KubernetesSecret].into(),
            tenant_providers: flags.tenant_providers.iter().copied().collect(),
            trust_dir: flags.trust_dir.clone(),
            ..CompileOptions::default()
        };
        let build_deadline = flags.build_deadline.get();
        let ready = process.readiness.register("first-verdicts", "not in sync yet");
        let refusals = |what, check| {
            Refusals::new(what, process.readiness.register(check, ""), ready.clone(), process.clock.clone())
        };
        let hands = Hands::new(Tools {
            reader: act::Reader::new(client.clone(), options),
            reporter: match &told {
                Some(identity) => Reporter::Pod(Box::new(act::Writer::new(client.clone(), identity.clone()))),
                None => Reporter::Standalone(standalone::Writer::new(client.clone())),
            },
            workshop: Workshop::new(workers, build_deadline, upstreams, clock.clone(), metrics.clone()),
            serve_set: Arc::new(ServeSet::new()),
            shelf: shelf.clone(),
            secrets: secrets::Watches::new(
                client.clone(),
                &namespace,
                args.process.client.watch_timeout.get(),
                process.heartbeat.clone(),
                clock,
                rng,
                inbox.clone(),
            ),
            inbox: inbox.clone(),
            heartbeat: process.heartbeat.clone(),
            metrics,
            reads: refusals("an executor was not read", "executor-reads"),
            writes: refusals("the own status was not written", "report-writes"),
            deadline: write_deadline,
        });
        let controller =
            Controller::new(shared.clone(), hands, letters, process.clock.clone(), process.rng.clone(), ready);
        let files = flags.trust_dir.is_some().then(|| (shelf, sources, flags.file_interval.get(), build_deadline));
        Ok(Self { told, shared, controller, inbox, files })
    }

    /// Starts everything. Watches only read, so they need not wait until it is sure who we are; the loop does.
    fn spawn(self, process: &Process, confirmed: bool) {
        let Self { told, shared, controller, inbox, files } = self;
        let draining = process.shutdown.draining().clone();

        let setup = process.watching(LoopId::WATCH_EXECUTORS, Contact::OnceSynced);
        let watch = observe::executors::<Executor>(setup, process.client.clone(), inbox.clone());
        process.spawn_reader("watch-executors", watch);
        let setup = process.watching(LoopId::WATCH_NAMESPACED_EXECUTORS, Contact::OnceSynced);
        let watch = observe::executors::<NamespacedExecutor>(setup, process.client.clone(), inbox.clone());
        process.spawn_reader("watch-namespacedexecutors", watch);
        if let Some(identity) = &told {
            let setup = process.watching(LoopId::WATCH_OWN, Contact::OnceSynced);
            let watch = observe::own(setup, process.client.clone(), identity.clone(), inbox.clone());
            process.spawn_reader("watch-own", watch);
        } else {
            // There are no own objects, and that is known from the beginning.
            let now = Now { mono: process.clock.now(), wall: process.clock.wall() };
            shared.lock().replica.on(Event::OwnListed { items: Vec::new() }, now, &mut process.rng.clone());
        }
        if let Some((shelf, sources, every, deadline)) = files {
            let (heartbeat, clock) = (process.heartbeat.clone(), process.clock.clone());
            let watch = files::watch(shelf, sources, every, deadline, heartbeat, clock, inbox);
            process.spawn_reader("trust-files", watch);
        }

        let (client, clock, mut rng) = (process.client.clone(), process.clock.clone(), process.rng.clone());
        process.spawn("replica", async move {
            if !confirmed {
                let pod = pod_name(told.as_ref());
                let ask = Caller::learn(&client, &clock, &mut rng, &pod);
                let caller = tokio::select! {
                    () = draining.cancelled() => return Ok(()),
                    caller = ask => caller?,
                };
                confirm(told.as_ref(), &caller)?;
            }
            controller.run(draining).await;
            Ok::<(), identity::Error>(())
        });
    }
}
