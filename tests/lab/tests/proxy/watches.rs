//! Watches: spoiled at their start, and while they run.

use std::time::Duration;

use anyhow::Result;
use kube::api::PostParams;
use muster_lab::proxy::{Fault, Interrupt, Rule};
use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn events_pass_and_may_lag() -> Result<()> {
    let (plane, proxy) = start().await?;
    let api = maps(proxy.client(&plane)?);
    let direct = maps(plane.client()?);
    let mut prompt = added(&api).await?;
    let lag = Duration::from_secs(2);
    proxy.rule(Rule::new(Fault::Lag(lag), |asked| asked.verb == "watch"));
    let mut late = added(&api).await?;
    assert_eq!(proxy.running(|asked| asked.verb == "watch"), 2);

    let began = Instant::now();
    for name in ["one", "two"] {
        direct.create(&PostParams::default(), &map(name)).await?;
    }
    for name in ["one", "two"] {
        assert_eq!(soon(prompt.next()).await?.transpose()?.as_deref(), Some(name));
    }
    assert!(began.elapsed() < lag, "{:?}", began.elapsed());
    for name in ["one", "two"] {
        assert_eq!(soon(late.next()).await?.transpose()?.as_deref(), Some(name), "in order");
    }
    assert!(began.elapsed() >= lag && began.elapsed() < lag * 2, "{:?}: one lag, not one each", began.elapsed());
    drop(prompt);
    muster_lab::wait::until("the watch to be forgotten", || async {
        let running = proxy.running(|asked| asked.verb == "watch");
        anyhow::ensure!(running == 1, "{running} are running");
        Ok(())
    })
    .await?;
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_running_watch_ends_as_it_is_told_to() -> Result<()> {
    let (plane, proxy) = start().await?;
    let api = maps(proxy.client(&plane)?);
    let direct = maps(plane.client()?);
    let is_watch = |asked: &muster_lab::proxy::Asked| asked.verb == "watch";

    let mut watch = added(&api).await?;
    direct.create(&PostParams::default(), &map("before")).await?;
    assert_eq!(soon(watch.next()).await?.transpose()?.as_deref(), Some("before"));
    assert_eq!(proxy.interrupt(Interrupt::Expired, is_watch), 1);
    assert_eq!(soon(watch.next()).await?.map(code), Some(410));
    assert!(soon(watch.next()).await?.is_none(), "and it is over");

    let mut watch = added(&api).await?;
    assert_eq!(proxy.interrupt(Interrupt::Cut, is_watch), 1);
    assert!(is_cut(&mut watch).await?);

    let mut watch = added(&api).await?;
    assert_eq!(proxy.interrupt(Interrupt::Silence, is_watch), 1);
    direct.create(&PostParams::default(), &map("unheard")).await?;
    assert!(is_silent(watch.next()).await);
    assert_eq!(code(api.get("unheard").await), 200, "other requests pass");
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_rule_spoils_watches_from_their_start() -> Result<()> {
    let (plane, proxy) = start().await?;
    let api = maps(proxy.client(&plane)?);
    proxy.rule(Rule::new(Fault::Expired, |asked| asked.verb == "watch").times(1));
    let mut watch = added(&api).await?;
    assert_eq!(soon(watch.next()).await?.map(code), Some(410));

    let after = Duration::from_secs(1);
    proxy.rule(Rule::new(Fault::CutAfter(after), |asked| asked.verb == "watch").times(1));
    let began = Instant::now();
    let mut watch = added(&api).await?;
    assert!(is_cut(&mut watch).await?);
    assert!(began.elapsed() >= after, "{:?}", began.elapsed());
    plane.stop().await;
    Ok(())
}
