//! Who a replica is: C03 of the public reports, on real bound tokens.

use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use muster_lab::audit::Audit;
use muster_lab::installation::{NAMESPACE, RECONCILER};
use muster_lab::wait;
use tokio::process::Command;

use crate::stage::{Stage, bin_dir, kubeconfig, spec, write_of_replica};

/// Starts the binary by hand, as a person would, and waits for its end.
async fn run(stage: &Stage, token: &str, env: &[(&str, &str)], args: &[&str]) -> Result<Output> {
    let config = kubeconfig(stage, token)?;
    let mut command = Command::new(bin_dir()?.join("muster-reconciler"));
    command.args(args).args(["--health-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"]).env_clear();
    command.env("KUBECONFIG", config).envs(env.iter().copied()).stdin(Stdio::null()).kill_on_drop(true);
    tokio::time::timeout(wait::patience(), command.output())
        .await
        .context("it goes on running")?
        .context("cannot run it")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[tokio::test]
async fn c03_a_replica_that_is_not_who_it_says_refuses_with_one_line_and_creates_nothing() -> Result<()> {
    let stage = Stage::ready(1, &[]).await?;
    let executor = stage.create("a", spec("a.example.com")).await?;
    stage.served(&executor).await?;
    let pod = stage.pods().pop().context("no pod")?;
    let token = stage.pod_token(&pod).await?;
    let unbound = stage.token(NAMESPACE, RECONCILER, None).await?;
    let audit = stage.installation.plane.audit();
    let before = audit.count(Audit::START, write_of_replica)?;

    let name = ("POD_NAME", pod.name.as_str());
    let namespace = ("POD_NAMESPACE", NAMESPACE);
    let uid = ("POD_UID", pod.uid.as_str());
    for (token, env, args, expected) in [
        (&token, vec![namespace, uid], vec![], "POD_NAME is not set"),
        (&token, vec![], vec![], "POD_NAME, POD_NAMESPACE, POD_UID are not set"),
        (&token, vec![("POD_NAME", "nobody"), namespace, uid], vec![], "POD_NAME is \"nobody\""),
        (&token, vec![name, namespace, ("POD_UID", "0b7d3a7e")], vec![], "POD_UID is \"0b7d3a7e\""),
        (&token, vec![name, ("POD_NAMESPACE", "default"), uid], vec![], "POD_NAMESPACE is \"default\""),
        (&unbound, vec![name, namespace, uid], vec![], "is not bound to a pod"),
        (&token, vec![], vec!["--standalone"], "leave the flag out"),
    ] {
        let output = run(&stage, token, &env, &args).await?;
        let text = told(&output);
        ensure!(!output.status.success(), "{expected}: it succeeded: {text}");
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("muster-reconciler: ")).collect();
        ensure!(lines.len() == 1 && lines[0].contains(expected), "{expected}: {text}");
        ensure!(!text.contains("ERROR"), "{expected}: {text}");
    }
    let after = audit.count(Audit::START, write_of_replica)?;
    ensure!(after == before, "{} writes by replicas that refused to start", after - before);
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c03_a_pod_that_is_removed_beneath_its_process_is_told_once_and_makes_no_create_loop() -> Result<()> {
    let stage = Stage::ready(1, &[]).await?;
    let executor = stage.create("a", spec("a.example.com")).await?;
    stage.served(&executor).await?;
    let pod = stage.pods().pop().context("no pod")?;
    let (name, audit) = (pod.name.clone(), stage.installation.plane.audit());

    // The kubelet sees nothing, so the process outlives its pod, as on a node that lost its connection.
    stage.installation.kubelet.freeze();
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mark = audit.mark()?;
    pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;

    let refused = "no longer accepts this pod's token";
    wait::until("the process to notice", || async {
        let log = pod.log_text()?;
        ensure!(log.contains(refused), "{log}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let went_through = |request: &muster_lab::audit::Request| write_of_replica(request) && request.code < 300;
    let creates = audit.count(mark, went_through)?;
    ensure!(creates <= 2, "{creates} writes went through for a pod that is gone");
    audit.assert_quiet(Duration::from_secs(15), went_through).await?;
    let log = pod.log_text()?;
    ensure!(log.matches(refused).count() == 1, "{log}");
    ensure!(stage.pods().iter().all(|pod| pod.name.starts_with(RECONCILER)));
    stage.stop().await;
    Ok(())
}
