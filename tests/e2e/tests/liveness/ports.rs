//! The health port of the real programs: what it answers, to whom, and on which addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use muster_lab::admin::page;
use muster_lab::kubelet::Signal;
use muster_lab::process::{Process, Program};
use muster_lab::{skip, wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use crate::probe::{ADMIN, HEALTH, check, serving, watch};
use crate::stage::{Cast, spec};

#[tokio::test]
async fn c57_the_empty_name_is_liveness_an_unknown_one_is_not_found_and_a_watch_tells_each_change_once() -> Result<()> {
    let stage = Cast::of(1, 1).ready().await?;
    stage.create("base", spec("a.example.com")).await?;
    for pod in stage.pods() {
        let ip = IpAddr::V4(pod.ip);
        for service in ["", "liveness", "readiness"] {
            ensure!(check(ip, HEALTH, service).await?, "{service:?} of {}", pod.name);
        }
        let unknown =
            check(ip, HEALTH, "grpc.health.v1.Health").await.map_err(anyhow::Error::downcast::<tonic::Status>);
        ensure!(matches!(&unknown, Err(Ok(status)) if status.code() == Code::NotFound), "{unknown:?}");

        let mut told = Vec::new();
        for service in ["readiness", "", "liveness"] {
            told.push((service, watch(&pod, service).await?));
        }
        stage.installation.kubelet.signal(&pod, Signal::SIGTERM)?;
        for (service, mut answers) in told {
            let mut heard = Vec::new();
            while let Ok(Some(answer)) = answers.message().await {
                heard.push(serving(answer)?);
            }
            ensure!(heard == [true, false], "{service:?} of {} told {heard:?}", pod.name);
        }
    }
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c59_the_health_port_is_plain_and_apart_while_the_api_server_is_reached_over_tls() -> Result<()> {
    let stage = Cast::of(1, 1).ready().await?;
    for pod in stage.pods() {
        // The kubelet's own probe is plain gRPC, and has found the pod ready.
        let now = stage.installation.kubelet.look(&pod).context("the pod is gone")?;
        ensure!(now.ready && now.restarts == 0, "{now:?}");
        ensure!(page(&pod, "/healthz").await? == (200, "ok\n".to_owned()));
        let error = check(IpAddr::V4(pod.ip), ADMIN, "").await;
        ensure!(error.is_err(), "gRPC is answered on the admin port");
        let mut stream = TcpStream::connect((pod.ip, HEALTH)).await?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await?;
        let mut answer = Vec::new();
        let _closed = stream.read_to_end(&mut answer).await;
        ensure!(!String::from_utf8_lossy(&answer).contains("ok"), "pages are answered on the health port");
    }
    stage.stop().await;
    Ok(())
}

/// The real aggregator with its default addresses and nobody to talk to.
fn alone(folder: &Path, ports: [u16; 2]) -> Result<Process> {
    let kubeconfig = folder.join("kubeconfig");
    let nobody = "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n\
                  clusters: [{name: x, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: x, user: {}}]\n";
    std::fs::write(&kubeconfig, nobody)?;
    let tests = std::env::current_exe()?;
    let path = tests.ancestors().nth(2).context("no build folder")?.join("muster-aggregator");
    let [health, admin] = ports.map(|port| format!("[::]:{port}"));
    let args = vec![format!("--health-addr={health}"), format!("--admin-addr={admin}")];
    let kubeconfig = ("KUBECONFIG".to_owned(), kubeconfig.display().to_string());
    let pod = ["POD_NAME", "POD_NAMESPACE", "POD_UID"].map(|name| (name.to_owned(), "x".to_owned()));
    let env = std::iter::once(kubeconfig).chain(pod).collect();
    Program { path, args, env, log: folder.join("log") }.start()
}

async fn is_live(ip: IpAddr, port: u16) -> Result<()> {
    wait::within(wait::scaled(Duration::from_secs(5)), format!("liveness at {ip}"), || async {
        ensure!(check(ip, port, "liveness").await?, "NOT_SERVING");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

#[tokio::test]
async fn c60_probes_are_answered_on_both_address_families() -> Result<()> {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return skip::skip("this machine has no IPv6");
    }
    let folder = tempfile::tempdir()?;
    // Held until both are known, so that they differ.
    let free = [TcpListener::bind("[::]:0")?, TcpListener::bind("[::]:0")?];
    let ports = [free[0].local_addr()?.port(), free[1].local_addr()?.port()];
    drop(free);
    let _process = alone(folder.path(), ports)?;
    for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        is_live(ip, ports[0]).await?;
    }
    Ok(())
}

/// Tells the second half of the test below that it runs in a network of its own.
const INSIDE: &str = "MUSTER_TEST_WITHOUT_IPV6";

#[tokio::test]
async fn c60_without_ipv6_it_starts_on_ipv4() -> Result<()> {
    if std::env::var_os(INSIDE).is_none() {
        // Again, in a network namespace whose kernel has IPv6 switched off.
        let script = "ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && exec \"$0\" \"$@\"";
        let possible = Command::new("unshare").args(["--net", "true"]).status().is_ok_and(|status| status.success());
        if !possible {
            return skip::skip("no right to make a network namespace");
        }
        let this = "ports::c60_without_ipv6_it_starts_on_ipv4";
        let inside = Command::new("unshare")
            .args(["--net", "sh", "-c", script])
            .arg(std::env::current_exe()?)
            .args(["--exact", this, "--nocapture"])
            .env(INSIDE, "1")
            .output()?;
        let said = String::from_utf8_lossy(&inside.stdout);
        ensure!(
            inside.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&inside.stderr)
        );
        return Ok(());
    }
    ensure!(TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err(), "IPv6 works here");
    let folder = tempfile::tempdir()?;
    let _process = alone(folder.path(), [HEALTH, ADMIN])?;
    is_live(IpAddr::V4(Ipv4Addr::LOCALHOST), HEALTH).await
}
