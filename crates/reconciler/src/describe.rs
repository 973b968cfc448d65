//! The replica's own answer to "why": what it knows and plans about each executor, for people. Nothing in Muster decides
//! by it, and asking changes nothing.

use jiff::Timestamp;
use muster_api::Serves;
use muster_executor::trust::gate::Gates;
use muster_runtime::clock::Clock;
use muster_runtime::heartbeat::Heartbeat;
use muster_runtime::replica::v1::replica_server::ReplicaServer;
use muster_runtime::replica::{loops, timestamp, v1, wall_of};
use tonic::{Request, Response, Status};

use crate::controller::{Shared, State};
use crate::decide::{Agenda, pod_report};
use crate::identity::Identity;
use crate::subject::{Subject, Uid};
use crate::upstreams;

/// Answers `Describe`.
pub struct Description {
    told: Option<Identity>,
    shared: Shared,
    heartbeat: Heartbeat,
    gates: Gates,
    clock: Clock,
}

impl Description {
    /// Describes the replica of this state.
    pub const fn new(told: Option<Identity>, shared: Shared, heartbeat: Heartbeat, gates: Gates, clock: Clock) -> Self {
        Self { told, shared, heartbeat, gates, clock }
    }

    /// As a gRPC service.
    pub fn into_service(self) -> ReplicaServer<Self> {
        ReplicaServer::new(self)
    }

    fn answer(&self, wanted: Option<&v1::ExecutorRef>) -> v1::DescribeResponse {
        let executors = self.shared.lock().describe(wanted, &self.clock);
        v1::DescribeResponse {
            replica: Some(self.identity()),
            now: Some(timestamp(self.clock.wall())),
            executors,
            gates: upstreams::describe(&self.gates, &self.clock),
            loops: loops(&self.heartbeat, &self.clock),
        }
    }

    fn identity(&self) -> v1::Identity {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        match &self.told {
            None => v1::Identity { version, ..v1::Identity::default() },
            Some(identity) => v1::Identity {
                pod_namespace: identity.namespace.clone(),
                pod_name: identity.pod.name.clone(),
                pod_uid: identity.pod.uid.clone(),
                version,
            },
        }
    }
}

#[tonic::async_trait]
impl v1::replica_server::Replica for Description {
    async fn describe(&self, request: Request<v1::DescribeRequest>) -> Result<Response<v1::DescribeResponse>, Status> {
        Ok(Response::new(self.answer(request.get_ref().executor.as_ref())))
    }
}

impl State {
    fn describe(&self, wanted: Option<&v1::ExecutorRef>, clock: &Clock) -> Vec<v1::Executor> {
        let matches = |subject: &Subject| wanted.is_none_or(|wanted| is_meant(wanted, subject));
        let mut found: Vec<(&Uid, &Subject)> =
            self.replica.subjects().filter(|(_, subject)| subject.present().is_some() && matches(subject)).collect();
        found.sort_unstable_by_key(|(_, subject)| &subject.reference);
        found.into_iter().map(|(uid, subject)| executor(subject, self.agendas.get(uid), clock)).collect()
    }
}

/// Empty fields of a reference match anything.
fn is_meant(wanted: &v1::ExecutorRef, subject: &Subject) -> bool {
    let reference = &subject.reference;
    [
        (wanted.kind.as_str(), reference.kind.as_str()),
        (&wanted.namespace, &reference.namespace),
        (&wanted.name, &reference.name),
        (&wanted.uid, &reference.uid),
    ]
    .into_iter()
    .all(|(wanted, actual)| wanted.is_empty() || wanted == actual)
}

fn executor(subject: &Subject, agenda: Option<&Agenda>, clock: &Clock) -> v1::Executor {
    let reference = &subject.reference;
    let report = subject.said.as_ref().map(pod_report);
    let served = subject.served.as_ref().map_or(&Serves::Nothing, |served| &served.serves);
    let attempt = agenda.and_then(|agenda| [agenda.build, agenda.refresh].into_iter().flatten().min());
    let held = subject.held.as_ref().filter(|_| subject.served.is_some());
    let expires = held.and_then(|held| held.facts.trust_expires_at);
    v1::Executor {
        executor: Some(v1::ExecutorRef {
            kind: reference.kind.to_string(),
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
            uid: reference.uid.clone(),
        }),
        generation_wanted: subject.present().map_or(0, |present| present.generation),
        generation_observed: report.as_ref().map_or(0, |report| report.observed_generation),
        serves: serves(served).into(),
        since: report.as_ref().map(|report| timestamp(report.last_transition_time.0)),
        reason: report.as_ref().map(|report| report.reason.to_string()).unwrap_or_default(),
        error: report.as_ref().map(|report| report.error.clone()).unwrap_or_default(),
        next_attempt: attempt.map(|at| wall_of(clock, at)),
        trust_expires_at: expires.map(|at: Timestamp| timestamp(at)),
        warnings: report.map(|report| report.warnings).unwrap_or_default(),
    }
}

fn serves(serves: &Serves) -> v1::Serves {
    match serves {
        Serves::Wanted => v1::Serves::Wanted,
        Serves::Older => v1::Serves::Older,
        Serves::LastGood => v1::Serves::LastGood,
        Serves::Nothing => v1::Serves::Nothing,
        Serves::Unknown | Serves::Unrecognised(_) => v1::Serves::Unspecified,
    }
}

#[cfg(test)]
mod tests;
