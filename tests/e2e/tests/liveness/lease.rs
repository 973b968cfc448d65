//! Leadership when the Lease cannot be reached, is answered late, or may not be touched.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{Api, PostParams};
use muster_lab::admin::{counter, page};
use muster_lab::installation::{AGGREGATOR, NAMESPACE};
use muster_lab::kubelet::PodView;
use muster_lab::proxy::{Active, Asked, Fault, Interrupt, Proxy, Rule};
use muster_lab::wait;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::matrix;
use crate::probe::Service;
use crate::stage::{Cast, Stage, is_status_write, spec};
use crate::witness::Witness;

/// A Lease that runs out sooner than the shipped one (15 s, 10 s, 2 s).
const QUICK: [&str; 3] = ["--lease-duration=6s", "--renew-deadline=4s", "--retry-period=1s"];
/// Within this another leads: the Lease and a margin.
const LEASE_AND_MARGIN: Duration = Duration::from_secs(6 + 5);

/// Cuts every connection of a pod, those that are open and those to come.
fn cut(proxy: &Proxy, pod: &PodView) -> Active {
    let (name, same) = (pod.name.clone(), pod.name.clone());
    let rule = proxy.rule(Rule::new(Fault::Cut, move |asked| asked.pod == name));
    proxy.interrupt(Interrupt::Cut, |asked| asked.pod == same);
    rule
}

#[tokio::test]
async fn c46_leaders_cut_off_in_turn_are_replaced_and_all_can_win_again() -> Result<()> {
    let cut_for = Duration::from_secs(if wait::long() { 20 } else { 8 });
    let stage = Cast::of(0, 3).aggregator_args(&QUICK).ready().await?;
    let pods = stage.pods();
    let witness = Witness::of(&pods);
    let mut winners = BTreeSet::new();
    for round in 1..=5 {
        let before = stage.leader().await?;
        let cut = cut(&stage.proxy, &before);
        let began = Instant::now();
        let after = stage.led_by(LEASE_AND_MARGIN, |leader| leader.uid != before.uid).await?;
        winners.insert(after.name.clone());
        wait::until(format!("the leader of round {round} to know it is none"), || async {
            ensure!(counter(&before, "muster_leader", "").await? == 0, "{} leads on", before.name);
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        sleep(cut_for.saturating_sub(began.elapsed())).await;
        cut.remove();
    }
    // Whoever has not led yet does so when the others cannot.
    for pod in pods.iter().filter(|pod| !winners.contains(&pod.name)) {
        let others: Vec<_> =
            pods.iter().filter(|other| other.uid != pod.uid).map(|other| cut(&stage.proxy, other)).collect();
        stage.led_by(LEASE_AND_MARGIN, |leader| leader.uid == pod.uid).await?;
        others.iter().for_each(Active::remove);
    }
    witness.ensure_serving(&pods, Service::Liveness)?;
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c48_a_leader_cut_off_from_the_lease_alone_steps_down_and_another_leads() -> Result<()> {
    let stage = Cast::of(1, 2).aggregator_args(&QUICK).ready().await?;
    stage.create("base", spec("a.example.com")).await?;
    stage.succeeded(wait::patience(), "base").await?;
    let pods = stage.pods();
    let witness = Witness::of(&pods);
    let before = stage.leader().await?;
    let name = before.name.clone();
    let of_leader = move |asked: &Asked| asked.pod == name && asked.on("leases");
    stage.proxy.rule(Rule::new(Fault::Hang, of_leader.clone()));
    stage.proxy.interrupt(Interrupt::Silence, of_leader);
    let after = stage.led_by(LEASE_AND_MARGIN, |leader| leader.uid != before.uid).await?;
    ensure!(counter(&before, "muster_leader", "").await? == 0, "{} leads on", before.name);

    // From now on only the new leader writes.
    let written = |pod: &PodView| stage.proxy.count(|seen| seen.asked.pod == pod.name && is_status_write(&seen.asked));
    let (old, new) = (written(&before), written(&after));
    stage.edit("base", json!({"concurrency": 7})).await?;
    stage.succeeded(wait::patience(), "base").await?;
    ensure!(written(&before) == old, "{} has written without leading", before.name);
    ensure!(written(&after) > new, "{} leads and has not written", after.name);
    matrix::LEASE_BLOCKED.holds_of(&[before]).await?;
    matrix::STANDBY.holds_of(&[after]).await?;
    witness.ensure_serving(&pods, Service::Liveness)?;
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}

#[tokio::test]
async fn c49_a_renewal_held_for_8_s_changes_nothing_and_for_12_s_only_the_leader() -> Result<()> {
    let stage = Cast::of(1, 2).ready().await?;
    stage.create("base", spec("a.example.com")).await?;
    stage.succeeded(wait::patience(), "base").await?;
    let pods = stage.pods();
    let witness = Witness::of(&pods);
    let leader = stage.leader().await?;
    let changes = counter(&leader, "muster_leader_changes_total", "").await?;

    hold_a_renewal(&stage, &leader, Duration::from_secs(8)).await?;
    ensure!(stage.leader().await?.uid == leader.uid);
    ensure!(counter(&leader, "muster_leader_changes_total", "").await? == changes, "it stepped down for 8 s");

    let mark = stage.proxy.seen().len();
    hold_a_renewal(&stage, &leader, Duration::from_secs(12)).await?;
    wait::until("the leader to have stepped down", || async {
        let now = counter(&leader, "muster_leader_changes_total", "").await?;
        ensure!(now > changes, "it leads on");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.led_by(Duration::from_secs(15 + 5), |_| true).await?;
    stage.edit("base", json!({"concurrency": 99})).await?;
    stage.succeeded(wait::patience(), "base").await?;
    // Nobody writes in between another's writes: each one's are together.
    let seen = stage.proxy.seen();
    let mut writers: Vec<_> =
        seen[mark..].iter().filter(|seen| is_status_write(&seen.asked)).map(|seen| seen.asked.pod.clone()).collect();
    writers.dedup();
    let distinct: BTreeSet<_> = writers.iter().collect();
    ensure!(distinct.len() == writers.len(), "two wrote at the same time: {writers:?}");
    witness.ensure_serving(&pods, Service::Liveness)?;
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}

/// The next renewal of this leader is stored at once, and answered after `time`; returns then. Statuses have to be written
/// all the while.
async fn hold_a_renewal(stage: &Stage, leader: &PodView, time: Duration) -> Result<()> {
    let name = leader.name.clone();
    let renewal = move |asked: &Asked| asked.pod == name && asked.verb == "update" && asked.on("leases");
    let held = stage.proxy.rule(Rule::new(Fault::DelayAnswer(time), renewal).times(1));
    wait::until("a renewal", || async {
        ensure!(held.struck() == 1, "none yet");
        Ok(())
    })
    .await?;
    let began = Instant::now();
    while began.elapsed() < time {
        let concurrency = 1 + began.elapsed().as_millis() % 60;
        stage.edit("base", json!({ "concurrency": u64::try_from(concurrency)? })).await?;
        sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

#[tokio::test]
async fn c50_without_the_right_to_the_lease_nothing_is_written_and_readiness_names_the_right() -> Result<()> {
    let stage = Cast::of(1, 2).prepare().await?;
    let roles: Api<Role> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut role = roles.get(AGGREGATOR).await?;
    let rules = role.rules.as_mut().context("a Role without rules")?;
    let before = rules.len();
    rules.retain(|rule| rule.resources.as_ref().is_none_or(|names| !names.contains(&"leases".to_owned())));
    ensure!(rules.len() < before, "there was no right to leases");
    roles.replace(AGGREGATOR, &PostParams::default(), &role).await?;

    let mark = stage.audit().mark()?;
    stage.enter().await?;
    let pods = stage.installation.aggregators();
    stage.create("base", spec("a.example.com")).await?;
    let mut verbs = BTreeSet::new();
    for pod in &pods {
        let reason = wait::until("readiness to name the right", || async {
            let (status, checks) = page(pod, "/readyz?verbose").await?;
            let line = checks.lines().find(|line| line.starts_with("[-]lease failed")).context(checks.clone())?;
            ensure!(status == 503 && line.contains("leases"), "{line}");
            Ok::<_, anyhow::Error>(line.to_owned())
        })
        .await?;
        verbs.extend(["get", "update"].into_iter().filter(|verb| reason.contains(verb)));
    }
    ensure!(!verbs.is_empty(), "no verb is named");
    let witness = Witness::of(&pods);
    sleep(Duration::from_secs(if wait::long() { 120 } else { 20 })).await;
    let writes = stage.audit().matching(mark, |request| request.by(NAMESPACE, AGGREGATOR) && request.is_write())?;
    let stored: Vec<_> = writes.iter().filter(|request| request.code < 400).collect();
    ensure!(stored.is_empty(), "{stored:?}");
    ensure!(!writes.iter().any(|request| request.on_status_of("executors")), "a status was written without a leader");
    matrix::NO_RIGHT.holds_of(&pods).await?;
    witness.ensure_serving(&pods, Service::Liveness)?;
    stage.ensure_no_restarts()?;
    stage.stop().await;
    Ok(())
}
