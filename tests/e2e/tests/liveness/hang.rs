//! Each loop is hung on purpose while all others live: liveness fails within the threshold, names that loop and no other,
//! and the kubelet restarts that process in place and no other.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::PostParams;
use muster_core::heartbeat::LoopId;
use muster_lab::admin::page;
use muster_lab::installation::{AGGREGATOR, NAMESPACE, RECONCILER};
use muster_lab::kubelet::{Launch, PodView};
use muster_lab::proxy::{Answer, Fault, Rule};
use muster_lab::{faulty, wait};
use serde_json::json;
use tokio::time::{Instant, interval};

use crate::matrix;
use crate::probe::Service;
use crate::quiet::{IMPATIENT, IMPATIENT_BUILDS, THRESHOLD};
use crate::stage::{Cast, Stage, authority, notation, spec};

/// How often a verdict is asked for.
const LOOK: Duration = Duration::from_millis(250);
/// Period of the shipped liveness probe.
const PERIOD: Duration = Duration::from_secs(10);
/// From a verdict to the new process: three failures of that probe, and then the grace period that the hung loop outlasts.
const RESTART: Duration = Duration::from_secs(3 * 10 + 20);

/// Which pod hangs where, by pod UID; the one without a loop is the control.
#[derive(Clone, Default)]
struct Parts(Arc<Mutex<BTreeMap<String, Option<LoopId>>>>);

impl Parts {
    /// The part of a pod, the same after a restart. The first pod is the control, the others hang in turn.
    fn of(&self, pod: &Pod, loops: &[LoopId]) -> Option<LoopId> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = parts.len().checked_sub(1).and_then(|index| loops.get(index).copied());
        *parts.entry(pod.uid().unwrap_or_default()).or_insert(next)
    }

    fn played_by(&self, pod: &PodView) -> Result<Option<LoopId>> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.get(&pod.uid).copied().with_context(|| format!("{} was never started", pod.name))
    }
}

fn hang(launch: &mut Launch, program: &Path, part: Option<LoopId>) {
    launch.command[0] = program.display().to_string();
    launch.command.extend(part.map(|part| format!("--hang={part}")));
}

#[tokio::test]
async fn each_loop_of_a_replica_that_hangs_is_named() -> Result<()> {
    let trust = tempfile::tempdir()?;
    std::fs::write(trust.path().join("ca.pem"), authority()?)?;
    let (program, trust_dir) = (faulty::program("reconciler")?, format!("--trust-dir={}", trust.path().display()));
    let parts = Parts::default();
    let loops = LoopId::RECONCILER;
    let given = parts.clone();
    let stage = Cast::of(u16::try_from(loops.len())? + 1, 0)
        .args(&IMPATIENT)
        .reconciler_args(&IMPATIENT_BUILDS)
        .launch(move |pod, launch| {
            hang(launch, &program, given.of(pod, &loops));
            launch.command.push(trust_dir.clone());
        })
        .prepare()
        .await?;
    // Something to build, to report, and to renew every second.
    let mut renewed = notation("a.example.com", &json!({"type": "ca", "files": ["ca.pem"]}));
    renewed["refreshInterval"] = json!("1s");
    stage.create("renewed", renewed).await?;
    stage.create("plain", spec("b.example.com")).await?;
    // And a Secret to watch.
    stage.grant_secret("trust", "ca.pem", &authority()?).await?;
    let provider = json!({"type": "ca", "kubernetesSecret": {"name": "trust", "certs": ["ca.pem"]}});
    stage.create("secret", notation("c.example.com", &provider)).await?;
    stage.enter().await?;
    judge(&stage, &stage.installation.reconcilers(), &parts).await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn each_loop_of_an_aggregator_that_hangs_is_named() -> Result<()> {
    let program = faulty::program("aggregator")?;
    let parts = Parts::default();
    let loops = LoopId::AGGREGATOR;
    let given = parts.clone();
    let stage = Cast::of(1, u16::try_from(loops.len())? + 1)
        .args(&IMPATIENT)
        .aggregator_args(&["--sweep-grace=1s"])
        .reconciler_args(&IMPATIENT_BUILDS)
        .launch(move |pod, launch| {
            if pod.name_any().starts_with(RECONCILER) {
                return;
            }
            let part = given.of(pod, &loops);
            hang(launch, &program, part);
            // All work, whoever leads; only who hangs at the Lease contends for it.
            launch.command.push(format!("--leader-elect={}", part == Some(LoopId::LEASE)));
        })
        .prepare()
        .await?;
    // Something to fold and to write, and a leftover that nobody else can take away.
    stage
        .proxy
        .rule(Rule::new(Fault::Answer(Answer::status(503)), |asked| asked.verb == "delete" && asked.by(AGGREGATOR)));
    let leftover = json!({
        "metadata": {"name": "leftover", "namespace": NAMESPACE},
        "spec": {
            "executor": {"kind": "Executor", "namespace": "", "name": "gone", "uid": "gone"},
            "pod": {"name": "gone", "uid": "gone"},
        },
    });
    stage.reports().create(&PostParams::default(), &serde_json::from_value(leftover)?).await?;
    stage.create("plain", spec("b.example.com")).await?;
    stage.enter().await?;
    // A status that is written again and again, so that whoever cannot write has something to write.
    let pods = stage.installation.aggregators();
    let edits = async {
        let mut ticks = interval(Duration::from_secs(1));
        for concurrency in (1..60).cycle() {
            ticks.tick().await;
            stage.edit("plain", json!({ "concurrency": concurrency })).await?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        edited = edits => edited?,
        judged = judge(&stage, &pods, &parts) => judged?,
    }
    stage.stop().await;
    Ok(())
}

/// Every pod with a part fails liveness in time and for the right reason, and is restarted; the control is not.
async fn judge(stage: &Stage, pods: &[PodView], parts: &Parts) -> Result<()> {
    let mut failures = Vec::new();
    for pod in pods {
        let part = parts.played_by(pod)?;
        failures.extend(part.map(|part| first_failure(pod, part)));
    }
    try_join_all(failures).await?;
    let restarted = |now: &PodView, part: Option<LoopId>| (now.restarts > 0) == part.is_some();
    wait::within(wait::scaled(RESTART + PERIOD * 2), "the restarts", || async {
        for pod in pods {
            let now = stage.installation.kubelet.look(pod).context("the pod is gone")?;
            let part = parts.played_by(pod)?;
            ensure!(restarted(&now, part), "{part:?}: {} restarts", now.restarts);
        }
        Ok(())
    })
    .await?;
    for pod in pods {
        let now = stage.installation.kubelet.look(pod).context("the pod is gone")?;
        ensure!(now.uid == pod.uid, "{} was replaced, not restarted", pod.name);
        if parts.played_by(pod)?.is_none() {
            ensure!(now.restarts == 0 && Service::Liveness.ask(&now).await?, "the control died");
        }
    }
    Ok(())
}

/// Waits for the verdict, and holds its words against the loop that hangs.
async fn first_failure(pod: &PodView, part: LoopId) -> Result<()> {
    let failed = verdict(pod, part).await;
    failed.with_context(|| format!("--hang={part}:\n{}", pod.log_text().unwrap_or_default()))?;
    matrix::HUNG.holds_of(std::slice::from_ref(pod)).await
}

async fn verdict(pod: &PodView, part: LoopId) -> Result<()> {
    let deadline = Instant::now() + wait::scaled(THRESHOLD * 3);
    let mut ticks = interval(LOOK);
    let verdict = loop {
        ticks.tick().await;
        ensure!(Instant::now() < deadline, "liveness does not fail");
        let (status, text) = page(pod, "/healthz").await?;
        if status != 200 {
            break text;
        }
    };
    let named: Vec<&str> = verdict.matches("loop ").collect();
    ensure!(named.len() == 1 && verdict.starts_with(&format!("loop {part} has stalled: ")), "{verdict}");
    let stuck = verdict.trim_end().rsplit("nothing moved for ").next().and_then(|rest| rest.strip_suffix('s'));
    let stuck: u64 = stuck.and_then(|seconds| seconds.parse().ok()).with_context(|| format!("no time: {verdict}"))?;
    let (earliest, latest) = (THRESHOLD.as_secs(), (THRESHOLD + PERIOD).as_secs());
    ensure!((earliest..=latest).contains(&stuck), "after {stuck} s: {verdict}");
    Ok(())
}
