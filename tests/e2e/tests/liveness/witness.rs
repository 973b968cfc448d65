//! A witness asks every pod for both services, four times a second, for as long as something goes on, and remembers
//! whatever changed. The kubelet asks too rarely to be sure that nothing happened between two of its probes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use muster_lab::kubelet::PodView;
use muster_lab::wait;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::probe::Service;

const PERIOD: Duration = Duration::from_millis(250);

/// Pod and service.
type Key = (String, &'static str);
/// When an answer was first heard, and what it was; the same answer again is not another one.
type Log = BTreeMap<Key, Vec<(Duration, String)>>;

/// Asks until it is dropped.
pub(crate) struct Witness {
    log: Arc<Mutex<Log>>,
    _asking: JoinSet<()>,
}

impl Witness {
    /// Asks these pods from now on.
    pub(crate) fn of(pods: &[PodView]) -> Self {
        let log = Arc::new(Mutex::new(Log::new()));
        let mut asking = JoinSet::new();
        let began = Instant::now();
        for pod in pods {
            for service in [Service::Liveness, Service::Readiness] {
                let (pod, log) = (pod.clone(), log.clone());
                asking.spawn(async move {
                    let mut ticks = interval(PERIOD);
                    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                    loop {
                        ticks.tick().await;
                        let answer = match service.ask(&pod).await {
                            Ok(true) => "SERVING".to_owned(),
                            Ok(false) => "NOT_SERVING".to_owned(),
                            Err(error) => format!("{error:#}"),
                        };
                        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                        let answers = log.entry((pod.name.clone(), service.name())).or_default();
                        if answers.last().is_none_or(|(_, last)| *last != answer) {
                            answers.push((began.elapsed(), answer));
                        }
                    }
                });
            }
        }
        Self { log, _asking: asking }
    }

    /// The different answers of a service of a pod, in order.
    pub(crate) fn answers(&self, pod: &PodView, service: Service) -> Vec<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = log.get(&(pod.name.clone(), service.name()));
        answers.into_iter().flatten().map(|(_, answer)| answer.clone()).collect()
    }

    /// Waits until the different answers of a service of a pod are these: the last of them may just have been given to
    /// somebody else.
    pub(crate) async fn heard(&self, pod: &PodView, service: Service, expected: &[&str]) -> Result<()> {
        wait::within(wait::scaled(PERIOD * 8), format!("{service:?} of {} as expected", pod.name), || async {
            let answers = self.answers(pod, service);
            ensure!(answers == expected, "{answers:?}");
            Ok(())
        })
        .await
    }

    /// Fails unless the service of every one of these pods was SERVING at every question so far.
    pub(crate) fn ensure_serving(&self, pods: &[PodView], service: Service) -> Result<()> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        for pod in pods {
            let answers = log.get(&(pod.name.clone(), service.name())).map(Vec::as_slice).unwrap_or_default();
            let always = matches!(answers, [(_, only)] if only == "SERVING");
            ensure!(always, "{service:?} of {}: {answers:?}", pod.name);
        }
        Ok(())
    }
}
