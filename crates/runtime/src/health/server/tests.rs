//! Health over real gRPC on loopback, as a kubelet or grpcurl asks.

use std::net::SocketAddr;

use futures::{StreamExt as _, stream};
use muster_core::heartbeat::LoopId;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};
use tonic_health::pb::health_check_response::ServingStatus::{self, NotServing, Serving};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::{v1 as new, v1alpha as old};

use super::*;
use crate::clock::Clock;
use crate::health::{Check, Readiness};
use crate::heartbeat::{Heartbeat, Loop};
use crate::net;
use crate::replica::{self, v1};
use crate::supervise::{Ended, How, Tasks};

const SOON: Duration = Duration::from_secs(5);

struct Rig {
    addr: SocketAddr,
    health: Health,
    tasks: Tasks,
    readiness: Readiness,
    synced: Check,
    build: Loop,
    server: JoinHandle<Result<(), ServeError>>,
}

/// Describes nothing but the loops.
struct Describe(Heartbeat, Clock);

#[tonic::async_trait]
impl v1::replica_server::Replica for Describe {
    async fn describe(
        &self,
        _: tonic::Request<v1::DescribeRequest>,
    ) -> Result<tonic::Response<v1::DescribeResponse>, tonic::Status> {
        let loops = replica::loops(&self.0, &self.1);
        Ok(tonic::Response::new(v1::DescribeResponse { loops, ..v1::DescribeResponse::default() }))
    }
}

/// A server with a stall threshold of 100 ms.
fn rig() -> Rig {
    let clock = Clock::system();
    let heartbeat = Heartbeat::new(Duration::from_millis(100), LoopId::RECONCILER, clock.clone());
    let readiness = Readiness::default();
    let synced = readiness.register("watch-executors", "not synced");
    let tasks = Tasks::new(CancellationToken::new(), CancellationToken::new());
    let health = Health::new(heartbeat.clone(), tasks.clone(), readiness.clone());
    let describe = v1::replica_server::ReplicaServer::new(Describe(heartbeat.clone(), clock));
    let routes = routes(health.clone(), &[replica::DESCRIPTORS]).unwrap().add_service(describe);
    let bound = net::bind("[::]:0".parse().unwrap(), "--health-addr").unwrap();
    let addr = bound.addr();
    let server = tokio::spawn(serve(bound, routes, health.clone()));
    Rig { addr, health, tasks, readiness, synced, build: heartbeat.of(LoopId::BUILD), server }
}

impl Rig {
    async fn channel(&self, ip: &str) -> Channel {
        let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
        Endpoint::from_shared(format!("http://{host}:{}", self.addr.port())).unwrap().connect().await.unwrap()
    }

    async fn check(&self, service: &str) -> Result<ServingStatus, Code> {
        let mut client = HealthClient::new(self.channel("127.0.0.1").await);
        let answer = client.check(HealthCheckRequest { service: service.to_owned() }).await;
        answer.map(|answer| answer.into_inner().status()).map_err(|status| status.code())
    }

    async fn watch(&self, service: &str) -> Streaming<HealthCheckResponse> {
        let mut client = HealthClient::new(self.channel("127.0.0.1").await);
        client.watch(HealthCheckRequest { service: service.to_owned() }).await.unwrap().into_inner()
    }

    /// Waits until `service` answers `expected`.
    async fn becomes(&self, service: &str, expected: ServingStatus) {
        let changed = async {
            while self.check(service).await != Ok(expected) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(SOON, changed).await.expect("it changes");
    }
}

async fn told(stream: &mut Streaming<HealthCheckResponse>) -> Option<ServingStatus> {
    let next = tokio::time::timeout(SOON, stream.next()).await.expect("something is told");
    next.and_then(Result::ok).map(|answer| answer.status())
}

#[tokio::test]
async fn c56_an_unsynced_process_is_alive_and_not_ready() {
    let rig = rig();
    assert_eq!(rig.check("readiness").await, Ok(NotServing));
    assert_eq!(rig.check("liveness").await, Ok(Serving));
    rig.synced.pass();
    assert_eq!(rig.check("readiness").await, Ok(NotServing), "still starting");
    rig.readiness.started();
    assert_eq!(rig.check("readiness").await, Ok(Serving));
}

#[tokio::test]
async fn c57_the_empty_name_is_liveness_and_an_unknown_one_not_found() {
    let rig = rig();
    assert_eq!(rig.check("").await, Ok(Serving));
    assert_eq!(rig.check("grpc.health.v1.Health").await, Err(Code::NotFound));
    let mut client = HealthClient::new(rig.channel("127.0.0.1").await);
    let watch = client.watch(HealthCheckRequest { service: "Readiness".to_owned() }).await;
    assert_eq!(watch.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn c57_a_watch_tells_each_change_once() {
    let rig = rig();
    let mut watch = rig.watch("readiness").await;
    assert_eq!(told(&mut watch).await, Some(NotServing));
    rig.readiness.started();
    rig.synced.note("nearly");
    rig.synced.pass();
    assert_eq!(told(&mut watch).await, Some(Serving));
    rig.synced.pass_with("a note is no change");
    rig.synced.pass();
    rig.synced.fail("lost");
    assert_eq!(told(&mut watch).await, Some(NotServing));
}

#[tokio::test]
async fn c60_both_address_families_are_answered() {
    let rig = rig();
    for ip in ["127.0.0.1", "::1"] {
        let mut client = HealthClient::new(rig.channel(ip).await);
        let answer = client.check(HealthCheckRequest::default()).await.unwrap();
        assert_eq!(answer.into_inner().status(), Serving, "{ip}");
    }
}

#[tokio::test]
async fn a_stall_fails_both_services_and_passes_with_it() {
    let rig = rig();
    rig.readiness.started();
    rig.synced.pass();
    let mut watch = rig.watch("liveness").await;
    assert_eq!(told(&mut watch).await, Some(Serving));
    let run = rig.build.due_now("executor a").start().await;
    rig.becomes("", NotServing).await;
    assert_eq!(rig.check("readiness").await, Ok(NotServing));
    assert_eq!(told(&mut watch).await, Some(NotServing), "by time alone");
    run.complete();
    rig.becomes("liveness", Serving).await;
    assert_eq!(told(&mut watch).await, Some(Serving));
}

#[tokio::test]
async fn c33_a_task_that_ended_fails_liveness_for_good() {
    let rig = rig();
    rig.tasks.record(Ended { task: "watch-executors", how: How::Returned });
    assert_eq!(rig.check("").await, Ok(NotServing));
    assert_eq!(rig.health.liveness(), Err("task watch-executors ended without being told to".to_owned()));
}

#[tokio::test]
async fn closing_tells_everybody_and_waits_for_nobody() {
    let rig = rig();
    rig.readiness.started();
    rig.synced.pass();
    let mut watches = [rig.watch("readiness").await, rig.watch("liveness").await, rig.watch("").await];
    for watch in &mut watches {
        assert_eq!(told(watch).await, Some(Serving));
    }
    rig.health.close();
    for watch in &mut watches {
        assert_eq!(told(watch).await, Some(NotServing));
        assert_eq!(told(watch).await, None, "the stream ends");
    }
    let addr = rig.addr;
    tokio::time::timeout(SOON, rig.server).await.expect("the server ends").unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(addr).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_closing() {
    let rig = rig();
    let silent = tokio::net::TcpStream::connect(rig.addr).await.unwrap();
    let mut client = HealthClient::new(rig.channel("::1").await);
    client.check(HealthCheckRequest::default()).await.unwrap();
    rig.health.close();
    tokio::time::timeout(SOON, rig.server).await.expect("the server ends").unwrap().unwrap();
    drop((silent, client));
}

#[tokio::test]
async fn a_replica_describes_itself_on_the_same_port() {
    let rig = rig();
    let run = rig.build.due_now("executor a").start().await;
    let mut client = v1::replica_client::ReplicaClient::new(rig.channel("::1").await);
    let described = client.describe(v1::DescribeRequest::default()).await.unwrap().into_inner();
    let build = described.loops.iter().find(|line| line.name == "build").unwrap();
    assert_eq!((build.running, build.overdue, build.completed), (1, 0, 0));
    assert!(build.running_since.is_some() && build.last_completed.is_none());
    assert_eq!(described.loops.len(), LoopId::RECONCILER.len());
    run.complete();
}

#[tokio::test]
async fn reflection_lists_every_service_in_both_versions() {
    let rig = rig();
    let expected = ["grpc.health.v1.Health", "muster.v1.Replica"];

    let mut client = new::server_reflection_client::ServerReflectionClient::new(rig.channel("127.0.0.1").await);
    let list = new::server_reflection_request::MessageRequest::ListServices(String::new());
    let ask = new::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let mut answers = client.server_reflection_info(stream::iter([ask])).await.unwrap().into_inner();
    let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
    let new::server_reflection_response::MessageResponse::ListServicesResponse(services) = answer else {
        panic!("no list: {answer:?}");
    };
    let names: Vec<String> = services.service.into_iter().map(|service| service.name).collect();
    assert!(expected.iter().all(|name| names.iter().any(|listed| listed == name)), "{names:?}");

    let mut client = old::server_reflection_client::ServerReflectionClient::new(rig.channel("127.0.0.1").await);
    let list = old::server_reflection_request::MessageRequest::ListServices(String::new());
    let ask = old::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let mut answers = client.server_reflection_info(stream::iter([ask])).await.unwrap().into_inner();
    let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
    let old::server_reflection_response::MessageResponse::ListServicesResponse(services) = answer else {
        panic!("no list: {answer:?}");
    };
    assert!(services.service.iter().any(|service| service.name == "muster.v1.Replica"));
}
