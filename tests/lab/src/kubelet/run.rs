//! One run of a container, from its start to its end: watches the process, the probes and the pod.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::node::Node;
use super::pod::Slot;
use super::probe::{Kind, Probe};
use super::probing::{Judgement, News, Probing};
use crate::process;

/// Grace of a pod whose manifest names none; the API server fills in the same.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The process ended by itself, or was killed by a test.
    Itself,
    /// A probe failed.
    Unhealthy(Kind),
    /// Someone declared the pod failed or succeeded, as an eviction does.
    Finished,
    /// The pod was deleted.
    Deleted,
}

/// What a pod's latest state asks of its process: to end for a reason within a time, or nothing.
pub(super) fn asked_to_end(pod: Option<&Pod>) -> Option<(Cause, Duration)> {
    let Some(pod) = pod else {
        return Some((Cause::Deleted, Duration::ZERO)); // the object is gone: removed by force
    };
    if pod.metadata.deletion_timestamp.is_some() {
        return Some((Cause::Deleted, seconds(pod.metadata.deletion_grace_period_seconds)));
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded")).then(|| (Cause::Finished, grace(pod)))
}

/// The time a pod gives its process to end.
pub(super) fn grace(pod: &Pod) -> Duration {
    seconds(pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds))
}

fn seconds(seconds: Option<i64>) -> Duration {
    seconds.and_then(|seconds| u64::try_from(seconds).ok()).map_or(DEFAULT_GRACE, Duration::from_secs)
}

/// What `supervise` waits for.
enum Happened {
    Ended(Option<ExitStatus>),
    PodChanged,
    Probed(usize, bool),
    GraceOver,
}

/// Waits until the process has ended, and sees to it that it does when it should. `news` hears what the probes find.
pub(super) async fn supervise(
    node: &Arc<Node>,
    slot: &Slot,
    seen: &mut watch::Receiver<Option<Arc<Pod>>>,
    exit: watch::Receiver<Option<ExitStatus>>,
    (probes, pod_grace): (&[Probe], Duration),
    mut news: impl FnMut(News),
) -> (Cause, Option<ExitStatus>) {
    let mut probing = Probing::new(node, slot.ip, probes);
    probing.begin().into_iter().for_each(&mut news);
    let mut ending = Ending { cause: Cause::Itself, kill_at: None };
    let ended = process::wait(exit);
    tokio::pin!(ended);
    loop {
        if let Some((cause, grace)) = asked_to_end(seen.borrow_and_update().as_deref()) {
            ending.ask(slot, cause, grace);
        }
        let happened = tokio::select! {
            status = &mut ended => Happened::Ended(status),
            _ = seen.changed() => Happened::PodChanged,
            (index, ok) = probing.answer() => Happened::Probed(index, ok),
            () = ending.grace_over() => Happened::GraceOver,
        };
        node.awake().await;
        match happened {
            Happened::Ended(status) => return (ending.cause, status),
            Happened::PodChanged => {}
            Happened::GraceOver => ending.kill(slot),
            Happened::Probed(index, ok) => match probing.judge(index, ok) {
                Judgement::News(all) => all.into_iter().for_each(&mut news),
                Judgement::Unhealthy(kind, grace) => {
                    ending.ask(slot, Cause::Unhealthy(kind), grace.unwrap_or(pod_grace));
                }
            },
        }
    }
}

/// The end of a run, once something asked for it.
struct Ending {
    cause: Cause,
    /// When patience is over; `None` before it was asked for, and after the kill.
    kill_at: Option<Instant>,
}

impl Ending {
    /// Asked again, only a deletion changes the cause, and the sooner time counts.
    fn ask(&mut self, slot: &Slot, cause: Cause, grace: Duration) {
        let first = self.cause == Cause::Itself;
        if first {
            slot.signal(Signal::SIGTERM);
        }
        if first || cause == Cause::Deleted {
            let kill_at = Instant::now() + grace;
            // Another cause without a time has been killed for already.
            if first || self.kill_at.is_some() {
                self.kill_at = Some(self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
            }
            self.cause = cause;
        }
    }

    async fn grace_over(&self) {
        match self.kill_at {
            Some(kill_at) => sleep_until(kill_at).await,
            None => std::future::pending().await,
        }
    }

    fn kill(&mut self, slot: &Slot) {
        slot.signal(Signal::SIGKILL);
        self.kill_at = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(pod: serde_json::Value) -> Option<(Cause, Duration)> {
        asked_to_end(Some(&serde_json::from_value(pod).unwrap()))
    }

    #[test]
    fn what_a_pod_asks_for() {
        let seconds = Duration::from_secs;
        assert_eq!(asked(json!({"status": {"phase": "Running"}})), None);
        assert_eq!(asked_to_end(None), Some((Cause::Deleted, Duration::ZERO)));
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5});
        assert_eq!(asked(json!({"metadata": deleted})), Some((Cause::Deleted, seconds(5))));
        assert_eq!(
            asked(
                json!({"spec": {"containers": [], "terminationGracePeriodSeconds": 7}, "status": {"phase": "Failed"}})
            ),
            Some((Cause::Finished, seconds(7)))
        );
        assert_eq!(asked(json!({"status": {"phase": "Failed"}})), Some((Cause::Finished, DEFAULT_GRACE)));
    }
}
