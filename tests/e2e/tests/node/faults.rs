//! Who is restarted, and who is not: the kubelet asks the health port as it does for users.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use muster_lab::installation::NAMESPACE;
use muster_lab::process::{Process, Program};
use muster_lab::{faulty, manifests, wait};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::stage::{Stage, program};

/// Deadlines so short that a threshold of 25 s is allowed.
const QUICK: &str =
    "--watch-timeout=2s,--request-timeout=2s,--list-timeout=2s,--build-deadline=12s,--stall-threshold=25s";
/// Where the upstream listens in the node's network, and the name that it has in the cluster.
const UPSTREAM: (&str, u16) = ("10.200.0.1", 8443);
const NAME: &str = "vault.muster-system.svc.cluster.local";

#[tokio::test]
async fn a_hung_loop_is_restarted_by_the_kubelet_and_a_frozen_upstream_restarts_nobody() -> Result<()> {
    let Some(stage) = Stage::start().await? else { return Ok(()) };
    a_hung_loop_is_restarted(&stage).await.context("a hung loop")?;
    stage.helm(&["uninstall", "muster", "--namespace=muster-system", "--wait", "--timeout=2m"]).await?;
    a_frozen_upstream_restarts_nobody(&stage).await.context("a frozen upstream")?;
    stage.stop().await;
    Ok(())
}

async fn a_hung_loop_is_restarted(stage: &Stage) -> Result<()> {
    stage.load(&faulty::program("reconciler")?, "muster-reconciler", "fault").await?;
    let args = format!("reconciler.extraArgs={{{QUICK},--hang=watch-executors}}");
    let install = [
        "install",
        "muster",
        "deploy/chart",
        "--namespace=muster-system",
        "--set=reconciler.image.tag=fault,reconciler.replicaCount=1,reconciler.livenessProbe.periodSeconds=2",
        "--set",
        &args,
    ];
    stage.helm(&install).await?;
    wait::within(wait::scaled(Duration::from_mins(2)), "a restart", || async {
        ensure!(stage.restarts("reconciler").await? >= 1, "none");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let said = probe_failures(stage).await?;
    let stalled = r#"Liveness probe failed: service unhealthy (responded with "NOT_SERVING")"#;
    ensure!(said.iter().any(|note| note == stalled), "the kubelet does not say that liveness failed: {said:?}");
    ensure!(stage.restarts("aggregator").await? == 0, "an aggregator was restarted");
    Ok(())
}

/// What the kubelet says about probes that failed.
async fn probe_failures(stage: &Stage) -> Result<Vec<String>> {
    let events: Api<Event> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let failures = ListParams::default().fields("reason=Unhealthy");
    let notes = events.list(&failures).await?.items.into_iter().filter_map(|event| event.note);
    Ok(notes.map(|note| note.trim().to_owned()).collect())
}

/// An upstream on the node, reached by a name of the cluster's DNS over TLS.
fn upstream(stage: &Stage) -> Result<Process> {
    let root = stage.node.plane.root();
    let args = [
        format!("--listen-tls={}:{}", UPSTREAM.0, UPSTREAM.1),
        format!("--name={NAME}"),
        format!("--ca-out={}", root.join("upstream-ca.crt").display()),
    ];
    let log = stage.node.plane.logs().join("upstream.log");
    let program = Program { path: program("muster-upstream")?, args: args.to_vec(), env: Vec::new(), log };
    stage.node.in_network(program)?.start()
}

async fn a_frozen_upstream_restarts_nobody(stage: &Stage) -> Result<()> {
    let upstream = upstream(stage)?;
    let ca = stage.node.plane.root().join("upstream-ca.crt");
    let authority = wait::until("the upstream's authority", || async { std::fs::read_to_string(&ca) }).await?;
    let address: SocketAddr = format!("{}:{}", UPSTREAM.0, UPSTREAM.1).parse()?;
    let objects = [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "vault", "namespace": NAMESPACE},
            "spec": {"clusterIP": "None", "ports": [{"name": "https", "port": address.port()}]}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "vault", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "vault"}},
            "endpoints": [{"addresses": [UPSTREAM.0]}], "ports": [{"name": "https", "port": address.port()}]}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "authority", "namespace": NAMESPACE},
            "data": {"ca.crt": authority}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vault", "namespace": NAMESPACE},
            "stringData": {"token": "fft_node-token"}}),
    ];
    let objects = objects.map(|object| object.to_string()).join("\n---\n");
    manifests::apply(&stage.client, &objects).await?;
    let values = json!({"reconciler": {
        "replicaCount": 2, "readableSecrets": ["vault"], "extraArgs": QUICK.split(',').collect::<Vec<_>>(),
        // Long enough that a machine which is busy with other tests answers in time.
        "livenessProbe": {"periodSeconds": 5, "timeoutSeconds": 5},
        "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/authority/ca.crt"}],
        "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
        "extraVolumeMounts": [{"name": "authority", "mountPath": "/authority", "readOnly": true}],
    }});
    let file = stage.node.plane.root().join("values.json");
    std::fs::write(&file, values.to_string()).context("cannot write the values")?;
    stage.release("install", &["--values", &file.to_string_lossy()]).await?;
    apply_executor(stage, 1).await?;
    stage.all_ready("far", 2).await.context("the upstream answers by name over TLS")?;

    upstream.signal(Signal::SIGSTOP);
    apply_executor(stage, 2).await?;
    stage
        .status("far", |executor, status| {
            let entry =
                |entry: &muster_api::PodEntry| !entry.succeeded && entry.reason == muster_api::Reason::Unreachable;
            ensure!(status.observed_generation == executor.metadata.generation, "another generation");
            ensure!(status.by_pod.len() == 2 && status.by_pod.iter().all(entry), "not both say Unreachable");
            Ok(())
        })
        .await?;
    // Longer than two thresholds of liveness.
    let restarted = wait::within(Duration::from_mins(1), "a restart", || async {
        ensure!(stage.restarts("reconciler").await? > 0, "none");
        Ok::<_, anyhow::Error>(())
    });
    if restarted.await.is_ok() {
        bail!("a replica was restarted: {:?}", probe_failures(stage).await?);
    }
    upstream.signal(Signal::SIGCONT);
    stage.all_ready("far", 2).await
}

async fn apply_executor(stage: &Stage, concurrency: i32) -> Result<()> {
    let executor = json!({
        "apiVersion": "config.ratify.dev/v2alpha1", "kind": "Executor", "metadata": {"name": "far"},
        "spec": {
            "concurrency": concurrency, "scopes": ["far.example.com"],
            "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
            "verifiers": [{"name": "notation", "type": "notation", "parameters": {"certificates": [{"type": "ca", "ferrvault": {
                "url": format!("https://{NAME}:{}", UPSTREAM.1), "organization": "o", "project": "p", "vault": "v",
                "certs": ["ca"], "tokenSecretRef": {"name": "vault", "key": "token"},
            }}]}}],
            "policyEnforcer": {"type": "threshold-policy", "parameters": {"policy": {
                "threshold": 1, "rules": [{"verifierName": "notation"}],
            }}},
        },
    });
    manifests::apply(&stage.client, &executor.to_string()).await.map(drop)
}
