//! What cannot work is refused in one line that says what to do, or waited for with the reason in readiness.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams};
use muster_lab::admin::page;
use muster_lab::installation::{AGGREGATOR, RECONCILER, deploy};
use muster_lab::{manifests, wait};

use crate::probe::Service;
use crate::stage::Cast;

/// How a program ends that should end at once: its code, and what it says.
fn refusal(program: &str, args: &[&str]) -> Result<(Option<i32>, String)> {
    let tests = std::env::current_exe()?;
    let path = tests.ancestors().nth(2).context("no build folder")?.join(program);
    let pod = ["POD_NAME", "POD_NAMESPACE", "POD_UID"].map(|name| (name, "x"));
    let ended = Command::new("timeout")
        .args(["--kill-after=1", "20"])
        .arg(path)
        .args(args)
        .env_clear()
        .envs(pod)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .output()?;
    Ok((ended.status.code(), String::from_utf8(ended.stderr)?))
}

#[test]
fn what_can_never_work_ends_the_process_with_one_line() -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let in_use = format!("--health-addr={}", taken.local_addr()?);
    let free = ["--health-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"];
    for (program, args, words) in [
        (RECONCILER, vec!["--stall-threshold=119s"], vec!["stall threshold", "--build-deadline", "2m", "0 to disable"]),
        (AGGREGATOR, vec!["--list-timeout=10m"], vec!["stall threshold of 15m", "--list-timeout", "20m"]),
        (RECONCILER, vec!["--request-timeout=0s"], vec!["--request-timeout", "1s"]),
        (AGGREGATOR, vec!["--renew-deadline=15s"], vec!["renew deadline", "lease duration"]),
        (AGGREGATOR, vec!["--retry-period=9s"], vec!["renew deadline", "retry period"]),
        (RECONCILER, vec![in_use.as_str()], vec!["--health-addr", "in use"]),
        (
            AGGREGATOR,
            vec!["--kubeconfig=/nowhere/kubeconfig", free[0], free[1]],
            vec!["/nowhere/kubeconfig", "No such file"],
        ),
    ] {
        let (code, said) = refusal(program, &args)?;
        ensure!(code == Some(1), "{program} {args:?} ended with {code:?}: {said}");
        ensure!(said.lines().count() == 1, "{program} {args:?} said more or less than a line:\n{said}");
        for word in words {
            ensure!(said.contains(word), "{program} {args:?} does not say {word:?}: {said}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_right_and_a_missing_kind_are_named_in_readiness_and_waited_for() -> Result<()> {
    let stage = Cast::of(1, 1).prepare().await?;
    let roles: Api<ClusterRole> = Api::all(stage.client.clone());
    for name in [RECONCILER, AGGREGATOR] {
        let mut role = roles.get(name).await?;
        for rule in role.rules.iter_mut().flatten() {
            if rule.resources.as_ref().is_some_and(|names| names.contains(&"executors".to_owned())) {
                rule.verbs.retain(|verb| verb != "list");
            }
        }
        roles.replace(name, &PostParams::default(), &role).await?;
    }
    let crds: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    crds.delete("executorpodstatuses.config.ratify.dev", &DeleteParams::default()).await?;
    stage.enter().await?;
    let pods = stage.pods();
    for pod in &pods {
        wait::until(format!("{} to say what is missing", pod.name), || async {
            let (status, checks) = page(pod, "/readyz?verbose").await?;
            let failed = |check: &str, words: &[&str]| {
                let line = checks.lines().find(|line| line.starts_with(&format!("[-]{check} failed")));
                line.is_some_and(|line| words.iter().all(|word| line.contains(word)))
            };
            let own = if pod.name.contains("-reconciler-") { "watch-own" } else { "watch-podstatuses" };
            ensure!(status == 503 && failed("watch-executors", &["list", "executors"]), "{checks}");
            ensure!(failed(own, &["apply Muster's CRDs"]), "{checks}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
    }

    manifests::apply_path(&stage.client, &deploy("crds")).await?;
    for part in ["reconciler", "aggregator"] {
        let role = deploy(&format!("kustomize/base/{part}/cluster-role.yaml"));
        manifests::apply_path(&stage.client, &role).await?;
    }
    for pod in &pods {
        stage.answers(Duration::from_secs(30), pod, Service::Readiness, true).await?;
    }
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}
