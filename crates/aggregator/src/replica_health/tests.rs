//! The health watches over real sockets: every kind of address, and replicas that hang by the hundred.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use muster_core::heartbeat::LoopId;
use muster_runtime::heartbeat::Heartbeat;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;

use super::*;
use crate::facts::Life;
use crate::roster::SILENCE;

/// A replica that is ready.
async fn replica(address: IpAddr) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let bound = listener.local_addr().unwrap();
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status(SERVICE, ServingStatus::Serving).await;
    let incoming = TcpIncoming::from(listener);
    tokio::spawn(async move {
        let _reporter = reporter;
        Server::builder().add_service(service).serve_with_incoming(incoming).await
    });
    bound
}

fn pod(uid: &str, address: SocketAddr) -> Pod {
    Pod {
        name: uid.into(),
        uid: uid.into(),
        life: Life::Expected,
        ip: Some(address.ip()),
        health_port: Some(address.port()),
    }
}

/// Starts listening to `pods`; the sender ends it when dropped.
fn listen(pods: Vec<Pod>) -> (watch::Sender<Vec<Pod>>, mpsc::Receiver<Heard>) {
    let (heard, said) = mpsc::channel(64);
    let (told, pods) = watch::channel(pods);
    let clock = Clock::system();
    let heartbeat = Heartbeat::new(Duration::from_mins(15), LoopId::AGGREGATOR, clock.clone());
    let beat = heartbeat.of(LoopId::HEALTH);
    tokio::spawn(async move { Listener { clock, rng: Rng::seeded(1), beat, heard }.run(pods).await });
    (told, said)
}

#[tokio::test]
async fn a_replica_is_heard_at_either_kind_of_address() {
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let (_told, mut said) = listen(vec![pod("a", replica(address).await)]);
        let answer = timeout(SILENCE, said.recv()).await.unwrap();
        assert_eq!(answer, Some(Heard::Answer { pod_uid: "a".into(), serving: true }), "{address}");
    }
}

/// To a new leader, a replica is silent after [`SILENCE`], so it has to be tried before, whoever hangs.
#[tokio::test]
async fn replicas_that_answer_are_heard_in_time_among_a_thousand_that_hang() {
    // It takes connections and says nothing, or does not even take them.
    let hung = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let silent = hung.local_addr().unwrap();
    let mut pods: Vec<Pod> = (0..1_000).map(|number| pod(&format!("hung-{number}"), silent)).collect();
    let mut missing = HashSet::new();
    for number in 0..30 {
        let at = replica(IpAddr::V4(Ipv4Addr::LOCALHOST)).await;
        pods.push(pod(&format!("good-{number}"), at));
        missing.insert(Arc::<str>::from(format!("good-{number}")));
    }
    let (_told, mut said) = listen(pods);
    let all = timeout(SILENCE, async {
        while !missing.is_empty() {
            match said.recv().await {
                Some(Heard::Answer { pod_uid, serving: true }) => missing.remove(&pod_uid),
                other => !matches!(other, Some(Heard::Lost { .. })),
            };
        }
    });
    assert!(all.await.is_ok(), "not heard within {SILENCE:?}: {missing:?}");
}
