//! Manifests of the shapes that Ratify ships: what the API server and a replica say to each. A user arrives with files like
//! these, two of which are faulty, and must learn from the answers alone what to change.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube::api::{Api, DeleteParams};
use kube::core::Status;
use kube::{Resource, ResourceExt};
use muster_api::{Executor, ExecutorLike, NamespacedExecutor, PodReport};
use muster_lab::wait;
use muster_upstream::azure::Secret;
use muster_upstream::{Behaviour, Config, Upstream};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::{Value, json};

use crate::stage::{Stage, authority};

/// Names of the vault's items.
const CERTIFICATE: &str = "release-certificate";
const KEY: &str = "release-key";
/// Where the NamespacedExecutors go that name no namespace.
const TENANT: &str = "default";

/// What the markers in the files stand for.
struct Material {
    upstream: Upstream,
    certificate: String,
    other: String,
    key: KeyPair,
}

impl Material {
    /// A Key Vault with one certificate and one key, and what else the manifests ask for.
    async fn make() -> Result<Self> {
        let (certificate, other, key) = (authority()?, authority()?, KeyPair::generate()?);
        let (x, y) = key.der_bytes()[1..].split_at(32);
        let jwk = json!({"kty": "EC", "crv": "P-256", "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)});
        let mut behaviour = Behaviour::default();
        behaviour.azure.secrets.insert(CERTIFICATE.to_owned(), Secret::pem(&certificate));
        behaviour.azure.keys.insert(KEY.to_owned(), jwk.into());
        let upstream = Upstream::start(Config::from(behaviour).with_https()).await?;
        Ok(Self { upstream, certificate, other, key })
    }

    fn vault(&self) -> Result<String> {
        self.upstream.https_url().context("the vault serves no HTTPS")
    }

    /// A file's text with its markers filled in. Values are JSON, which is YAML too.
    fn fill(&self, text: &str) -> Result<String> {
        let values = [
            ("__NOTATION_CERT_NAME__", json!(CERTIFICATE)),
            ("__COSIGN_KEY_NAME__", json!(KEY)),
            ("__NOTATION_CERT__", json!({ "certs": self.certificate })),
            ("__OTHER_CERT__", json!(self.other)),
            ("__COSIGN_KEY__", json!(self.key.public_key_pem())),
            ("__VAULT_URI__", json!(self.vault()?)),
            ("__CLIENT_ID__", json!("11111111-client")),
            ("__TENANT_ID__", json!("22222222-tenant")),
        ];
        let filled =
            values.iter().fold(text.to_owned(), |text, (marker, value)| text.replace(marker, &value.to_string()));
        ensure!(!filled.contains("__"), "a marker was not filled in: {filled}");
        Ok(filled)
    }
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replica/samples")
}

/// Posts the text as it is, so that the server's own YAML reader answers; unknown fields are errors.
async fn post(stage: &Stage, text: &str) -> Result<Result<Value, Box<Status>>> {
    let plural = if text.contains("kind: NamespacedExecutor") {
        format!("namespaces/{TENANT}/namespacedexecutors")
    } else {
        "executors".to_owned()
    };
    let uri = format!("/apis/config.ratify.dev/v2alpha1/{plural}?fieldValidation=Strict");
    let request = http::Request::post(uri)
        .header("content-type", "application/yaml")
        .header("accept", "application/json")
        .body(text.as_bytes().to_vec())?;
    match stage.client.request(request).await {
        Ok(stored) => Ok(Ok(stored)),
        Err(kube::Error::Api(status)) => Ok(Err(status)),
        Err(error) => bail!("no answer: {error}"),
    }
}

/// What the replica says about `object`, which is deleted afterwards: the next file has the same scopes.
async fn verdict<K>(stage: &Stage, api: Api<K>, object: &K) -> Result<PodReport>
where
    K: ExecutorLike + Resource<DynamicType = ()>,
{
    let (name, uid) = (object.name_any(), object.uid().context("no UID")?);
    let report = wait::until(format!("a report on {name}"), || async {
        let report = stage.reports(&uid).await?.into_values().next().context("none")?;
        report.status.context("a report without a status")
    })
    .await?;
    api.delete(&name, &DeleteParams::default()).await?;
    wait::until(format!("no report on {name}"), || async {
        ensure!(stage.reports(&uid).await?.is_empty(), "still there");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    Ok(report)
}

/// A line for each thing that the author of the manifest is told.
async fn told(stage: &Stage, text: &str) -> Result<String> {
    let stored = match post(stage, text).await? {
        Err(status) => return Ok(format!("  server   {} {}\n", status.code, status.message.replace('\n', " "))),
        Ok(stored) => stored,
    };
    let report = if stored["kind"] == "NamespacedExecutor" {
        let api = Api::<NamespacedExecutor>::namespaced(stage.client.clone(), TENANT);
        verdict(stage, api, &serde_json::from_value(stored)?).await?
    } else {
        let object: Executor = serde_json::from_value(stored)?;
        verdict(stage, stage.executors(), &object).await?
    };
    let mut told = format!("  server   201\n  replica  {}, serves {}\n", report.reason, report.serves);
    if !report.error.is_empty() {
        writeln!(told, "  error    {}", report.error)?;
    }
    for warning in &report.warnings {
        writeln!(told, "  warning  {warning}")?;
    }
    Ok(told)
}

#[tokio::test]
async fn the_ratify_samples_are_built_or_refused_with_words_that_help() -> Result<()> {
    let material = Material::make().await?;
    let authorities = tempfile::NamedTempFile::new()?;
    std::fs::write(authorities.path(), material.upstream.ca_pem().context("no authority")?)?;
    let stage = Stage::ready(
        1,
        &[
            &format!("--upstream-ca={}", authorities.path().display()),
            &format!("--azure-machine={}", material.upstream.url()),
            "--azure-vault-hosts=localhost",
        ],
    )
    .await?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(samples())?
        .map(|entry| Ok(entry?.path()))
        .filter(|path: &Result<PathBuf>| {
            path.as_ref().is_ok_and(|path| path.extension().is_some_and(|it| it == "yaml"))
        })
        .collect::<Result<_>>()?;
    files.sort();
    ensure!(files.len() == 15, "{files:?}");
    let mut table = String::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = material.fill(&std::fs::read_to_string(&file)?)?;
        write!(table, "{name}\n{}", told(&stage, &text).await.with_context(|| name.clone())?)?;
    }
    stage.stop().await;
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "samples" }, {
        insta::assert_snapshot!("outcomes", table);
    });
    Ok(())
}
