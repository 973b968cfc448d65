//! Specs and loaded material in, an executor or one sentence out.

use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt as _};
use muster_api::{ExecutorSpec, RetryClass};
use serde_json::{Value, json};

use super::*;
use crate::compile::{CompileOptions, Want, compile};
use crate::trust::testing::{SPECIMENS, Specimens, now, without_fingerprints};
use crate::trust::{ProviderKind, TrustProvider};

/// Answers with what it was given.
struct Scripted(Mutex<Result<Loaded, LoadError>>);

impl TrustProvider for Scripted {
    fn load<'a>(&'a self, _: &'a TrustRequest) -> BoxFuture<'a, Result<Loaded, LoadError>> {
        async { self.0.lock().unwrap().clone() }.boxed()
    }
}

/// A spec with one notation verifier and the given trust stores.
fn spec(certificates: &Value) -> ExecutorSpec {
    serde_json::from_value(json!({
        "scopes": ["registry.io"],
        "verifiers": [{ "name": "n", "type": "notation", "parameters": { "certificates": certificates } }],
        "stores": [{ "type": "registry-store", "parameters": { "credential": { "provider": "static" } } }],
        "policyEnforcer":
            { "type": "threshold-policy", "parameters": { "policy": { "rules": [{ "verifierName": "n" }] } } },
    }))
    .unwrap()
}

fn compiled(certificates: &Value, trust_dir: Option<&Path>) -> Compiled {
    let options = CompileOptions {
        trust_dir: trust_dir.map(Path::to_owned),
        providers: ProviderKind::ALL.into_iter().collect(),
        ..CompileOptions::default()
    };
    compile(&spec(certificates), &options).unwrap()
}

async fn built(certificates: &Value) -> Result<Built, BuildError> {
    build(&compiled(certificates, None), &Sources::local(), now()).await
}

fn inline(pems: &[&String]) -> Value {
    let text: String = pems.iter().map(|pem| pem.as_str()).collect();
    json!({ "inline": { "certs": text } })
}

/// What a vault that answers with `result` makes of a spec.
async fn vault(result: Result<Loaded, LoadError>) -> Result<Built, BuildError> {
    let certificates = json!([{ "kubernetesSecret": { "name": "trust", "certs": ["ca.pem"] } }]);
    let provider = Arc::new(Scripted(Mutex::new(result)));
    let sources = Sources::local().with(ProviderKind::KubernetesSecret, provider);
    build(&compiled(&certificates, None), &sources, now()).await
}

fn loaded(pems: &[&String]) -> Loaded {
    let text: String = pems.iter().map(|pem| pem.as_str()).collect();
    Loaded::from_pem(&text, Want::Certificates, "key \"ca.pem\"")
}

#[tokio::test]
async fn the_earliest_expiry_is_told_and_the_latest_of_a_set_is_how_long_it_lasts() {
    let Specimens { ca, other_ca, endless_ca, .. } = &*SPECIMENS;
    let times = |built: Built| {
        let text = |time: Option<Timestamp>| time.map_or("never".to_owned(), |time| time.to_string());
        (text(built.trust_expires_at), text(built.usable_until))
    };
    let year = |year: i32| format!("{year}-01-01T00:00:00Z");
    assert_eq!(times(built(&json!([inline(&[ca])])).await.unwrap()), (year(2027), year(2027)));
    assert_eq!(times(built(&json!([inline(&[ca, other_ca])])).await.unwrap()), (year(2027), year(2028)));
    assert_eq!(times(built(&json!([inline(&[ca, endless_ca])])).await.unwrap()), (year(2027), "never".into()));
    let mut stores = [inline(&[other_ca]), inline(&[ca])];
    stores[1]["type"] = json!("tsa");
    assert_eq!(times(built(&json!(stores)).await.unwrap()), (year(2027), year(2027)));
    assert_eq!(times(built(&json!([inline(&[endless_ca])])).await.unwrap()), ("never".into(), "never".into()));
}

#[tokio::test]
async fn an_expired_item_is_a_warning_beside_a_valid_one_and_an_error_alone() {
    let Specimens { ca, expired_ca, early_ca, .. } = &*SPECIMENS;
    let path = "spec.verifiers[0].parameters.certificates[0]";
    let good = built(&json!([inline(&[expired_ca, ca, early_ca])])).await.unwrap();
    let warnings: Vec<_> = good.warnings.iter().map(|text| without_fingerprints(text)).collect();
    assert_eq!(
        warnings,
        [
            format!("{path}: \"CN=expired\" (SHA256 …) has expired"),
            format!("{path}: \"CN=early\" (SHA256 …) is not valid yet")
        ]
    );
    assert_eq!(good.trust[0].items.len(), 1);

    let error = built(&json!([inline(&[expired_ca])])).await.unwrap_err();
    assert_eq!(error.reason(), Reason::TrustExpired);
    let expected = format!("{path}: every certificate has expired, the first is \"CN=expired\" (SHA256 …)");
    assert_eq!(without_fingerprints(&error.to_string()), expected);

    let error = built(&json!([inline(&[expired_ca, early_ca])])).await.unwrap_err();
    assert_eq!(error.reason(), Reason::BadMaterial);
    let expected = format!("{path}: \"CN=early\" (SHA256 …) is not valid yet");
    assert_eq!(without_fingerprints(&error.to_string()), expected);
}

#[tokio::test]
async fn each_trust_store_needs_a_valid_item_of_its_own() {
    let mut stores = [inline(&[&SPECIMENS.ca]), inline(&[&SPECIMENS.expired_ca])];
    stores[1]["type"] = json!("tsa");
    let error = built(&json!(stores)).await.unwrap_err();
    assert_eq!((error.reason(), error.path()), (Reason::TrustExpired, "spec.verifiers[0].parameters.certificates[1]"));
}

#[tokio::test]
async fn a_bad_item_of_a_vault_names_itself_and_hides_no_good_one() {
    let Specimens { ca, leaf, key, .. } = &*SPECIMENS;
    let path = "spec.verifiers[0].parameters.certificates[0]";
    let good = vault(Ok(loaded(&[leaf, ca, key]))).await.unwrap();
    let warnings: Vec<_> = good.warnings.iter().map(|text| without_fingerprints(text)).collect();
    assert_eq!(
        warnings,
        [
            format!("{path}: key \"ca.pem\" block 3 is PUBLIC KEY, not a certificate"),
            format!(
                "{path}: key \"ca.pem\" block 1 is \"CN=leaf\" (SHA256 …), neither a CA nor self-signed, and cannot be a trust \
                 anchor"
            )
        ]
    );
    let error = vault(Ok(loaded(&[key, leaf]))).await.unwrap_err();
    assert_eq!(error.reason(), Reason::BadMaterial);
    let expected =
        format!("{path}: nothing usable: key \"ca.pem\" block 1 is PUBLIC KEY, not a certificate (and 1 more)");
    assert_eq!(error.to_string(), expected);
    let error = vault(Ok(Loaded::default())).await.unwrap_err();
    assert_eq!((error.reason(), error.to_string()), (Reason::BadMaterial, format!("{path}: nothing was found there")));
}

#[tokio::test]
async fn c11_a_load_error_is_told_in_fixed_words() {
    let upstream = || "vault.io".to_owned();
    let wish = Some(Duration::from_secs(30));
    for (error, reason, class, text) in [
        (
            LoadError::RateLimited { upstream: upstream(), retry_after: wish },
            Reason::RateLimited,
            RetryClass::Throttled,
            "vault.io refuses calls for now",
        ),
        (
            LoadError::VaultNotFound { upstream: upstream(), vault: "v".into() },
            Reason::VaultNotFound,
            RetryClass::Missing,
            "vault \"v\" does not exist at vault.io",
        ),
        (
            LoadError::MissingItems { upstream: upstream(), items: "certificate \"ca\"".into() },
            Reason::MissingKeys,
            RetryClass::Missing,
            "vault.io has no certificate \"ca\"",
        ),
        (
            LoadError::AuthFailed { upstream: upstream() },
            Reason::AuthFailed,
            RetryClass::Transient,
            "vault.io refuses the credential",
        ),
        (
            LoadError::TokenUnreadable { token: "key \"t\" of Secret \"s\"".into() },
            Reason::TokenUnreadable,
            RetryClass::Transient,
            "key \"t\" of Secret \"s\" cannot be read",
        ),
        (
            LoadError::Unreachable { upstream: upstream() },
            Reason::Unreachable,
            RetryClass::Transient,
            "vault.io does not answer",
        ),
        (
            LoadError::FileMissing { path: "/trust/ca.pem".into() },
            Reason::FileMissing,
            RetryClass::Transient,
            "file \"/trust/ca.pem\" is not there",
        ),
    ] {
        let is_throttled = class == RetryClass::Throttled;
        let error = vault(Err(error)).await.unwrap_err();
        assert_eq!(error.reason(), reason);
        assert_eq!(error.reason().retry_class(), class);
        assert_eq!(error.retry_after(), wish.filter(|_| is_throttled));
        let path = "spec.verifiers[0].parameters.certificates[0].kubernetesSecret";
        assert_eq!((error.to_string(), error.path()), (format!("{path}: {text}"), path));
    }
}

#[tokio::test]
async fn a_provider_that_is_gone_is_no_panic() {
    let certificates = json!([{ "kubernetesSecret": { "name": "trust", "certs": ["ca.pem"] } }]);
    let error = build(&compiled(&certificates, None), &Sources::local(), now()).await.unwrap_err();
    assert_eq!(error.reason(), Reason::InvalidSpec);
}

#[tokio::test]
async fn an_empty_set_in_the_spec_is_built_with_its_warning() {
    let built = built(&json!([{ "inline": {} }])).await.unwrap();
    assert!(built.trust[0].items.is_empty());
    assert_eq!(built.warnings, ["spec.verifiers[0].parameters.certificates[0] names no certificate and trusts nobody"]);
    assert_eq!((built.trust_expires_at, built.usable_until), (None, None));
}

#[tokio::test]
async fn keys_never_expire_and_keyless_loads_nothing() {
    let spec: ExecutorSpec = serde_json::from_value(json!({
        "scopes": ["registry.io", "other.io"],
        "verifiers": [{ "name": "c", "type": "cosign", "parameters": { "trustPolicies": [
            { "scopes": ["registry.io"], "keys": { "inline": { "keys": SPECIMENS.key } } },
            { "scopes": ["other.io"], "certificateIdentity": "me", "certificateOIDCIssuer": "it" },
        ] } }],
        "stores": [{ "type": "filesystem-oci-store", "parameters": { "path": "/layout" } }],
    }))
    .unwrap();
    let compiled = compile(&spec, &CompileOptions::default()).unwrap();
    let built = build(&compiled, &Sources::local(), now()).await.unwrap();
    let paths: Vec<_> = built.trust.iter().map(|set| (&*set.path, set.items.len())).collect();
    assert_eq!(paths, [("spec.verifiers[0].parameters.trustPolicies[0]", 1)]);
    assert_eq!((built.trust_expires_at, built.usable_until), (None, None));
}

#[tokio::test]
async fn a_changed_file_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("ca.pem");
    std::fs::write(&file, &SPECIMENS.ca).unwrap();
    let certificates = json!([{ "files": ["ca.pem"], "inline": { "certs": SPECIMENS.other_ca } }]);
    let sources = Sources::local();
    let compiled = compiled(&certificates, Some(home.path()));
    let built = build(&compiled, &sources, now()).await.unwrap();
    assert_eq!(built.trust[0].items.len(), 2);
    assert!(!changed(&built, &sources).await);
    std::fs::write(&file, &SPECIMENS.other_ca).unwrap();
    assert!(changed(&built, &sources).await);
    std::fs::write(&file, &SPECIMENS.ca).unwrap();
    assert!(!changed(&built, &sources).await);
    std::fs::remove_file(&file).unwrap();
    assert!(changed(&built, &sources).await);
    let error = build(&compiled, &sources, now()).await.unwrap_err();
    assert_eq!(error.reason(), Reason::FileMissing);
}
