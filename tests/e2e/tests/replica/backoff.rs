//! What fails is tried again, each object and each write with growing pauses, and nothing is written meanwhile.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::Role;
use kube::Api;
use kube::api::{Patch, PatchParams};
use muster_api::{PodReport, RETRY_ANNOTATION, Reason, Serves};
use muster_lab::audit::Tally;
use muster_lab::installation::{NAMESPACE, RECONCILER};
use muster_lab::kubelet::PodView;
use muster_lab::wait;
use serde_json::json;

use crate::stage::{Stage, authority, spec, spec_with_files, write_of_replica};

/// Trust directories of the pods of a stage, one each: what is mounted into one is not mounted into another.
struct Mounts(PathBuf);

impl Mounts {
    /// Gives every pod that starts from now on a directory of its own, empty or with `ca.crt`.
    fn give(stage: &Stage, certificate: Option<String>) -> Self {
        let root = stage.installation.plane.root().join("trust");
        let mounts = root.clone();
        stage.installation.kubelet.customise(move |pod, launch| {
            let dir = mounts.join(pod.metadata.name.as_deref().unwrap_or_default());
            // A test's process has no one to tell but the replica, which says that the directory is missing.
            let _ = std::fs::create_dir_all(&dir);
            if let Some(pem) = certificate.as_ref().filter(|_| !dir.join("ca.crt").exists()) {
                let _ = std::fs::write(dir.join("ca.crt"), pem);
            }
            launch.command.push(format!("--trust-dir={}", dir.display()));
        });
        Self(root)
    }

    fn file(&self, pod: &PodView) -> PathBuf {
        self.0.join(&pod.name).join("ca.crt")
    }
}

async fn attempts(stage: &Stage, pod: &PodView, reason: &str) -> Result<u64> {
    stage.counter(pod, "muster_builds_total", &format!("reason=\"{reason}\"")).await
}

fn is_missing(report: &PodReport) -> bool {
    report.reason == Reason::FileMissing && report.serves == Serves::Nothing
}

#[tokio::test]
async fn c06_two_broken_replicas_of_five_report_so_once_and_hammer_nobody() -> Result<()> {
    let stage = Stage::start(0, &[]).await?;
    let mounts = Mounts::give(&stage, Some(authority()?));
    stage.scale(5).await?;
    let pods = stage.pods();
    let (broken, healthy) = pods.split_at(2);
    for pod in broken {
        std::fs::remove_file(mounts.file(pod))?;
    }
    let executor = stage.create("a", spec_with_files("a.example.com", &["ca.crt"])).await?;
    let uid = executor.metadata.uid.clone().context("no UID")?;
    wait::until("three to serve and two to say what they miss", || async {
        let reports = stage.reports(&uid).await?;
        for (pods, reason) in [(broken, Reason::FileMissing), (healthy, Reason::Built)] {
            for pod in pods {
                let report = reports.get(&pod.name).and_then(|object| object.status.as_ref());
                ensure!(report.is_some_and(|report| report.reason == reason), "{}: {report:?}", pod.name);
            }
        }
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let window = if wait::long() { Duration::from_mins(5) } else { Duration::from_secs(40) };
    stage.installation.plane.audit().assert_quiet(window, write_of_replica).await?;
    for pod in healthy {
        ensure!(stage.builds(pod).await? == 1, "{} built more than once", pod.name);
    }
    for pod in broken {
        let tried = attempts(&stage, pod, "FileMissing").await?;
        ensure!((3..=8).contains(&tried), "{} tried {tried} times", pod.name);
    }
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c11_an_executor_in_backoff_is_written_once_and_tells_no_time() -> Result<()> {
    let stage = Stage::start(0, &[]).await?;
    Mounts::give(&stage, None);
    stage.scale(1).await?;
    let audit = stage.installation.plane.audit();
    let mark = audit.mark()?;
    let executor = stage.create("a", spec_with_files("a.example.com", &["ca.crt"])).await?;
    stage.reported(&executor, is_missing).await?;
    let window = if wait::long() { Duration::from_mins(1) } else { Duration::from_secs(20) };
    audit.assert_quiet(window, write_of_replica).await?;
    let writes = audit.matching(mark, write_of_replica)?;
    ensure!(writes.len() == 1, "{}", Tally::of(&writes));
    let uid = executor.metadata.uid.context("no UID")?;
    let report = stage.reports(&uid).await?.into_values().next().and_then(|object| object.status);
    let error = report.context("no report")?.error;
    ensure!(error.contains("ca.crt\" is not there") && !error.contains("retry"), "{error}");
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c31_a_success_forgets_the_wait_and_a_changed_file_acts_by_itself() -> Result<()> {
    let stage = Stage::start(0, &["--file-interval=1s"]).await?;
    let mounts = Mounts::give(&stage, None);
    stage.scale(1).await?;
    let pod = stage.pods().pop().context("no pod")?;
    let executor = stage.create("a", spec_with_files("a.example.com", &["ca.crt"])).await?;
    stage.reported(&executor, is_missing).await?;
    let tried = async |times: u64| {
        wait::until(format!("{times} attempts"), || async {
            let tried = attempts(&stage, &pod, "FileMissing").await?;
            ensure!(tried >= times, "{tried}");
            Ok::<_, anyhow::Error>(())
        })
        .await
    };
    // Waits of 2.5 to 5 s and 5 to 10 s have been served; the third is 10 to 20 s.
    tried(3).await?;

    std::fs::write(mounts.file(&pod), authority()?)?;
    let forced = json!({"metadata": {"annotations": {RETRY_ANNOTATION: "now"}}});
    stage.executors().patch("a", &PatchParams::default(), &Patch::Merge(forced)).await?;
    stage.served(&executor).await?;

    // It fails again: the file is noticed to be gone, what was loaded goes on serving, and the next wait is the first.
    std::fs::remove_file(mounts.file(&pod))?;
    stage.reported(&executor, |report| report.serves == Serves::LastGood && report.succeeded).await?;
    let begun = tokio::time::Instant::now();
    let failed = attempts(&stage, &pod, "FileMissing").await?;
    tried(failed + 1).await?;
    ensure!(begun.elapsed() < wait::scaled(Duration::from_secs(7)), "waited {:?}", begun.elapsed());

    // A new certificate is noticed without anybody saying so.
    std::fs::write(mounts.file(&pod), authority()?)?;
    stage.served(&executor).await?;
    let before = attempts(&stage, &pod, "Built").await?;
    std::fs::write(mounts.file(&pod), authority()?)?;
    wait::until("the new certificate to be loaded", || async {
        let built = attempts(&stage, &pod, "Built").await?;
        ensure!(built > before, "{built}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.stop().await;
    Ok(())
}

/// The replicas' role with these verbs on their reports.
async fn grant(stage: &Stage, verbs: &[&str]) -> Result<()> {
    let roles: Api<Role> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let allowed = json!([{"apiGroups": ["config.ratify.dev"], "resources": ["executorpodstatuses"], "verbs": verbs}]);
    roles.patch(RECONCILER, &PatchParams::default(), &Patch::Merge(json!({ "rules": allowed }))).await?;
    Ok(())
}

#[tokio::test]
async fn c17_a_write_that_fails_is_sent_again_with_growing_pauses_and_holds_no_later_change_back() -> Result<()> {
    let stage = Stage::ready(1, &[]).await?;
    let executor = stage.create("a", spec("a.example.com")).await?;
    stage.served(&executor).await?;
    let audit = stage.installation.plane.audit();

    grant(&stage, &["create", "delete", "list", "watch"]).await?;
    let mark = audit.mark()?;
    let edited = stage.edit("a", json!({"concurrency": 5})).await?;
    let refused = async |times: usize| {
        wait::until(format!("{times} refusals"), || async {
            let seen = audit.count(mark, |request| write_of_replica(request) && request.code == 403)?;
            ensure!(seen >= times, "{seen}");
            Ok::<_, anyhow::Error>(())
        })
        .await
    };
    refused(2).await?;
    let log = stage.pods()[0].log_text()?;
    ensure!(log.contains("RBAC does not allow to patch executorpodstatuses"), "{log}");
    ensure!(log.matches("was not written, trying again").count() == 1, "told more than once:\n{log}");

    // The right comes back, and a new spec does not wait for the pause that the last one earned.
    grant(&stage, &["create", "patch", "delete", "list", "watch"]).await?;
    let newer = stage.edit("a", json!({"concurrency": 6})).await?;
    ensure!(newer.metadata.generation > edited.metadata.generation);
    stage.reported_within(wait::scaled(Duration::from_secs(10)), &newer, |report| report.succeeded).await?;

    // Without a new spec, the same write is sent again by itself.
    grant(&stage, &["create", "delete", "list", "watch"]).await?;
    let last = stage.edit("a", json!({"concurrency": 7})).await?;
    refused(4).await?;
    grant(&stage, &["create", "patch", "delete", "list", "watch"]).await?;
    stage.served(&last).await?;
    let refusals = audit.count(mark, |request| write_of_replica(request) && request.code == 403)?;
    ensure!(refusals <= 12, "{refusals} refusals");
    stage.stop().await;
    Ok(())
}
