//! A pod's status as the kubelet reports it, from what is known about its one process. Pure.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// All there is to know.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    pub(super) pod_ip: String,
    pub(super) host_ip: String,
    /// When the node first saw the pod.
    pub(super) since: Timestamp,
    pub(super) container: Container,
    /// How the run before this one ended.
    pub(super) last_end: Option<End>,
    pub(super) restarts: u32,
    /// The startup probe, if any, has succeeded.
    pub(super) started: bool,
    pub(super) ready: bool,
}

/// What the container does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Container {
    /// Not running; it will be tried again.
    Waiting {
        reason: &'static str,
        message: String,
    },
    Running {
        since: Timestamp,
        pid: i32,
    },
    /// Ended for good.
    Ended(End),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct End {
    /// By itself, or by whom.
    pub(super) reason: &'static str,
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
    pub(super) began: Timestamp,
    pub(super) at: Timestamp,
}

impl End {
    pub(super) fn new(status: Option<ExitStatus>, began: Timestamp, at: Timestamp) -> Self {
        let signal = status.and_then(|status| status.signal());
        // A shell's way to tell a signal in a code, and the container runtimes'.
        let code = status.and_then(|status| status.code()).unwrap_or_else(|| 128 + signal.unwrap_or(9));
        let reason = if code == 0 { "Completed" } else { "Error" };
        Self { reason, code, signal, began, at }
    }
}

/// The status to report for `pod`, where `previous` was reported before: a condition's time moves only with its status.
pub(super) fn status(pod: &Pod, facts: &Facts, previous: Option<&PodStatus>, now: Timestamp) -> PodStatus {
    let phase = match &facts.container {
        Container::Waiting { .. } if facts.restarts == 0 && facts.last_end.is_none() => "Pending",
        Container::Waiting { .. } | Container::Running { .. } => "Running",
        Container::Ended(end) if end.code == 0 => "Succeeded",
        Container::Ended(_) => "Failed",
    };
    let old = previous.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let not_ready = (!facts.ready).then_some("ContainersNotReady");
    let conditions = [
        ("PodReadyToStartContainers", true, None),
        ("Initialized", true, None),
        ("Ready", facts.ready, not_ready),
        ("ContainersReady", facts.ready, not_ready),
        ("PodScheduled", true, None),
    ];
    let conditions = conditions.map(|(kind, holds, reason)| condition(kind, holds, reason, old, now));
    PodStatus {
        phase: Some(phase.to_owned()),
        pod_ip: Some(facts.pod_ip.clone()),
        pod_ips: Some(vec![PodIP { ip: facts.pod_ip.clone() }]),
        host_ip: Some(facts.host_ip.clone()),
        host_ips: Some(vec![HostIP { ip: facts.host_ip.clone() }]),
        start_time: Some(Time(facts.since)),
        conditions: Some(conditions.into()),
        container_statuses: Some(vec![container_status(pod, facts)]),
        ..PodStatus::default()
    }
}

/// A pod that no node takes, as the scheduler says it.
pub(super) fn unschedulable(message: &str, now: Timestamp) -> PodStatus {
    let mut unscheduled = condition("PodScheduled", false, Some("Unschedulable"), &[], now);
    unscheduled.message = Some(message.to_owned());
    PodStatus { conditions: Some(vec![unscheduled]), ..PodStatus::default() }
}

fn condition(kind: &str, holds: bool, reason: Option<&str>, old: &[PodCondition], now: Timestamp) -> PodCondition {
    let status = if holds { "True" } else { "False" };
    let unchanged = old.iter().find(|condition| condition.type_ == kind && condition.status == status);
    let since = unchanged.and_then(|condition| condition.last_transition_time.clone()).unwrap_or(Time(now));
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.map(str::to_owned),
        last_transition_time: Some(since),
        ..PodCondition::default()
    }
}

fn container_status(pod: &Pod, facts: &Facts) -> ContainerStatus {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let image = container.and_then(|container| container.image.clone()).unwrap_or_default();
    let (state, id) = match &facts.container {
        Container::Waiting { reason, message } => {
            let message = (!message.is_empty()).then(|| message.clone());
            let waiting = ContainerStateWaiting { reason: Some((*reason).to_owned()), message };
            (ContainerState { waiting: Some(waiting), ..ContainerState::default() }, None)
        }
        Container::Running { since, pid } => {
            let running = ContainerStateRunning { started_at: Some(Time(*since)) };
            (ContainerState { running: Some(running), ..ContainerState::default() }, Some(format!("lab://{pid}")))
        }
        Container::Ended(end) => (terminated(end), None),
    };
    ContainerStatus {
        name: container.map(|container| container.name.clone()).unwrap_or_default(),
        image_id: image.clone(),
        image,
        container_id: id,
        state: Some(state),
        last_state: facts.last_end.as_ref().map(terminated),
        restart_count: i32::try_from(facts.restarts).unwrap_or(i32::MAX),
        started: Some(facts.started),
        ready: facts.ready,
        ..ContainerStatus::default()
    }
}

fn terminated(end: &End) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: end.code,
        signal: end.signal,
        reason: Some(end.reason.to_owned()),
        started_at: Some(Time(end.began)),
        finished_at: Some(Time(end.at)),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: Timestamp = Timestamp::UNIX_EPOCH;

    fn later(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn running(ready: bool) -> Facts {
        Facts {
            pod_ip: "127.66.1.1".to_owned(),
            host_ip: "127.66.0.3".to_owned(),
            since: THEN,
            container: Container::Running { since: THEN, pid: 7 },
            last_end: None,
            restarts: 0,
            started: true,
            ready,
        }
    }

    fn ready_of(status: &PodStatus) -> &PodCondition {
        status.conditions.as_ref().unwrap().iter().find(|condition| condition.type_ == "Ready").unwrap()
    }

    #[test]
    fn a_condition_moves_its_time_only_with_its_status() {
        let pod = Pod::default();
        let first = status(&pod, &running(true), None, later(1));
        let same = status(&pod, &running(true), Some(&first), later(2));
        assert_eq!(first, same);
        let fallen = status(&pod, &running(false), Some(&same), later(3));
        assert_eq!(ready_of(&fallen).last_transition_time, Some(Time(later(3))));
        assert_eq!(
            (ready_of(&fallen).status.as_str(), ready_of(&fallen).reason.as_deref()),
            ("False", Some("ContainersNotReady"))
        );
    }

    #[test]
    fn phases() {
        let pod = Pod::default();
        let phase = |facts: &Facts| status(&pod, facts, None, THEN).phase.unwrap();
        let end = |code: i32| End { reason: "", code, signal: None, began: THEN, at: THEN };
        let waiting = Container::Waiting { reason: "CrashLoopBackOff", message: String::new() };
        assert_eq!(phase(&running(false)), "Running");
        assert_eq!(phase(&Facts { container: waiting.clone(), ..running(false) }), "Pending");
        assert_eq!(phase(&Facts { container: waiting, last_end: Some(end(1)), ..running(false) }), "Running");
        assert_eq!(phase(&Facts { container: Container::Ended(end(0)), ..running(false) }), "Succeeded");
        assert_eq!(phase(&Facts { container: Container::Ended(end(1)), ..running(false) }), "Failed");
    }

    #[test]
    fn an_end_by_signal_has_the_code_a_shell_gives_it() {
        let end = |raw| End::new(Some(ExitStatus::from_raw(raw)), THEN, THEN);
        assert_eq!((end(9).code, end(9).signal, end(9).reason), (137, Some(9), "Error"));
        assert_eq!((end(3 << 8).code, end(0).reason), (3, "Completed"));
    }
}
