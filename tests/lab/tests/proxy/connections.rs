//! Connections: forgotten, refused, ended; and whose they are.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use muster_lab::kubelet::{self, Kubelet};
use muster_lab::{manifests, wait};
use serde_json::json;

use super::*;

#[tokio::test]
async fn what_is_idle_is_forgotten_without_a_word() -> Result<()> {
    let (plane, proxy) = start().await?;
    let api = maps(proxy.client(&plane)?);
    let direct = maps(plane.client()?);
    let limit = Duration::from_secs(1);
    proxy.forget_idle(Some(limit));
    let mut watch = added(&api).await?;
    direct.create(&PostParams::default(), &map("heard")).await?;
    assert_eq!(soon(watch.next()).await?.transpose()?.as_deref(), Some("heard"));

    tokio::time::sleep(limit + MOMENT).await;
    direct.create(&PostParams::default(), &map("unheard")).await?;
    assert!(is_silent(watch.next()).await, "no event, no error, no end");
    let client = proxy.client(&plane)?;
    assert_eq!(code(maps(client).get("unheard").await), 200, "a new connection works");
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_closed_proxy_refuses_and_an_open_one_works_again() -> Result<()> {
    let (plane, proxy) = start().await?;
    let api = maps(proxy.client(&plane)?);
    let mut watch = added(&api).await?;
    proxy.close().await?;
    assert!(is_cut(&mut watch).await?, "open connections are closed");
    assert_eq!(soon(api.get("a")).await?.map(drop).map_err(|error| refused(&error)), Err(true));
    proxy.open().await?;
    assert_eq!(code(soon(api.get("a")).await?), 404);

    // The API server's own absence shows through.
    let mut watch = added(&api).await?;
    plane.api_server().kill().await;
    assert!(is_cut(&mut watch).await?);
    assert_eq!(code(soon(api.get("a")).await?), 0);
    plane.start_api_server().await?;
    assert_eq!(code(soon(api.get("a")).await?), 404);

    let mut watch = added(&api).await?;
    drop(proxy);
    assert!(is_cut(&mut watch).await?, "dropped, it closes everything");
    assert_eq!(soon(api.get("a")).await?.map(drop).map_err(|error| refused(&error)), Err(true));
    plane.stop().await;
    Ok(())
}

fn refused(error: &kube::Error) -> bool {
    format!("{:#}", anyhow::anyhow!("{error:?}")).contains("ConnectionRefused")
}

#[tokio::test]
async fn a_pod_comes_through_by_its_url_and_is_known_by_its_token() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let proxy = Proxy::start(&plane).await?;
    plane.default_service_account("default").await?;
    let kubelet = Kubelet::start(&plane, kubelet::Options::default()).await?;
    let url = proxy.url();
    kubelet.customise(move |_, launch| launch.api_server.clone_from(&url));

    let tests = std::env::current_exe()?;
    let program = tests.ancestors().nth(2).context("no folder")?.join("examples/probed");
    let pod_ip = json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "c", "command": [program], "env": [pod_ip]}]},
    });
    manifests::apply(&plane.client()?, &pod.to_string()).await?;
    wait::until("the pod's request", || async {
        let seen = proxy.seen();
        let asked = seen.first().context("nothing came")?.asked.clone();
        ensure!(asked.on("selfsubjectreviews"), "{asked:?}");
        ensure!((asked.pod.as_str(), asked.account.as_str()) == ("p", "default:default"), "{asked:?}");
        Ok(())
    })
    .await?;
    wait::until("the server's answer in the pod's log", || async {
        let log = kubelet.pods().first().context("no pod")?.log_text()?;
        ensure!(log.contains("system:serviceaccount:default:default"), "{log}");
        Ok(())
    })
    .await?;
    kubelet.stop().await;
    plane.stop().await;
    Ok(())
}
