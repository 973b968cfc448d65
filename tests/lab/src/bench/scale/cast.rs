//! Replicas by the thousand that only pretend: real pods of the real Deployment on a node that kwok plays, each with a
//! loopback address, and one listener that answers for the health port of all of them.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use muster_toolbox::Tool;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;

use crate::control_plane::{ControlPlane, locate};
use crate::installation::{NAMESPACE, RECONCILER};
use crate::process::{Process, Program};
use crate::wait;

/// The node.
const NODE: &str = "pretended";
/// Addresses of its pods; outside of the networks that the lab's planes take.
const ADDRESSES: &str = "127.64.0.1/16";
/// Pods on one page of a list.
const PAGE: u32 = 500;
/// How long so many pods may take to become ready.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(10);

/// All pretended replicas. They end with this value.
pub(super) struct Cast {
    /// The pods, by name.
    pub(super) pods: Vec<Actor>,
    _kwok: Process,
    _health: AbortOnDropHandle<()>,
}

/// One pretended replica.
pub(super) struct Actor {
    pub(super) name: String,
    pub(super) uid: String,
}

impl Cast {
    /// Makes so many pods of the reconciler's Deployment and waits until all are ready.
    pub(super) async fn start(plane: &ControlPlane, replicas: u16) -> Result<Self> {
        let client = plane.client()?;
        let (port, health) = answer_health().await?;
        let annotations = json!({"kwok.x-k8s.io/node": "fake"});
        let node = json!({"metadata": {"name": NODE, "annotations": annotations}});
        Api::<Node>::all(client.clone()).create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        let kwok = kwok(plane)?;
        scale(&client, replicas, port).await?;
        let pods = ready(&client, replicas).await?;
        Ok(Self { pods, _kwok: kwok, _health: health })
    }
}

/// Starts kwok for this node and its pods.
fn kwok(plane: &ControlPlane) -> Result<Process> {
    let stages = plane.root().join("stages.yaml");
    std::fs::write(&stages, include_str!("stages.yaml")).context("cannot write the stages")?;
    let args = vec![
        format!("--kubeconfig={}", plane.kubeconfig().display()),
        format!("--config={}", stages.display()),
        format!("--cidr={ADDRESSES}"),
        "--manage-all-nodes=false".to_owned(),
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
        "--node-lease-duration-seconds=0".to_owned(), // nobody judges the node by it here
    ];
    Program { path: locate(Tool::Kwok)?, args, env: Vec::new(), log: plane.logs().join("kwok.log") }.start()
}

/// Puts the Deployment's pods on the node, with the port that is answered.
async fn scale(client: &Client, replicas: u16, port: u16) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let mut deployment = deployments.get(RECONCILER).await.context("no Deployment of the reconciler")?;
    let spec = deployment.spec.as_mut().context("a Deployment without a spec")?;
    spec.replicas = Some(replicas.into());
    let pod = spec.template.spec.as_mut().context("a template without a spec")?;
    pod.node_name = Some(NODE.to_owned());
    let ports = pod.containers.iter_mut().flat_map(|container| container.ports.iter_mut().flatten());
    for health in ports.filter(|port| port.name.as_deref() == Some("health")) {
        health.container_port = port.into();
    }
    deployments.replace(RECONCILER, &PostParams::default(), &deployment).await.context("cannot scale")?;
    Ok(())
}

/// Waits until every pod is ready and has an address.
async fn ready(client: &Client, replicas: u16) -> Result<Vec<Actor>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    wait::within(PATIENCE, "every pretended pod to be ready", || async {
        let ready = deployments.get(RECONCILER).await?.status.and_then(|status| status.ready_replicas);
        ensure!(ready == Some(replicas.into()), "{} of {replicas} ready", ready.unwrap_or_default());
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let mut actors = Vec::new();
    let mut page = ListParams::default().labels("app.kubernetes.io/component=reconciler").limit(PAGE);
    loop {
        let list = pods.list(&page).await.context("cannot list the pods")?;
        for pod in list.items {
            let has_address = pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some());
            ensure!(has_address, "{} has no address", pod.name_any());
            actors.push(Actor { name: pod.name_any(), uid: pod.uid().unwrap_or_default() });
        }
        match list.metadata.continue_ {
            Some(next) if !next.is_empty() => page = page.continue_token(&next),
            _ => break,
        }
    }
    ensure!(actors.len() == usize::from(replicas), "{} pods", actors.len());
    Ok(actors)
}

/// Answers `readiness` with serving on every address of this machine; returns on which port.
async fn answer_health() -> Result<(u16, AbortOnDropHandle<()>)> {
    let incoming = TcpIncoming::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).context("cannot listen")?;
    let port = incoming.local_addr().context("no address")?.port();
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status("readiness", ServingStatus::Serving).await;
    let server = tokio::spawn(async move {
        let _reporter = reporter;
        if let Err(error) = Server::builder().add_service(service).serve_with_incoming(incoming).await {
            tracing::error!("health: {error}");
        }
    });
    Ok((port, AbortOnDropHandle::new(server)))
}
