//! A stand-in for the product in the lab's own tests: answers gRPC health checks on `POD_IP:8086`, says who the API server
//! takes it for, and changes its mind on request: SIGUSR1 flips `readiness`, SIGUSR2 flips `liveness`. SIGTERM is ignored.

#![expect(clippy::print_stdout, reason = "its log is how a test sees it")]

use std::net::SocketAddr;

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, PostParams};
use tokio::signal::unix::{SignalKind, signal};
use tonic_health::ServingStatus;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut readiness = signal(SignalKind::user_defined1())?;
    let mut liveness = signal(SignalKind::user_defined2())?;
    let mut terminate = signal(SignalKind::terminate())?;

    let reviews: Api<SelfSubjectReview> = Api::all(kube::Client::try_default().await?);
    let me = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    println!("{}", serde_json::to_string(&me.status)?);
    println!("arguments: {:?}", std::env::args().skip(1).collect::<Vec<_>>());

    let address: SocketAddr = format!("{}:8086", std::env::var("POD_IP").context("POD_IP")?).parse()?;
    let (reporter, service) = tonic_health::server::health_reporter();
    let mut ready = true;
    let mut alive = true;
    let status = |good| if good { ServingStatus::Serving } else { ServingStatus::NotServing };
    for name in ["readiness", "liveness"] {
        reporter.set_service_status(name, status(true)).await;
    }
    let server = tonic::transport::Server::builder().add_service(service).serve(address);
    tokio::pin!(server);
    loop {
        tokio::select! {
            served = &mut server => return served.context("cannot serve"),
            _ = readiness.recv() => ready = !ready,
            _ = liveness.recv() => alive = !alive,
            _ = terminate.recv() => println!("asked to end"),
        }
        reporter.set_service_status("readiness", status(ready)).await;
        reporter.set_service_status("liveness", status(alive)).await;
    }
}
