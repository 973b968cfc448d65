//! Secrets stay where they are: a replica that logs everything, with markers planted in all that it reads and sends.

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;
use muster_api::Reason;
use muster_lab::admin::get;
use muster_upstream::{Fault, Limit, Rule};
use serde_json::json;

use crate::behind::{Behind, TOKEN, notation};
use crate::stage::authority;

/// Beside a certificate in the Secret `trust`.
const PRIVATE: &str = "marker-of-a-private-key";
/// What the vault hands out where it should hold a certificate.
const RECEIVED: &str = "marker-of-what-the-vault-holds";

#[tokio::test]
async fn planted_secrets_are_sent_and_are_in_no_log_status_or_metric() -> Result<()> {
    let behind = Behind::start(1, Limit::Unlimited, &["--log-filter=trace"]).await?;
    let private = format!("-----BEGIN PRIVATE KEY-----\n{PRIVATE}\n-----END PRIVATE KEY-----\n");
    behind.put("trust", &json!({"ca.crt": format!("{private}{}", authority()?)})).await?;
    let stage = &behind.stage;
    let secret = json!({"kubernetesSecret": {"name": "trust", "certs": ["ca.crt"]}});
    stage.served(&stage.create("secret", notation("secret.example.com", &secret)).await?).await?;
    stage.served(&stage.create("vault", behind.spec("vault.example.com")).await?).await?;

    behind.upstream.change(|behaviour| behaviour.ferrvault.any_value = Some(RECEIVED.to_owned()));
    let bad = stage.create("bad", behind.spec("bad.example.com")).await?;
    stage.reported(&bad, |report| report.reason == Reason::BadMaterial).await?;
    // An upstream that repeats what it was shown.
    behind.upstream.change(|behaviour| behaviour.rules = vec![Rule::on("reveal", Fault::Echo(403))]);
    let refused = stage.create("refused", behind.spec("refused.example.com")).await?;
    stage.reported(&refused, |report| report.reason == Reason::AuthFailed).await?;

    let sent = behind.upstream.log();
    ensure!(sent.iter().any(|call| call.holds(TOKEN)), "the token was not sent: {sent:?}");
    let pod = stage.pods().pop().context("no pod")?;
    let log = pod.log_text()?;
    for heard in ["TRACE", "upstream answered"] {
        ensure!(log.contains(heard), "the log does not hear {heard:?}");
    }
    let reports = serde_json::to_string(&stage.pod_statuses().list(&ListParams::default()).await?.items)?;
    let pages = [get(&pod, "/metrics").await?, get(&pod, "/readyz?verbose").await?, get(&pod, "/healthz").await?];
    for marker in [TOKEN, PRIVATE, RECEIVED] {
        if let Some(line) = log.lines().find(|line| line.contains(marker)) {
            anyhow::bail!("{marker} is in the log: {line}");
        }
        ensure!(!reports.contains(marker), "{marker} is in a report: {reports}");
        ensure!(pages.iter().all(|page| !page.contains(marker)), "{marker} is on a page: {pages:?}");
    }
    behind.stage.stop().await;
    Ok(())
}
