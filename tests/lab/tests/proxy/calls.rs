//! Calls that are answered once.

use std::time::Duration;

use anyhow::Result;
use http::Request;
use kube::api::{DeleteParams, PostParams};
use kube::client::Body;
use muster_lab::audit::Audit;
use muster_lab::proxy::{Answer, Fault, Rule};
use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn calls_pass_and_are_seen_until_a_rule_is_about_them() -> Result<()> {
    let (plane, proxy) = start().await?;
    let api = maps(proxy.client(&plane)?);
    let direct = maps(plane.client()?);
    let params = PostParams::default();

    // Without a rule all passes, bodies included.
    api.create(&params, &map("a")).await?;
    assert_eq!(direct.get("a").await?.metadata.name.as_deref(), Some("a"));
    let creates = |seen: &muster_lab::proxy::Seen| seen.asked.verb == "create" && seen.asked.on("configmaps");
    assert_eq!(proxy.count(|seen| creates(seen) && seen.is_forwarded()), 1);

    // An answer of the proxy's own, for so many requests of the kind.
    let conflict = proxy.rule(Rule::new(Fault::Answer(Answer::status(409)), |asked| asked.verb == "update").times(1));
    let a = api.get("a").await?;
    assert_eq!(code(api.replace("a", &params, &a).await), 409);
    assert_eq!(code(api.replace("a", &params, &a).await), 200);
    assert_eq!(conflict.struck(), 1);

    // Stored, and its author hears otherwise.
    let mark = plane.audit().mark()?;
    let failed = Fault::StoreThen(Answer::status(503));
    proxy.rule(Rule::new(failed, |asked| asked.verb == "create" && asked.on("configmaps")).times(1));
    assert_eq!(code(api.create(&params, &map("stored")).await), 503);
    assert_eq!(code(direct.get("stored").await), 200);
    assert_eq!(code(api.create(&params, &map("stored")).await), 409, "the connection goes on to be used");
    let count = plane.audit().count(mark, |request| request.verb == "create" && request.on("configmaps"))?;
    assert_eq!(count, 2);

    // The newest rule decides; taken back, the others do.
    let gone = proxy.rule(Rule::new(Fault::Answer(Answer::status(410)), |asked| asked.on("configmaps")));
    let deletes = |asked: &muster_lab::proxy::Asked| asked.verb == "delete" && asked.name == "a";
    let unavailable = proxy.rule(Rule::new(Fault::Answer(Answer::status(503)), deletes));
    assert_eq!(code(api.delete("a", &DeleteParams::default()).await), 503);
    unavailable.remove();
    assert_eq!(code(api.delete("a", &DeleteParams::default()).await), 410);
    gone.remove();
    assert_eq!(code(api.delete("a", &DeleteParams::default()).await), 200);
    assert_eq!(code(direct.get("a").await), 404);
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_refusal_looks_like_the_servers_own() -> Result<()> {
    let (plane, proxy) = start().await?;
    let client = proxy.client(&plane)?;
    let busy = Answer::too_many_requests();
    proxy.rule(Rule::new(Fault::Answer(busy.clone().retry_after("7")), |asked| asked.resource.is_empty()).times(1));
    proxy.rule(Rule::new(Fault::Answer(busy), |asked| asked.agent.contains("other")));
    let ask = |agent: &'static str| {
        let request = Request::get("/version").header("user-agent", agent).body(Body::empty());
        async { Ok::<_, anyhow::Error>(client.send(request?).await?) }
    };
    let told = ask("one").await?;
    assert_eq!(told.status(), 429);
    assert_eq!(told.headers()["retry-after"], "7");
    assert!(told.headers()["content-type"].to_str()?.starts_with("text/plain"));
    let body = told.into_body().collect_bytes().await?;
    assert_eq!(body, "Too many requests, please try again later.".as_bytes());

    assert_eq!(ask("one").await?.status(), 200);
    let other = ask("another").await?;
    assert_eq!((other.status().as_u16(), other.headers().get("retry-after")), (429, None));
    proxy.clear();
    assert_eq!(ask("another").await?.status(), 200);
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn calls_are_late_or_never_answered() -> Result<()> {
    let (plane, proxy) = start().await?;
    let api = maps(proxy.client(&plane)?);
    let direct = maps(plane.client()?);
    let params = PostParams::default();
    let delay = Duration::from_secs(2);
    let create = |name: &'static str| {
        let api = api.clone();
        let params = params.clone();
        tokio::spawn(async move { code(api.create(&params, &map(name)).await) })
    };
    let stored = async |name: &'static str| code(direct.get(name).await) == 200;

    // Before the server, and after it.
    for (name, fault, at_once) in
        [("late-request", Fault::DelayRequest(delay), false), ("late-answer", Fault::DelayAnswer(delay), true)]
    {
        proxy.rule(Rule::new(fault, |asked| asked.verb == "create").times(1));
        let began = Instant::now();
        let call = create(name);
        tokio::time::sleep(delay / 2).await;
        assert_eq!((stored(name).await, call.is_finished()), (at_once, false), "{name}");
        assert_eq!(soon(call).await??, 200);
        assert!(began.elapsed() >= delay && stored(name).await, "{name}");
    }

    // Neither reaches the server.
    proxy.rule(Rule::new(Fault::Cut, |asked| asked.verb == "create").times(1));
    assert_eq!(soon(create("cut")).await??, 0);
    let hang = proxy.rule(Rule::new(Fault::Hang, |asked| asked.verb == "create").times(1));
    let call = create("hangs");
    muster_lab::wait::until("the call to hang", || async {
        anyhow::ensure!(hang.struck() == 1, "not there yet");
        Ok(())
    })
    .await?;
    assert!(is_silent(call).await);
    assert!(!stored("cut").await && !stored("hangs").await);
    let audit = plane.audit();
    let of = |name: &'static str| audit.count(Audit::START, move |r| r.verb == "create" && r.name == name);
    assert_eq!((of("cut")?, of("late-answer")?), (0, 1));
    plane.stop().await;
    Ok(())
}
