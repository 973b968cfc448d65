//! The end of a process: readiness first, then its work, then its ports; and a second signal.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use muster_lab::kubelet::Signal;
use muster_lab::proxy::{Asked, Fault, Rule};
use muster_lab::wait;
use serde_json::json;

use crate::matrix;
use crate::probe::{serving, watch};
use crate::stage::{Cast, is_status_write, spec};

#[tokio::test]
async fn readiness_goes_first_then_work_is_drained_and_a_second_signal_aborts() -> Result<()> {
    let stage = Cast::of(1, 1).ready().await?;
    stage.create("base", spec("a.example.com")).await?;
    stage.succeeded(wait::patience(), "base").await?;
    let is_report = |asked: &Asked| asked.verb == "patch" && asked.on("executorpodstatuses");
    for (concurrency, pod) in (7..).zip(stage.pods()) {
        // A write that is on its way and not answered: this is what is drained.
        let held = stage.proxy.rule(Rule::new(Fault::Hang, move |asked| is_report(asked) || is_status_write(asked)));
        // Without a report there is nothing to fold.
        let is_aggregator = !pod.name.contains("-reconciler-");
        let release =
            is_aggregator.then(|| stage.proxy.rule(Rule::new(Fault::DelayRequest(Duration::ZERO), is_report)));
        stage.edit("base", json!({ "concurrency": concurrency })).await?;
        wait::until("a write to be on its way", || async {
            ensure!(held.struck() > 0, "none");
            Ok(())
        })
        .await?;

        let (mut readiness, mut liveness) = (watch(&pod, "readiness").await?, watch(&pod, "liveness").await?);
        for answers in [&mut readiness, &mut liveness] {
            ensure!(serving(answers.message().await?.context("no answer")?)?, "{}", pod.name);
        }
        stage.installation.kubelet.signal(&pod, Signal::SIGTERM)?;
        ensure!(!serving(readiness.message().await?.context("no answer")?)?);
        matrix::DRAINING.holds_of(std::slice::from_ref(&pod)).await?;

        stage.installation.kubelet.signal(&pod, Signal::SIGTERM)?;
        ensure!(!serving(liveness.message().await?.context("told last")?)?);
        held.remove();
        release.inspect(muster_lab::proxy::Active::remove);
        wait::until("a new process", || async {
            let now = stage.installation.kubelet.look(&pod).context("the pod is gone")?;
            ensure!(now.restarts == 1 && now.pid != pod.pid && now.ready, "{now:?}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let log = pod.log_text()?;
        ensure!(log.contains("dropped during shutdown: SIGTERM"), "{log}");
        stage.succeeded(wait::patience(), "base").await?;
    }
    stage.stop().await;
    Ok(())
}
