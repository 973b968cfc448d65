//! One process without a pod, writing outcomes into the executors themselves.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use muster_lab::wait;
use serde_json::json;
use tokio::process::{Child, Command};

use crate::stage::{Stage, bin_dir, kubeconfig, spec};

/// What a person who runs it outside the cluster would need: no more than this.
const RIGHTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: standalone, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: standalone}
rules:
- {apiGroups: [config.ratify.dev], resources: [executors, namespacedexecutors], verbs: [get, list, watch]}
- {apiGroups: [config.ratify.dev], resources: [executors/status, namespacedexecutors/status], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: standalone}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: standalone}
subjects:
- {kind: ServiceAccount, name: standalone, namespace: default}
";

async fn start(stage: &Stage) -> Result<Child> {
    muster_lab::manifests::apply(&stage.client, RIGHTS).await?;
    stage.installation.plane.default_service_account("default").await?;
    let token = stage.token("default", "standalone", None).await?;
    let log = std::fs::File::create(stage.installation.plane.logs().join("standalone.log"))?;
    let mut command = Command::new(bin_dir()?.join("muster-reconciler"));
    command.args(["--standalone", "--health-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"]).env_clear();
    command.env("KUBECONFIG", kubeconfig(stage, &token)?).stdin(Stdio::null()).kill_on_drop(true);
    command.stdout(log.try_clone()?).stderr(log).spawn().context("cannot start it")
}

async fn written(stage: &Stage, name: &str, generation: Option<i64>, succeeded: bool) -> Result<()> {
    wait::until(format!("the outcome of generation {generation:?} of {name}"), || async {
        let status = stage.executors().get(name).await?.status.context("no status")?;
        ensure!(status.observed_generation == generation && status.succeeded == succeeded, "{status:?}");
        ensure!(status.by_pod.is_empty() && succeeded == status.error.is_empty(), "{status:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

#[tokio::test]
async fn a_single_process_writes_the_outcome_into_the_executor_and_loses_no_race() -> Result<()> {
    let stage = Stage::start(0, &[]).await?;
    let mut child = start(&stage).await?;
    let executor = stage.create("a", spec("a.example.com")).await?;
    written(&stage, "a", executor.metadata.generation, true).await?;
    let broken = stage.edit("a", json!({"scopes": ["not a scope"]})).await?;
    written(&stage, "a", broken.metadata.generation, false).await?;

    // Others write labels as fast as they can, until a status write has met one of them.
    let audit = stage.installation.plane.audit();
    let mark = audit.mark()?;
    let conflicts = || {
        audit.count(mark, |request| {
            request.by("default", "standalone") && request.on_status_of("executors") && request.code == 409
        })
    };
    let race = async {
        for round in 0_u32.. {
            let label = json!({"metadata": {"labels": {"round": round.to_string()}}});
            stage.executors().patch("a", &PatchParams::default(), &Patch::Merge(label)).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let edits = async {
        let mut last = None;
        for round in 0..400 {
            let scopes = json!({"scopes": [format!("r{round}.example.com")]});
            last = stage.edit("a", scopes).await?.metadata.generation;
            if conflicts()? > 0 {
                break;
            }
            let name = format!("the outcome of round {round}");
            wait::until(name, || async {
                let status = stage.executors().get("a").await?.status.context("no status")?;
                ensure!(status.observed_generation == last, "{status:?}");
                Ok::<_, anyhow::Error>(())
            })
            .await?;
        }
        Ok::<_, anyhow::Error>(last)
    };
    let last = tokio::select! {
        last = edits => last?,
        raced = race => { raced?; None }
    };
    ensure!(conflicts()? > 0, "400 edits and no conflict: this test proves nothing");
    written(&stage, "a", last, true).await?;

    // Without the resourceVersion and UID it could not even be sent: the role has `update` and not `patch`.
    let unguarded = audit
        .count(mark, |request| request.by("default", "standalone") && request.is_write() && request.verb != "update")?;
    ensure!(unguarded == 0);
    audit
        .assert_quiet(Duration::from_secs(3), |request| request.by("default", "standalone") && request.is_write())
        .await?;
    let labels = stage.executors().get("a").await?.labels().len();
    ensure!(labels == 1, "a racing label was lost");
    ensure!(child.try_wait()?.is_none(), "the process has ended");
    child.kill().await?;
    stage.stop().await;
    Ok(())
}
