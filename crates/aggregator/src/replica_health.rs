//! The health watches: while we lead, a gRPC `Health/Watch` of `readiness` is held to each replica, so that one that is
//! frozen, crashed, cut off or not ready is known within seconds, without a single write to the API server.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use muster_runtime::clock::Clock;
use muster_runtime::heartbeat::Loop;
use muster_runtime::rng::Rng;
use rand::RngExt as _;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::facts::Pod;
use crate::roster::KEEPALIVE;

/// The service that is watched.
const SERVICE: &str = "readiness";
/// How long a replica may take to accept a connection and give its first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(2);
/// Pause between two tries, drawn evenly: a replica that is back is noticed within two seconds.
const PAUSE: std::ops::RangeInclusive<Duration> = Duration::from_millis(400)..=Duration::from_secs(1);
/// Tries under way at the same time of replicas that have not answered yet. A new leader calls silent whom it has not
/// reached within ten seconds: enough for a thousand to be tried twice by then, though none of them answered.
const FIRST_TRIES: usize = 512;
/// The same of replicas that have answered before: those that are back do not wait behind those that hang at start.
const TRIES: usize = 512;

/// What a replica says, or does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It answered.
    Answer {
        /// UID of its pod.
        pod_uid: Arc<str>,
        /// It is ready.
        serving: bool,
    },
    /// It could not be reached, or its stream broke.
    Lost {
        /// UID of its pod.
        pod_uid: Arc<str>,
    },
}

/// Holds the watches.
pub struct Listener {
    /// Time.
    pub clock: Clock,
    /// Jitter.
    pub rng: Rng,
    /// The loop `health`.
    pub beat: Loop,
    /// Where answers go.
    pub heard: mpsc::Sender<Heard>,
}

/// One replica's watch: which pod, and where.
type Line = (Arc<str>, SocketAddr);

impl Listener {
    /// Watches the pods it is told, until nobody tells any more.
    pub async fn run(self, mut pods: watch::Receiver<Vec<Pod>>) {
        let (unheard, heard_before) = (Arc::new(Semaphore::new(FIRST_TRIES)), Arc::new(Semaphore::new(TRIES)));
        let mut tasks = JoinSet::new();
        let mut held: HashMap<Line, tokio::task::AbortHandle> = HashMap::new();
        loop {
            let wanted: HashSet<Line> = pods.borrow_and_update().iter().filter_map(line).collect();
            held.retain(|line, task| {
                let keep = wanted.contains(line);
                if !keep {
                    task.abort();
                }
                keep
            });
            for line in wanted {
                let (pod_uid, address) = line.clone();
                held.entry(line).or_insert_with(|| {
                    let caller = Caller {
                        clock: self.clock.clone(),
                        rng: self.rng.clone(),
                        beat: self.beat.clone(),
                        heard: self.heard.clone(),
                        unheard: unheard.clone(),
                        heard_before: heard_before.clone(),
                        pod_uid,
                        address,
                    };
                    tasks.spawn(caller.run())
                });
            }
            while tasks.try_join_next().is_some() {}
            if pods.changed().await.is_err() {
                return;
            }
        }
    }
}

fn line(pod: &Pod) -> Option<Line> {
    Some((pod.uid.clone(), SocketAddr::new(pod.ip?, pod.health_port?)))
}

struct Caller {
    clock: Clock,
    rng: Rng,
    beat: Loop,
    heard: mpsc::Sender<Heard>,
    unheard: Arc<Semaphore>,
    heard_before: Arc<Semaphore>,
    pod_uid: Arc<str>,
    address: SocketAddr,
}

type Answers = tonic::Streaming<tonic_health::pb::HealthCheckResponse>;

impl Caller {
    async fn run(mut self) {
        let mut answered = false;
        loop {
            if let Some((serving, answers)) = self.reach(answered).await {
                answered = true;
                self.tell(serving).await;
                self.listen(answers).await;
            }
            let lost = Heard::Lost { pod_uid: self.pod_uid.clone() };
            if self.heard.send(lost).await.is_err() {
                return;
            }
            let pause = self.rng.random_range(PAUSE);
            self.clock.sleep_until(self.clock.now() + pause).await;
        }
    }

    /// One try: connects and waits for the first answer.
    async fn reach(&self, answered: bool) -> Option<(bool, Answers)> {
        let permits = if answered { &self.heard_before } else { &self.unheard };
        let _permit = permits.acquire().await.ok()?;
        let reached = self.beat.run(format!("health of {}", self.address), FIRST_ANSWER, self.open()).await;
        match reached {
            Ok(Ok(reached)) => Some(reached),
            Ok(Err(reason)) => {
                tracing::trace!(address = %self.address, reason, "replica not reached");
                None
            }
            Err(_late) => None,
        }
    }

    async fn open(&self) -> Result<(bool, Answers), String> {
        let (interval, timeout) = KEEPALIVE;
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).map_err(|error| error.to_string())?;
        let channel = endpoint
            .http2_keep_alive_interval(interval)
            .keep_alive_timeout(timeout)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true)
            .connect()
            .await
            .map_err(|error| error.to_string())?;
        let request = HealthCheckRequest { service: SERVICE.to_owned() };
        let answer = HealthClient::new(channel).watch(request).await.map_err(|status| status.to_string())?;
        let mut answers = answer.into_inner();
        match answers.message().await {
            Ok(Some(first)) => Ok((first.status() == ServingStatus::Serving, answers)),
            Ok(None) => Err("the stream ended".to_owned()),
            Err(status) => Err(status.to_string()),
        }
    }

    /// Hands on answers until the stream ends or breaks.
    async fn listen(&self, mut answers: Answers) {
        while let Ok(Some(answer)) = answers.message().await {
            self.tell(answer.status() == ServingStatus::Serving).await;
        }
    }

    async fn tell(&self, serving: bool) {
        // The receiver is gone only when the process ends.
        let _ = self.heard.send(Heard::Answer { pod_uid: self.pod_uid.clone(), serving }).await;
    }
}

#[cfg(test)]
mod tests;
