//! Carrying out what was decided, in a task of its own for each request, and taking in how it ended.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use muster_core::backoff::Policy;
use muster_core::retry::{Retry, Step};
use muster_runtime::heartbeat::Loop;
use muster_runtime::kube_error::Verdict;
use muster_runtime::lease::Leadership;
use muster_runtime::supervise;
use tokio::sync::{Semaphore, mpsc};

use super::Controller;
use crate::act::{Actor, Put, Read, Written};
use crate::announce::{self, Announcement, Limited};
use crate::facts::Executor;
use crate::fold::Folded;
use crate::pace::Occasion;

/// Waits after a second conflict in a row: somebody writes this object faster than we read it.
const AFTER_CONFLICTS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Waits after an answer that repeating the request cannot change; somebody may change the cluster.
const AFTER_REFUSAL: Duration = Duration::from_mins(5);

/// What to do about an executor.
#[derive(Debug)]
pub struct Order {
    /// As it was seen when this was decided.
    pub executor: Executor,
    /// What to do.
    pub what: What,
}

/// See [`Order`].
#[derive(Debug)]
pub enum What {
    /// Write a status.
    Write {
        /// Why.
        occasion: Occasion,
        /// The status, and what else was concluded with it.
        folded: Folded,
    },
    /// Read the executor.
    Read,
}

/// How an order ended.
#[derive(Debug)]
pub struct Done {
    order: Order,
    result: Result<Answer, Verdict>,
}

#[derive(Debug)]
enum Answer {
    Written(Written),
    Read(Option<Read>),
    /// We do not lead any more.
    Skipped,
}

/// Carries out orders. Clones share it.
#[derive(Clone)]
pub struct Worker {
    /// Speaks to the API server.
    pub actor: Actor,
    /// Requests under way at the same time.
    pub permits: Arc<Semaphore>,
    /// Asked before each write; `None` if every aggregator writes.
    pub leadership: Option<Leadership>,
    /// The loop `write`.
    pub beat: Loop,
    /// Hard deadline of one request, above the client's own.
    pub deadline: Duration,
    /// Where Events go; full, they are dropped.
    pub events: mpsc::Sender<Event>,
    /// Who reports them: controller and pod.
    pub reporter: (String, String),
}

impl Worker {
    /// Carries out one order.
    pub async fn carry_out(&self, order: Order) -> Done {
        let _permit = self.permits.acquire().await;
        if self.leadership.as_ref().is_some_and(|leadership| !leadership.is_leader()) {
            return Done { order, result: Ok(Answer::Skipped) };
        }
        let request = async {
            match &order.what {
                What::Write { folded, .. } => {
                    let put = Put { executor: order.executor.clone(), status: folded.status.clone() };
                    self.actor.put_status(&put).await.map(Answer::Written)
                }
                What::Read => self.actor.read(&order.executor).await.map(Answer::Read),
            }
        };
        let what = format!("{} {}", order.executor.kind, order.executor.name);
        let result = match self.beat.run(what, self.deadline, supervise::catch(request)).await {
            Ok(Ok(result)) => result,
            Ok(Err(panicked)) => Err(Verdict { retry: Retry::Invalid, sentence: panicked.to_string() }),
            Err(overrun) => Err(Verdict { retry: Retry::Timeout, sentence: overrun.to_string() }),
        };
        Done { order, result }
    }
}

impl Controller {
    /// Takes in how an order ended, and looks at the executor again.
    pub(super) fn done(&mut self, done: Done) {
        let now = self.parts.clock.now();
        let Done { order: Order { executor, what }, result } = done;
        let uid = executor.uid.clone();
        let Some(object) = self.objects.get_mut(&uid) else { return };
        object.busy = false;
        match (what, result) {
            (What::Write { occasion, folded }, Ok(Answer::Written(written))) => {
                self.written(&executor, occasion, &folded, written, now);
            }
            (What::Read, Ok(Answer::Read(read))) => self.was_read(&executor, read, now),
            (_, Err(verdict)) => self.failed(&executor, &verdict, now),
            (_, Ok(_)) => self.parts.metrics.wrote(executor.kind, "skipped"),
        }
        self.wake(&uid, now);
    }

    fn written(&mut self, executor: &Executor, occasion: Occasion, folded: &Folded, written: Written, now: Duration) {
        self.parts.metrics.wrote(executor.kind, "ok");
        if written.pruned {
            tracing::warn!(kind = %executor.kind, "the installed CRD is older than this program: apply the CRDs of this release");
            self.parts.check.pass_with("the installed CRD is older than this program; apply the CRDs of this release");
        } else {
            self.unwritten.clear();
            self.parts.check.pass();
        }
        self.index.written(&executor.uid, written.version, folded.status.clone());
        self.backoff.forget(&executor.uid);
        let (Some(object), Some(after)) = (self.objects.get_mut(&executor.uid), self.index.executor(&executor.uid))
        else {
            return;
        };
        object.conflicts = 0;
        if let Some(took) = object.memory.written(after, occasion, folded, now) {
            self.parts.metrics.settled(took);
        }
        let said = object.announced.verdict(&folded.status, now);
        tracing::debug!(kind = %executor.kind, namespace = %executor.namespace, name = %executor.name, ?occasion, "status written");
        if let Some(said) = said {
            self.announce(executor, said);
        }
    }

    fn was_read(&mut self, executor: &Executor, read: Option<Read>, now: Duration) {
        let Some(read) = read else {
            // Gone, or another object of that name: the watch will say so.
            self.wait_after(executor, None, Policy::default(), now);
            return;
        };
        let version = read.executor.version.clone();
        self.index.read(read.executor);
        self.backoff.forget(&executor.uid);
        let Some(object) = self.objects.get_mut(&executor.uid) else { return };
        object.memory.confirmed(version);
        if object.memory.is_unnamed() {
            match read.foreign_managers.first() {
                None => object.memory.friendly(),
                Some(manager) => {
                    object.memory.foreign();
                    tracing::warn!(kind = %executor.kind, name = %executor.name, manager, "another manager rewrites this status");
                    let said = object.announced.foreign_writer(manager, now);
                    self.announce(executor, said);
                }
            }
        }
    }

    fn failed(&mut self, executor: &Executor, verdict: &Verdict, now: Duration) {
        let category = verdict.category();
        self.parts.metrics.wrote(executor.kind, category);
        let Some(object) = self.objects.get_mut(&executor.uid) else { return };
        if verdict.retry == Retry::Conflict {
            object.conflicts += 1;
            tracing::debug!(kind = %executor.kind, name = %executor.name, conflicts = object.conflicts, "the object changed meanwhile");
            object.memory.conflicted(executor.version.clone(), now);
            if object.conflicts > 1 {
                let (base, ceiling) = AFTER_CONFLICTS;
                self.wait_after(executor, None, Policy::new(base, ceiling).unwrap_or_default(), now);
            }
            return;
        }
        let first = self.backoff.failures(&executor.uid) == 0;
        match verdict.retry.step() {
            Step::Wait { floor } => self.wait_after(executor, floor, Policy::default(), now),
            Step::Stop => {
                let policy = Policy::new(AFTER_REFUSAL, AFTER_REFUSAL).unwrap_or_default();
                self.wait_after(executor, None, policy, now);
            }
            Step::Reread | Step::Relist => self.wait_after(executor, None, Policy::default(), now),
        }
        if verdict.needs_somebody() {
            self.unwritten(&executor.uid, Some(verdict));
        }
        if first {
            tracing::warn!(kind = %executor.kind, name = %executor.name, category, error = %verdict, "status not written, trying again");
        } else {
            tracing::debug!(kind = %executor.kind, name = %executor.name, category, error = %verdict, "status still not written");
        }
    }

    /// Readiness fails from a refusal that needs somebody until a write succeeds, or nothing that was refused is left to be
    /// written.
    pub(super) fn unwritten(&mut self, uid: &Arc<str>, refused: Option<&Verdict>) {
        match refused {
            Some(verdict) => {
                self.unwritten.insert(uid.clone());
                self.parts.check.fail(verdict.sentence.clone());
            }
            None => {
                if self.unwritten.remove(uid) && self.unwritten.is_empty() {
                    self.parts.check.pass();
                }
            }
        }
    }

    fn wait_after(&mut self, executor: &Executor, floor: Option<Duration>, policy: Policy, now: Duration) {
        let at = self.backoff.failed_under(policy, executor.uid.clone(), now, floor, &mut self.parts.rng);
        if let Some(object) = self.objects.get_mut(&executor.uid) {
            object.memory.failed(at);
        }
    }

    fn announce(&self, executor: &Executor, said: Result<Announcement, Limited>) {
        let metrics = &self.parts.metrics;
        match said {
            Err(Limited { reason }) => metrics.event(&reason, "limited"),
            Ok(announcement) => {
                let worker = &self.parts.worker;
                let (reporter, pod) = &worker.reporter;
                let event = announce::event(&announcement, executor, reporter, pod, self.parts.clock.wall());
                if worker.events.try_send(event).is_err() {
                    metrics.event(&announcement.reason, "limited");
                }
            }
        }
    }
}
