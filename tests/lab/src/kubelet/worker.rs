//! The life of one pod on the node: bound, given its token, run and run again, ended and removed.

use std::process::ExitStatus;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::launch::{Launch, Place, container, resolve};
use super::node::{Node, RETRY, now};
use super::pod::Slot;
use super::probe::Probe;
use super::probing::News;
use super::restart::Backoff;
use super::run::{Cause, asked_to_end, grace, supervise};
use super::status::{Container, End, Facts, status, unschedulable};
use super::{access, report};
use crate::process::Program;

/// The pod as the node sees it at any time.
type Seen = watch::Receiver<Option<Arc<Pod>>>;

/// Sees a pod through, and forgets it.
pub(super) async fn run(node: Arc<Node>, slot: Arc<Slot>) {
    let mut seen = slot.watch();
    if let Some(pod) = scheduled(&node, &slot, &mut seen).await {
        Worker::new(node.clone(), slot.clone(), pod, seen).run().await;
    }
    node.slots().remove(&slot.uid);
}

/// Takes the pod if the node may, and returns it; `None` if it is gone before.
async fn scheduled(node: &Node, slot: &Slot, seen: &mut Seen) -> Option<Arc<Pod>> {
    let mut cordoned = node.cordoned.subscribe();
    loop {
        let pod = seen.borrow_and_update().clone()?;
        let spec = pod.spec.as_ref()?;
        if spec.node_name.is_some() {
            return Some(pod);
        }
        let labels = node.labels();
        let fits = spec.node_selector.iter().flatten().all(|(name, value)| labels.get(name) == Some(value));
        let closed = *cordoned.borrow_and_update();
        if fits && !closed {
            return report::bind(node, slot).await.then_some(pod);
        }
        let condition = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        if condition.is_none_or(|all| all.iter().all(|condition| condition.type_ != "PodScheduled")) {
            let why = if closed { "the node is cordoned" } else { "the node does not match the pod's node selector" };
            report::report(node, slot, &unschedulable(&format!("0/1 nodes are available: {why}"), now())).await;
        }
        tokio::select! {
            _ = seen.changed() => {}
            _ = cordoned.changed() => {}
        }
    }
}

struct Worker {
    node: Arc<Node>,
    slot: Arc<Slot>,
    pod: Arc<Pod>,
    seen: Seen,
    facts: Facts,
    reported: watch::Sender<Option<PodStatus>>,
    backoff: Backoff,
}

impl Worker {
    fn new(node: Arc<Node>, slot: Arc<Slot>, pod: Arc<Pod>, seen: Seen) -> Self {
        let facts = Facts {
            pod_ip: slot.ip.to_string(),
            host_ip: node.host_ip.to_string(),
            since: now(),
            container: Container::Waiting { reason: "ContainerCreating", message: String::new() },
            last_end: None,
            restarts: 0,
            started: false,
            ready: false,
        };
        Self { node, slot, pod, seen, facts, reported: watch::Sender::new(None), backoff: Backoff::default() }
    }

    async fn run(mut self) {
        // Tasks that live as long as the pod does; they end with this set.
        let mut tasks = JoinSet::new();
        let reports = report::keep_reporting(self.node.clone(), self.slot.clone(), self.reported.subscribe());
        tasks.spawn(reports);
        if self.pass_token().await {
            let (node, slot, pod) = (self.node.clone(), self.slot.clone(), self.pod.clone());
            tasks.spawn(async move { access::keep_fresh(&node, &slot, &pod).await });
            self.run_until_deleted().await;
        }
        tasks.shutdown().await;
        if self.seen.borrow().is_some() {
            report::report(&self.node, &self.slot, &self.status()).await;
            report::remove(&self.node, &self.slot).await;
        }
    }

    /// Gets the first token; false if the pod is deleted before.
    async fn pass_token(&mut self) -> bool {
        loop {
            if self.is_deleted() {
                return false;
            }
            self.node.awake().await;
            let got = match std::fs::create_dir_all(&self.slot.dir).context("cannot create the pod's folder") {
                Ok(()) => access::renew(&self.node, &self.slot, &self.pod).await,
                Err(error) => Err(error),
            };
            match got {
                Ok(()) => return true,
                Err(error) => self.wait_for("ContainerCreating", format!("{error:#}"), RETRY).await,
            }
        }
    }

    async fn run_until_deleted(&mut self) {
        while !self.is_deleted() {
            if asked_to_end(self.seen.borrow().as_deref()).is_some() {
                return self.await_deletion().await; // finished before it began
            }
            let began = (Instant::now(), now());
            let (cause, exit) = match self.start() {
                Ok((exit, probes)) => self.supervise(exit, &probes).await,
                Err(error) => {
                    let delay = self.backoff.after(Duration::ZERO, &self.node.options.restart);
                    self.wait_for("CreateContainerError", format!("{error:#}"), delay).await;
                    continue;
                }
            };
            let end = End::new(exit, began.1, now());
            (self.facts.started, self.facts.ready) = (false, false);
            if cause == Cause::Deleted {
                self.facts.container = Container::Ended(end);
            } else if cause == Cause::Finished || !self.restarts_after(&end) {
                self.facts.container = Container::Ended(end);
                if cause == Cause::Itself {
                    self.report(); // otherwise someone else has written the phase, and it stays theirs
                }
                self.await_deletion().await;
            } else {
                self.facts.last_end = Some(end);
                let delay = self.backoff.after(began.0.elapsed(), &self.node.options.restart);
                self.wait_for("CrashLoopBackOff", format!("{cause:?}, again in {delay:?}"), delay).await;
                self.facts.restarts += 1;
                self.slot.live().restarts = self.facts.restarts;
            }
        }
        self.slot.live().ready = false;
    }

    fn restarts_after(&self, end: &End) -> bool {
        match self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) {
            Some("Never") => false,
            Some("OnFailure") => end.code != 0,
            _ => true,
        }
    }

    /// Starts the process as the manifest and the test want it.
    fn start(&mut self) -> Result<(watch::Receiver<Option<ExitStatus>>, Vec<Probe>)> {
        let probes = Probe::all(container(&self.pod)?)?;
        let place = Place { pod_ip: self.slot.ip, host_ip: self.node.host_ip, node: &self.node.options.node };
        let mut launch = Launch::of(&self.pod, place, &self.node.plane.url)?;
        let customise = self.node.customise.read().unwrap_or_else(PoisonError::into_inner).clone();
        customise(&self.pod, &mut launch);

        let kubeconfig = access::write_kubeconfig(&self.node, &self.slot, &launch.api_server)?;
        let mut env = vec![("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
        env.extend(launch.env);
        let (name, args) = launch.command.split_first().context("an empty command")?;
        let path = resolve(name, &self.node.bin_dir)?;
        let process = Program { path, args: args.to_vec(), env, log: self.slot.log.clone() }.start()?;
        let exit = process.exit();
        self.facts.container = Container::Running { since: now(), pid: process.pid() };
        self.slot.live().process = Some(process);
        self.report();
        Ok((exit, probes))
    }

    async fn supervise(
        &mut self,
        exit: watch::Receiver<Option<ExitStatus>>,
        probes: &[Probe],
    ) -> (Cause, Option<ExitStatus>) {
        let (node, slot, grace) = (self.node.clone(), self.slot.clone(), grace(&self.pod));
        let mut seen = self.seen.clone();
        supervise(&node, &slot, &mut seen, exit, (probes, grace), |news| {
            match news {
                News::Started => self.facts.started = true,
                News::Ready(ready) => self.facts.ready = ready,
            }
            self.report();
        })
        .await
    }

    /// Reports that it waits, and waits, but not beyond the pod's deletion.
    async fn wait_for(&mut self, reason: &'static str, message: String, delay: Duration) {
        self.facts.container = Container::Waiting { reason, message };
        self.report();
        let mut seen = self.seen.clone();
        tokio::select! {
            () = sleep(delay) => {}
            _ = seen.wait_for(|pod| deleted(pod.as_deref())) => {}
        }
        self.node.awake().await;
    }

    fn is_deleted(&self) -> bool {
        deleted(self.seen.borrow().as_deref())
    }

    async fn await_deletion(&mut self) {
        let _ = self.seen.wait_for(|pod| deleted(pod.as_deref())).await; // the slot holds the sender
    }

    /// Hands the status over if anything in it is new.
    fn report(&self) {
        self.slot.live().ready = self.facts.ready;
        let status = self.status();
        self.reported.send_if_modified(|reported| {
            let is_new = reported.as_ref() != Some(&status);
            *reported = Some(status);
            is_new
        });
    }

    fn status(&self) -> PodStatus {
        status(&self.pod, &self.facts, self.reported.borrow().as_ref(), now())
    }
}

fn deleted(pod: Option<&Pod>) -> bool {
    matches!(asked_to_end(pod), Some((Cause::Deleted, _)))
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.slot.signal(Signal::SIGKILL);
    }
}
