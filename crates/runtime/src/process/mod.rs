//! A Muster process from start to end: everything that can be refused is bound before anything runs, a first signal
//! takes readiness away, drains and releases, and whatever ends on its own ends the process with a reason.

mod entry;
mod observe;
mod probes;

use std::net::SocketAddr;
use std::time::Duration;

use kube::Client;
use muster_core::heartbeat::{LoopId, ThresholdError};
use tonic::service::Routes;

pub use entry::block_on;

use crate::args::{ClientArgs, HealthArgs, LivenessArgs, PodArgs, ShutdownArgs, TelemetryArgs, TooShort};
use crate::client;
use crate::clock::Clock;
use crate::fault::{FaultArgs, Faults};
use crate::health::{self, Health, Readiness};
use crate::heartbeat::Heartbeat;
use crate::lease::{Candidate, Driver, Leadership};
use crate::metrics::Meters;
use crate::net::{self, Bound};
use crate::rng::Rng;
use crate::shutdown::{Shutdown, Signals};
use crate::supervise::{Ended, Outcome, Tasks};
use crate::telemetry::{self, Component, Telemetry};
use crate::watch::{self, Contact};
use probes::Probes;

/// How long tasks may take to be dropped.
const ABORTING: Duration = Duration::from_secs(1);

/// The flags every process has.
#[derive(clap::Args, Clone, Debug)]
pub struct ProcessArgs {
    /// API server.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Ports.
    #[command(flatten)]
    pub health: HealthArgs,
    /// Logs, metrics, traces.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
    /// Stall threshold.
    #[command(flatten)]
    pub liveness: LivenessArgs,
    /// Grace period.
    #[command(flatten)]
    pub shutdown: ShutdownArgs,
    /// Identity.
    #[command(flatten)]
    pub pod: PodArgs,
    /// Injected faults; none without the feature.
    #[command(flatten)]
    pub faults: FaultArgs,
}

/// What distinguishes one process from another before it runs.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Name and version.
    pub component: Component,
    /// Its loops.
    pub loops: &'a [LoopId],
    /// Hard deadlines of its runs beside those of API calls, each under its flag's name.
    pub deadlines: &'a [(&'static str, Duration)],
}

/// A process that is bound and not yet running. Its public fields are what tasks are made from.
pub struct Process {
    /// Monotonic and wall time.
    pub clock: Clock,
    /// Jitter.
    pub rng: Rng,
    /// API client.
    pub client: Client,
    /// Progress ledger.
    pub heartbeat: Heartbeat,
    /// Readiness checks.
    pub readiness: Readiness,
    /// Liveness and readiness together.
    pub health: Health,
    /// Long-lived tasks.
    pub tasks: Tasks,
    /// Draining and aborting.
    pub shutdown: Shutdown,
    /// Instruments.
    pub meters: Meters,
    grace_period: Duration,
    watch_timeout: Duration,
    addresses: [SocketAddr; 2],
    silent: Option<Ports>,
    probes: Option<Probes>,
    signals: Signals,
    telemetry: Telemetry,
}

/// The two ports, bound and not yet answering.
struct Ports {
    grpc: Bound,
    admin: Bound,
    routes: Routes,
}

/// The process cannot start. All are matters of configuration or of the machine.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A deadline is too short to be of use.
    #[error(transparent)]
    TooShort(#[from] TooShort),
    /// `--stall-threshold` does not fit the deadlines.
    #[error(transparent)]
    Threshold(#[from] ThresholdError),
    /// A port cannot be opened.
    #[error(transparent)]
    Bind(#[from] net::BindError),
    /// No API client can be made.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// Telemetry cannot be switched on.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
    /// The health server cannot be made.
    #[error(transparent)]
    Health(#[from] health::ServeError),
    /// The kernel does not let us catch signals.
    #[error("cannot catch SIGTERM and SIGINT")]
    Signals(#[source] std::io::Error),
}

/// The process ended otherwise than by draining after a signal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A task ended that must not.
    #[error(transparent)]
    Task(#[from] Ended),
    /// Work was dropped: the grace period was over, or a second signal came.
    #[error("{tasks} tasks were dropped during shutdown: {cause}")]
    Aborted {
        /// How many tasks were still at work.
        tasks: usize,
        /// Why they were dropped: `the grace period is over`, or the name of the second signal.
        cause: &'static str,
    },
}

impl StartError {
    /// Stable name for logs.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::TooShort(_) => "TooShort",
            Self::Threshold(error) => error.category(),
            Self::Bind(error) => error.category(),
            Self::Client(error) => error.category(),
            Self::Telemetry(error) => error.category(),
            Self::Health(error) => error.category(),
            Self::Signals(_) => "Signals",
        }
    }
}

impl RunError {
    /// Stable name for logs.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Task(_) => "TaskEnded",
            Self::Aborted { .. } => "Aborted",
        }
    }
}

impl Process {
    /// Binds ports, telemetry, client and signals. Nothing is sent to the API server and no port answers yet.
    ///
    /// `descriptors` are the encoded file descriptor sets of the services added later by [`Process::serve`].
    pub async fn bind(args: &ProcessArgs, setup: Setup<'_>, descriptors: &[&[u8]]) -> Result<Self, StartError> {
        let telemetry = telemetry::init(&args.telemetry, setup.component, &args.pod)?;
        let signals = Signals::install().map_err(StartError::Signals)?;
        Self::bind_with(args, setup, descriptors, telemetry, signals).await
    }

    /// As [`Process::bind`], with telemetry and signals that were set up before.
    pub async fn bind_with(
        args: &ProcessArgs,
        setup: Setup<'_>,
        descriptors: &[&[u8]],
        telemetry: Telemetry,
        signals: Signals,
    ) -> Result<Self, StartError> {
        args.client.check()?;
        let deadlines = args.client.deadlines().into_iter().chain(setup.deadlines.iter().copied());
        let threshold = args.liveness.threshold(deadlines)?;
        let grpc = net::bind(args.health.health_addr, "--health-addr")?;
        let admin = net::bind(args.health.admin_addr, "--admin-addr")?;

        let (clock, meters, shutdown) = (Clock::system(), telemetry.meters(), Shutdown::default());
        let options = observe::api_calls(client::Options::new(&args.client, clock.clone()), &meters);
        let client = client::connect(&args.client, options).await?;

        let heartbeat = Heartbeat::new(threshold, setup.loops.iter().copied(), clock.clone())
            .with_faults(Faults::from(args.faults.clone()));
        let readiness = Readiness::default();
        let tasks = Tasks::new(shutdown.draining().clone(), shutdown.aborting().clone());
        let health = Health::new(heartbeat.clone(), tasks.clone(), readiness.clone());
        observe::health(&health, &heartbeat, setup.component, &meters);
        let routes = health::routes(health.clone(), descriptors)?;
        tracing::info!(
            component = setup.component.name,
            version = setup.component.version,
            health = %grpc.addr(),
            admin = %admin.addr(),
            "bound"
        );
        Ok(Self {
            clock,
            rng: Rng::from_entropy(),
            client,
            heartbeat,
            readiness,
            health,
            tasks,
            shutdown,
            meters,
            grace_period: args.shutdown.grace_period.get(),
            watch_timeout: args.client.watch_timeout.get(),
            addresses: [grpc.addr(), admin.addr()],
            silent: Some(Ports { grpc, admin, routes }),
            probes: None,
            signals,
            telemetry,
        })
    }

    /// Adds a gRPC service to the health port; nothing happens once it answers.
    pub fn serve(&mut self, add: impl FnOnce(Routes) -> Routes) {
        if let Some(ports) = &mut self.silent {
            ports.routes = add(std::mem::take(&mut ports.routes));
        }
    }

    /// Answers on both ports from now on, alive and not ready, so that whatever is asked of the API server before
    /// [`Process::run`] may take its time (C56).
    pub fn answer(&mut self) {
        if let Some(Ports { grpc, admin, routes }) = self.silent.take() {
            let pages = crate::admin::router(self.health.clone(), self.telemetry.registry().clone());
            self.probes = Some(probes::start(grpc, routes, admin, pages, self.health.clone(), self.tasks.clone()));
        }
    }

    /// Spawns a task that must run until the process drains.
    pub fn spawn<F>(&self, task: &'static str, future: F)
    where
        F: Future + Send + 'static,
        F::Output: Outcome + Send,
    {
        self.tasks.spawn(task, future);
    }

    /// Spawns a task that only reads: it has nothing to finish, and is dropped as soon as the process drains.
    pub fn spawn_reader<F>(&self, task: &'static str, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let draining = self.shutdown.draining().clone();
        self.spawn(task, async move {
            tokio::select! {
                () = draining.cancelled() => {}
                () = future => {}
            }
        });
    }

    /// What a watch of this process is made from. Its readiness check has the loop's name.
    pub fn watching(&self, id: LoopId, contact: Contact) -> watch::Setup {
        watch::Setup {
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            beat: self.heartbeat.of(id),
            check: self.readiness.register(id.as_str(), "its first list is not complete"),
            contact,
            timeout: self.watch_timeout,
            meters: self.meters.clone(),
        }
    }

    /// Contends for a Lease, in a task of its own, until the process drains; then gives it back.
    pub fn contend(&self, candidate: Candidate) -> Leadership {
        let setup = watch::Setup {
            check: self.readiness.register("lease", "no answer about the Lease yet"),
            ..self.watching(LoopId::LEASE, Contact::OnceSynced)
        };
        let watch_check = self.readiness.register("lease-watch", "its first list is not complete");
        let (driver, leadership) = Driver::new(candidate, setup, watch_check, self.client.clone());
        self.spawn("lease", driver.run(self.shutdown.draining().clone()));
        leadership
    }

    /// Where gRPC health is answered.
    pub const fn health_addr(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Where HTTP is answered.
    pub const fn admin_addr(&self) -> SocketAddr {
        self.addresses[1]
    }

    /// Answers probes, waits for a signal or the end of a task, and shuts down in order: readiness first, then work
    /// within the grace period, then the ports, telemetry last.
    pub async fn run(mut self) -> Result<(), RunError> {
        self.answer();
        let Self { health, tasks, shutdown, mut signals, telemetry, grace_period, probes, .. } = self;
        health.readiness().started();

        let ended = tokio::select! {
            signal = signals.next() => {
                tracing::info!(signal, grace = %crate::args::shown(grace_period), "draining");
                None
            }
            ended = tasks.first_ended() => Some(ended),
        };
        health.readiness().close();
        let aborted = drain(&tasks, &shutdown, &mut signals, grace_period).await;
        health.close();
        if let Some(probes) = probes {
            probes.ended().await;
        }

        let result = match (ended.or_else(|| tasks.ended().into_iter().next()), aborted) {
            (Some(ended), _) => Err(RunError::Task(ended)),
            (None, Some(aborted)) => Err(aborted),
            (None, None) => Ok(()),
        };
        match &result {
            Ok(()) => tracing::info!("drained"),
            Err(error) => tracing::error!(%error, category = error.category(), "the process ends"),
        }
        telemetry.flush().await;
        result
    }
}

/// Lets running work finish, but no longer than `grace` and no further than a second signal.
async fn drain(tasks: &Tasks, shutdown: &Shutdown, signals: &mut Signals, grace: Duration) -> Option<RunError> {
    shutdown.drain();
    let cause = tokio::select! {
        () = tasks.finished() => return None,
        () = tokio::time::sleep(grace) => "the grace period is over",
        signal = signals.next() => signal,
    };
    let left = tasks.running();
    shutdown.abort();
    // A task that blocks its thread does not even notice; the runtime's end does not wait for it either.
    let _ = tokio::time::timeout(ABORTING, tasks.finished()).await;
    Some(RunError::Aborted { tasks: left, cause })
}

#[cfg(test)]
mod tests;
