//! The harness that plays kubelet: pods of real Deployments run, are probed, restart and end as on a node.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use muster_lab::control_plane::{self, ControlPlane};
use muster_lab::kubelet::{Kubelet, Options, PodView, Signal};
use muster_lab::{deployments, manifests, wait};
use serde_json::{Value, json};

async fn start() -> Result<(ControlPlane, Kubelet)> {
    let plane = ControlPlane::start(control_plane::Options::default()).await?;
    plane.default_service_account("default").await?;
    let kubelet = Kubelet::start(&plane, Options::default()).await?;
    Ok((plane, kubelet))
}

/// A Deployment `d` with this container.
async fn deploy(plane: &ControlPlane, replicas: u32, container: Value) -> Result<()> {
    let labels = json!({"app": "d"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        }},
    });
    manifests::apply(&plane.client()?, &deployment.to_string()).await.map(drop)
}

/// The stand-in program, with probes.
fn probed(more: &Value) -> Result<Value> {
    let tests = std::env::current_exe()?;
    let program = tests.ancestors().nth(2).context("no folder")?.join("examples/probed");
    let mut container = json!({
        "name": "c", "image": "c", "command": [program], "args": ["--address=$(POD_IP)"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"grpc": {"port": 8086, "service": "readiness"}, "periodSeconds": 1, "failureThreshold": 1},
        "livenessProbe": {"grpc": {"port": 8086, "service": "liveness"}, "periodSeconds": 1, "failureThreshold": 2},
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        container[name] = value.clone();
    }
    Ok(container)
}

fn only(kubelet: &Kubelet) -> Result<PodView> {
    let pods = kubelet.pods_of("default", "d");
    ensure!(pods.len() == 1, "{pods:?}");
    pods.into_iter().next().context("no pod")
}

fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_deployment_becomes_processes_and_goes_again() -> Result<()> {
    let (plane, kubelet) = start().await?;
    let client = plane.client()?;
    deploy(&plane, 2, json!({"name": "c", "image": "c", "command": ["/bin/sleep", "1000"]})).await?;
    deployments::rolled_out(&client, "default", "d").await?;
    let pods = kubelet.pods_of("default", "d");
    assert_eq!(pods.len(), 2);
    assert_ne!(pods[0].ip, pods[1].ip);

    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let status = api.get(&pods[0].name).await?.status.context("no status")?;
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.pod_ip, Some(pods[0].ip.to_string()));

    // Killed, it starts again in place: the same pod, another process.
    let before = pods[0].pid.context("no process")?;
    kubelet.signal(&pods[0], Signal::SIGKILL)?;
    wait::until("a restart in place", || async {
        let now = kubelet.look(&pods[0]).context("the pod is gone")?;
        ensure!(now.restarts == 1 && now.pid.is_some_and(|pid| pid != before), "{now:?}");
        anyhow::Ok(())
    })
    .await?;
    wait::until("the restart to be reported", || async {
        let status = api.get(&pods[0].name).await?.status.context("no status")?;
        let container = status.container_statuses.and_then(|all| all.into_iter().next()).context("no container")?;
        ensure!(container.restart_count == 1 && container.ready, "{container:?}");
        let code = container.last_state.and_then(|state| state.terminated).map(|end| end.exit_code);
        ensure!(code == Some(137), "{code:?}");
        anyhow::Ok(())
    })
    .await?;

    // A crash takes the pod with it, and the Deployment makes another.
    kubelet.crash(&pods[1]).await?;
    wait::until("a replacement", || async {
        let names: Vec<_> = kubelet.pods_of("default", "d").into_iter().map(|pod| pod.name).collect();
        ensure!(names.len() == 2 && !names.contains(&pods[1].name), "{names:?}");
        anyhow::Ok(())
    })
    .await?;
    deployments::rolled_out(&client, "default", "d").await?;

    let pids: Vec<_> = kubelet.pods().into_iter().filter_map(|pod| pod.pid).collect();
    deployments::scale(&client, "default", "d", 0).await?;
    wait::until("no pods", || async {
        let left = api.list(&ListParams::default()).await?.items.len();
        ensure!(left == 0 && kubelet.pods().is_empty(), "{left} pods, {:?}", kubelet.pods());
        anyhow::Ok(())
    })
    .await?;
    assert!(pids.into_iter().all(|pid| !is_alive(pid)));
    kubelet.stop().await;
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn probes_decide_readiness_and_restarts_and_the_token_is_bound_to_the_pod() -> Result<()> {
    let (plane, kubelet) = start().await?;
    kubelet.customise(|_, launch| launch.command.push("--more".to_owned()));
    deploy(&plane, 1, probed(&json!({}))?).await?;
    let client = plane.client()?;
    deployments::rolled_out(&client, "default", "d").await?;
    let pod = only(&kubelet)?;
    let log = pod.log_text()?;
    assert!(log.contains(&format!("arguments: [\"--address={}\", \"--more\"]", pod.ip)), "{log}");
    for (field, value) in [("pod-uid", &pod.uid), ("pod-name", &pod.name), ("node-name", &"lab-node".to_owned())] {
        assert!(log.contains(&format!("\"authentication.kubernetes.io/{field}\":[\"{value}\"]")), "{field}: {log}");
    }

    let ready = async |wanted: bool| {
        wait::until(format!("ready = {wanted}"), || async {
            let now = kubelet.look(&pod).context("the pod is gone")?;
            ensure!(now.ready == wanted && now.restarts == 0, "{now:?}");
            anyhow::Ok(())
        })
        .await
    };
    kubelet.signal(&pod, Signal::SIGUSR1)?;
    ready(false).await?;
    kubelet.signal(&pod, Signal::SIGUSR1)?;
    ready(true).await?;

    // A process that hangs is restarted in place by its liveness probe, and so is one that says it is broken. It does not
    // heed SIGTERM, so the grace of one second has to pass first.
    for (signal, restarts) in [(Signal::SIGSTOP, 1), (Signal::SIGUSR2, 2)] {
        kubelet.signal(&pod, signal)?;
        wait::until(format!("restart {restarts}"), || async {
            let now = kubelet.look(&pod).context("the pod is gone")?;
            ensure!(now.restarts == restarts && now.ready, "{now:?}");
            anyhow::Ok(())
        })
        .await?;
    }
    assert!(pod.log_text()?.contains("asked to end"));
    kubelet.stop().await;
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn until_the_startup_probe_succeeds_the_others_do_not_count() -> Result<()> {
    let (plane, kubelet) = start().await?;
    // Nothing is called `never`: the container is killed for its startup probe, three failures after its start, and is
    // never ready although the other two probes would succeed.
    let startup = json!({"grpc": {"port": 8086, "service": "never"}, "periodSeconds": 1, "failureThreshold": 3});
    deploy(&plane, 1, probed(&json!({"startupProbe": startup}))?).await?;
    let mut was_ready = false;
    wait::until("a restart", || {
        let pod = only(&kubelet);
        was_ready |= pod.as_ref().is_ok_and(|pod| pod.ready);
        async move {
            let pod = pod?;
            ensure!(pod.restarts >= 1, "{pod:?}");
            anyhow::Ok(())
        }
    })
    .await?;
    assert!(!was_ready);
    kubelet.stop().await;
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn cordon_eviction_and_refusal() -> Result<()> {
    let (plane, kubelet) = start().await?;
    let client = plane.client()?;
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    kubelet.cordon();
    deploy(&plane, 1, json!({"name": "c", "image": "c", "command": ["/bin/sleep", "1000"]})).await?;
    wait::until("an unschedulable pod", || async {
        let pod = api.get(&only(&kubelet)?.name).await?;
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        ensure!(conditions.iter().any(|c| c.reason.as_deref() == Some("Unschedulable")), "{conditions:?}");
        anyhow::Ok(())
    })
    .await?;
    kubelet.uncordon();
    deployments::rolled_out(&client, "default", "d").await?;

    // An evicted pod stays as a Failed object without a process, and is replaced.
    let pod = only(&kubelet)?;
    let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
    api.patch_status(&pod.name, &PatchParams::default(), &Patch::Merge(&evicted)).await?;
    wait::until("the process to end and a replacement to run", || async {
        let pods = kubelet.pods_of("default", "d");
        let running = pods.iter().filter(|pod| pod.pid.is_some()).count();
        ensure!(pods.len() == 2 && running == 1, "{pods:?}");
        anyhow::Ok(())
    })
    .await?;
    assert_eq!(api.get(&pod.name).await?.status.and_then(|status| status.phase).as_deref(), Some("Failed"));
    api.delete(&pod.name, &DeleteParams::default()).await?;
    wait::until("the evicted pod to go", || async {
        ensure!(api.get_opt(&pod.name).await?.is_none(), "it is there");
        anyhow::Ok(())
    })
    .await?;

    // What cannot be run says so.
    deploy(&plane, 1, json!({"name": "c", "image": "c", "command": ["no-such-program"]})).await?;
    wait::until("a refusal", || async {
        let states: Vec<_> = api.list(&ListParams::default()).await?.items.into_iter().map(|pod| pod.status).collect();
        ensure!(format!("{states:?}").contains("no-such-program is not built"), "{states:?}");
        anyhow::Ok(())
    })
    .await?;
    kubelet.stop().await;
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn an_outage_of_the_api_server_leaves_the_pods_alone() -> Result<()> {
    let (plane, kubelet) = start().await?;
    let client = plane.client()?;
    deploy(&plane, 1, probed(&json!({}))?).await?;
    deployments::rolled_out(&client, "default", "d").await?;
    let pod = only(&kubelet)?;
    plane.api_server().kill().await;
    kubelet.signal(&pod, Signal::SIGUSR1)?;
    wait::until("the probe to notice", || async {
        let now = kubelet.look(&pod).context("the pod is gone")?;
        ensure!(!now.ready && now.pid == pod.pid, "{now:?}");
        anyhow::Ok(())
    })
    .await?;
    plane.start_api_server().await?;
    let api: Api<Pod> = Api::namespaced(plane.client()?, "default");
    wait::within(wait::scaled(Duration::from_secs(10)), "the report", || async {
        let status = api.get(&pod.name).await?.status.context("no status")?;
        let ready = status.conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
        ensure!(ready.as_ref().is_some_and(|ready| ready.status == "False"), "{ready:?}");
        anyhow::Ok(())
    })
    .await?;
    kubelet.stop().await;
    plane.stop().await;
    Ok(())
}
