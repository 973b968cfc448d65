//! The probes of one run at work: who asks when, and what the answers come to.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::node::Node;
use super::probe::{Counter, Kind, Probe};

/// What a probe found out, for the pod's status. The same may be said again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// The container has started: at once, or as its startup probe says.
    Started,
    /// It takes traffic, or not.
    Ready(bool),
}

/// What an answer comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    News(Vec<News>),
    /// The container must restart, within the grace of the probe or else of the pod.
    Unhealthy(Kind, Option<Duration>),
}

/// The probes of one run. Dropping it ends them.
pub(super) struct Probing<'a> {
    node: &'a Arc<Node>,
    ip: Ipv4Addr,
    probes: &'a [Probe],
    counters: Vec<Counter>,
    began: Instant,
    started: bool,
    tasks: JoinSet<()>,
    sender: mpsc::Sender<(usize, bool)>,
    answers: mpsc::Receiver<(usize, bool)>,
}

impl<'a> Probing<'a> {
    pub(super) fn new(node: &'a Arc<Node>, ip: Ipv4Addr, probes: &'a [Probe]) -> Self {
        let (sender, answers) = mpsc::channel(1);
        let counters = vec![Counter::NEW; probes.len()];
        let (began, tasks) = (Instant::now(), JoinSet::new());
        Self { node, ip, probes, counters, began, started: false, tasks, sender, answers }
    }

    /// Starts the startup probe, or without one all the others.
    pub(super) fn begin(&mut self) -> Vec<News> {
        if self.has(Kind::Startup) {
            self.spawn(|kind| kind == Kind::Startup);
            return Vec::new();
        }
        self.has_started()
    }

    /// The next answer: which probe, and whether it succeeded.
    pub(super) async fn answer(&mut self) -> (usize, bool) {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await, // not while we hold a sender
        }
    }

    /// What an answer comes to.
    pub(super) fn judge(&mut self, index: usize, ok: bool) -> Judgement {
        let (Some(probe), Some(counter)) = (self.probes.get(index), self.counters.get_mut(index)) else {
            return Judgement::News(Vec::new());
        };
        match (probe.kind, counter.observe(probe, ok)) {
            (Kind::Startup, Some(true)) if !self.started => Judgement::News(self.has_started()),
            (Kind::Startup, Some(false)) if !self.started => Judgement::Unhealthy(probe.kind, probe.grace),
            (Kind::Liveness, Some(false)) => Judgement::Unhealthy(probe.kind, probe.grace),
            (Kind::Readiness, Some(ready)) => Judgement::News(vec![News::Ready(ready)]),
            _ => Judgement::News(Vec::new()),
        }
    }

    /// A container without a readiness probe is ready once it has started.
    fn has_started(&mut self) -> Vec<News> {
        self.started = true;
        self.tasks.abort_all();
        self.spawn(|kind| kind != Kind::Startup);
        let ready = (!self.has(Kind::Readiness)).then_some(News::Ready(true));
        [Some(News::Started), ready].into_iter().flatten().collect()
    }

    fn has(&self, kind: Kind) -> bool {
        self.probes.iter().any(|probe| probe.kind == kind)
    }

    fn spawn(&mut self, which: impl Fn(Kind) -> bool) {
        for (index, probe) in self.probes.iter().enumerate().filter(|(_, probe)| which(probe.kind)) {
            let (node, probe, sender) = (Arc::clone(self.node), probe.clone(), self.sender.clone());
            let (ip, first) = (self.ip, self.began + probe.initial_delay);
            self.tasks.spawn(async move {
                let mut ticks = interval_at(first, probe.period);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    node.awake().await;
                    let answer = probe.ask(ip).await;
                    tracing::debug!(%ip, kind = ?probe.kind, ?answer, "probed");
                    if sender.send((index, answer.is_ok())).await.is_err() {
                        return;
                    }
                }
            });
        }
    }
}
