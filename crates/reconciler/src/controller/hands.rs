//! Carries out what was decided: keeps the things that the decisions only know of (compiled specs, built executors,
//! running attempts) and begins requests and attempts. Nothing here decides, and nothing here waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_core::gate::Line;
use muster_core::heartbeat::{Due, LoopId};
use muster_core::retry::Retry;
use muster_executor::{Built, Compiled, Resident, ServeSet, Served};
use muster_runtime::args::shown;
use muster_runtime::heartbeat::{Heartbeat, Work};
use muster_runtime::kube_error::Verdict;
use muster_runtime::supervise::{Panicked, catch};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::refusals::Refusals;
use super::reporter::Reporter;
use crate::act::{Fetched, Reader};
use crate::builds::{Order, Running, Workshop};
use crate::decide::{Agenda, Plan, pod_report};
use crate::inbox::{Letter, Sender};
use crate::metrics::Metrics;
use crate::replica::Event;
use crate::secrets::Watches;
use crate::subject::{Purpose, Said, Subject, Uid};

/// Requests of one kind under way at once: enough to fill a round trip, few enough for a server that is waking up.
const REQUESTS: usize = 8;

/// What was built and may serve, by executor. Clones are the same shelf.
#[derive(Clone, Debug, Default)]
pub struct Shelf(Arc<Mutex<HashMap<Uid, Arc<Built>>>>);

/// What hands work with.
pub struct Tools {
    /// Reads specs.
    pub reader: Reader,
    /// Writes outcomes.
    pub reporter: Reporter,
    /// Runs attempts.
    pub workshop: Workshop,
    /// Answers lookups.
    pub serve_set: Arc<ServeSet>,
    /// Holds what was built.
    pub shelf: Shelf,
    /// Watches the Secrets that specs name.
    pub secrets: Watches,
    /// Where answers go.
    pub inbox: Sender,
    /// The process's ledger.
    pub heartbeat: Heartbeat,
    /// Instruments.
    pub metrics: Metrics,
    /// How reads of specs fare.
    pub reads: Refusals,
    /// How writes of own objects fare.
    pub writes: Refusals,
    /// A read or a write, retries after conflicts included, is given up after this.
    pub deadline: Duration,
}

/// Begins what was decided.
pub struct Hands {
    tools: Tools,
    compiled: HashMap<Uid, Arc<Compiled>>,
    running: HashMap<Uid, Running>,
    duties: HashMap<Uid, Duties>,
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    requests: TaskTracker,
}

/// What is owed about one executor later on.
#[derive(Debug, Default)]
struct Duties {
    build: Option<Work<Due>>,
    refresh: Option<Work<Due>>,
    report: Option<Work<Due>>,
}

impl Hands {
    /// Empty hands.
    pub fn new(tools: Tools) -> Self {
        let permits = || Arc::new(Semaphore::new(REQUESTS));
        Self {
            tools,
            compiled: HashMap::new(),
            running: HashMap::new(),
            duties: HashMap::new(),
            reads: permits(),
            writes: permits(),
            requests: TaskTracker::new(),
        }
    }

    /// Keeps what came with a letter, unless nobody waits for it any more.
    pub(super) fn keep(&mut self, subject: Option<&Subject>, letter: &Letter) {
        let Some(subject) = subject else { return };
        match &letter.event {
            Event::Fetched { uid, loaded: Some(loaded) } => {
                self.tools.secrets.uses(uid, letter.compiled.as_deref());
                if let Some(compiled) = &letter.compiled {
                    self.compiled.insert(uid.clone(), Arc::clone(compiled));
                } else {
                    self.compiled.remove(uid);
                    self.tools.workshop.forget(uid);
                }
                if let Err(failure) = &loaded.compiled {
                    self.tools.metrics.built(subject.reference.kind.as_str(), Err(failure));
                }
            }
            Event::Attempted { uid, attempt, .. } if is_running(subject, *attempt) => {
                self.running.remove(uid);
                if let Some(built) = &letter.built {
                    self.tools.shelf.put(uid, Arc::clone(built));
                }
            }
            _ => {}
        }
    }

    /// Begins one plan. `subject` is as it is after the plan was noted; `attempt` is the number of a build.
    pub(super) fn carry_out(&mut self, uid: &Uid, subject: &Subject, plan: &Plan, attempt: Option<u64>) {
        match plan {
            Plan::Nothing | Plan::Wait(_) | Plan::Adopt(_) | Plan::Drop => {}
            Plan::Announce => {
                if let Some(resident) = resident(subject) {
                    self.tools.serve_set.announce(resident);
                }
            }
            Plan::Fetch { .. } => self.fetch(uid, subject),
            Plan::Build { purpose, .. } => self.build(uid, subject, *purpose, attempt.unwrap_or_default()),
            Plan::Cancel => {
                self.running.remove(uid);
            }
            Plan::Serve(target) => {
                if let (Some(resident), Some(built)) = (resident(subject), self.tools.shelf.get(uid)) {
                    let serves = target.serves.clone();
                    self.tools.serve_set.serve(Served { resident, generation: target.generation, serves, built });
                }
            }
            Plan::Withdraw => {
                self.tools.serve_set.withdraw(uid.as_str());
                if subject.held.is_none() {
                    self.tools.shelf.clear(uid);
                }
            }
            Plan::Remove => {
                self.tools.serve_set.remove(uid.as_str());
                self.tools.shelf.clear(uid);
            }
            Plan::Report(said) => self.report(uid, subject, said),
            Plan::DeleteReport { name, uid: object } => self.erase(uid, subject, name.clone(), object.clone()),
        }
    }

    /// Declares what will be owed about an executor, so that a loop that no longer gets to it is noticed.
    pub(super) fn owe(&mut self, uid: &Uid, subject: &Subject, agenda: Agenda) {
        if agenda == Agenda::default() && !self.duties.contains_key(uid) {
            return;
        }
        let duties = self.duties.entry(uid.clone()).or_default();
        for (slot, at, id) in [
            (&mut duties.build, agenda.build, LoopId::BUILD),
            (&mut duties.refresh, agenda.refresh, LoopId::REFRESH),
            (&mut duties.report, agenda.report, LoopId::REPORT),
        ] {
            match (&slot, at) {
                (Some(due), Some(at)) => due.reschedule(at),
                (None, Some(at)) => *slot = Some(self.tools.heartbeat.of(id).due_at(subject.label(), at)),
                (_, None) => *slot = None,
            }
        }
    }

    /// Drops everything about an executor of which nothing is left.
    pub(super) fn drop(&mut self, uid: &Uid) {
        self.compiled.remove(uid);
        self.running.remove(uid);
        self.duties.remove(uid);
        self.tools.shelf.clear(uid);
        self.tools.secrets.uses(uid, None);
        self.tools.workshop.forget(uid);
    }

    /// Drops all attempts, and waits for the answers to requests that are on their way.
    pub(super) async fn finish(mut self) {
        self.running.clear();
        self.duties.clear();
        self.requests.close();
        self.requests.wait().await;
    }

    fn fetch(&mut self, uid: &Uid, subject: &Subject) {
        let owed = self.take(uid, subject, LoopId::BUILD);
        let (uid, executor) = (uid.clone(), subject.reference.clone());
        let version = subject.present().map(|present| present.version.clone());
        let (reader, inbox, deadline) = (self.tools.reader.clone(), self.tools.inbox.clone(), self.tools.deadline);
        let (reads, refusals, label) = (Arc::clone(&self.reads), self.tools.reads.clone(), subject.label());
        self.requests.spawn(async move {
            let _permit = reads.acquire().await;
            let running = owed.start().await;
            let fetched = tokio::time::timeout(deadline, catch(reader.fetch(&executor, version))).await;
            running.complete();
            let event = match fetched {
                Ok(Ok(Ok(fetched))) => {
                    refusals.worked();
                    let (loaded, compiled) = fetched.map(|Fetched { loaded, compiled }| (loaded, compiled)).unzip();
                    return inbox.tell_compiled(Event::Fetched { uid, loaded }, compiled.flatten()).await;
                }
                Ok(Ok(Err(verdict))) => {
                    refusals.refused(&label, &verdict);
                    Event::FetchFailed { uid, retry: verdict.retry }
                }
                Ok(Err(Panicked(message))) => {
                    tracing::error!(%executor, %message, "reading the spec panicked");
                    Event::FetchFailed { uid, retry: Retry::ServerError }
                }
                Err(_elapsed) => {
                    refusals.refused(&label, &Verdict::no_answer("reading the spec", deadline));
                    Event::FetchFailed { uid, retry: Retry::Timeout }
                }
            };
            inbox.tell(event).await;
        });
    }

    fn build(&mut self, uid: &Uid, subject: &Subject, purpose: Purpose, attempt: u64) {
        let id = match purpose {
            Purpose::Load => LoopId::BUILD,
            Purpose::Refresh => LoopId::REFRESH,
        };
        let owed = self.take(uid, subject, id);
        // A build is planned only for a spec that compiled, and what it compiled to is kept with the news of it.
        let Some(compiled) = self.compiled.get(uid).cloned() else { return };
        let (label, kind) = (subject.label(), subject.reference.kind.as_str());
        // Whoever serves nothing, or not what is wanted, goes before those whose material is only to be renewed.
        let serves_wanted = purpose == Purpose::Refresh && subject.served.is_some();
        let line = if serves_wanted { Line::Refresh } else { Line::Urgent };
        let order = Order { uid: uid.clone(), label, kind, attempt, line, compiled, owed };
        let running = self.tools.workshop.begin(order, self.tools.inbox.clone());
        self.running.insert(uid.clone(), running);
    }

    fn report(&mut self, uid: &Uid, subject: &Subject, said: &Said) {
        let (executor, report) = (subject.reference.clone(), pod_report(said));
        let reporter = self.tools.reporter.clone();
        let uid_of = uid.clone();
        let write = async move {
            let written = reporter.report(&executor, &report).await;
            written.map(|own| Event::Wrote { uid: uid_of, own })
        };
        self.write(uid, subject, write);
    }

    fn erase(&mut self, uid: &Uid, subject: &Subject, name: String, object: String) {
        let reporter = self.tools.reporter.clone();
        let uid_of = uid.clone();
        let write = async move { reporter.erase(&name, &object).await.map(|()| Event::Erased { uid: uid_of }) };
        self.write(uid, subject, write);
    }

    fn write(
        &mut self,
        uid: &Uid,
        subject: &Subject,
        write: impl Future<Output = Result<Event, Verdict>> + Send + 'static,
    ) {
        let owed = self.take(uid, subject, LoopId::REPORT);
        let uid = uid.clone();
        let (inbox, metrics, label) = (self.tools.inbox.clone(), self.tools.metrics.clone(), subject.label());
        let (writes, refusals, deadline) = (Arc::clone(&self.writes), self.tools.writes.clone(), self.tools.deadline);
        self.requests.spawn(async move {
            let _permit = writes.acquire().await;
            let running = owed.start().await;
            let written = tokio::time::timeout(deadline, write).await.unwrap_or_else(|_elapsed| {
                let sentence = format!("the write was not done within {}", shown(deadline));
                Err(Verdict { retry: Retry::Timeout, sentence })
            });
            running.complete();
            let event = match written {
                Ok(event) => {
                    metrics.reported("ok");
                    refusals.worked();
                    event
                }
                Err(verdict) => {
                    metrics.reported(verdict.category());
                    refusals.refused(&label, &verdict);
                    Event::WriteFailed { uid, retry: verdict.retry }
                }
            };
            inbox.tell(event).await;
        });
    }

    /// What was declared to fall due, or else what is due now.
    fn take(&mut self, uid: &Uid, subject: &Subject, id: LoopId) -> Work<Due> {
        let slot = self.duties.get_mut(uid).and_then(|duties| match id {
            LoopId::BUILD => duties.build.take(),
            LoopId::REFRESH => duties.refresh.take(),
            _ => duties.report.take(),
        });
        slot.unwrap_or_else(|| self.tools.heartbeat.of(id).due_now(subject.label()))
    }
}

impl Shelf {
    /// Everything on it.
    pub fn all(&self) -> Vec<(Uid, Arc<Built>)> {
        self.lock().iter().map(|(uid, built)| (uid.clone(), Arc::clone(built))).collect()
    }

    fn get(&self, uid: &Uid) -> Option<Arc<Built>> {
        self.lock().get(uid).cloned()
    }

    fn put(&self, uid: &Uid, built: Arc<Built>) {
        self.lock().insert(uid.clone(), built);
    }

    fn clear(&self, uid: &Uid) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Uid, Arc<Built>>> {
        // No holder leaves the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_running(subject: &Subject, attempt: u64) -> bool {
    subject.attempt.as_ref().is_some_and(|running| running.id == attempt)
}

fn resident(subject: &Subject) -> Option<Resident> {
    Some(Resident {
        uid: subject.reference.uid.clone(),
        name: subject.reference.name.clone(),
        created: subject.present()?.created,
        bucket: subject.bucket(),
    })
}
