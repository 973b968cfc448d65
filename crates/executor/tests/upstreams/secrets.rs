//! `kubernetesSecret`: named keys of a named Secret.

use muster_executor::trust::SecretError;
use muster_upstream::Config;
use serde_json::json;

use crate::world::{World, authority, subjects};

const AT: &str = "spec.verifiers[0].parameters.certificates[0].kubernetesSecret";

#[tokio::test]
async fn pem_and_der_are_read_and_each_failure_has_its_reason() {
    let world = World::start(Config::default()).await;
    let provider = |keys: &[&str]| json!({"kubernetesSecret": {"name": "trust", "certs": keys}});
    let text = world.failure("x", &provider(&["ca.crt"])).await;
    assert_eq!(text, format!(r#"MissingKeys: {AT}: the namespace of this replica has no Secret "trust""#));

    world.secrets.put("trust", "ca.crt", &authority("One"));
    world.secrets.put("trust", "bad", "-----BEGIN CERTIFICATE-----\nAAAA");
    assert_eq!(subjects(&world.build("x", &provider(&["ca.crt"])).await.unwrap()), ["CN=One"]);
    let built = world.build("x", &provider(&["bad", "ca.crt"])).await.unwrap();
    assert!(
        built.warnings.iter().any(|warning| warning.contains(r#"key "bad" block 1 has no line"#)),
        "{:?}",
        built.warnings
    );
    let text = world.failure("x", &provider(&["ca.crt", "none"])).await;
    assert_eq!(text, format!(r#"MissingKeys: {AT}: Secret "trust" has no key "none""#));

    *world.secrets.error.lock().unwrap() = Some(SecretError::Forbidden);
    let text = world.failure("x", &provider(&["ca.crt"])).await;
    assert_eq!(text, format!(r#"AuthFailed: {AT}: Secret "trust" may not be read by this replica"#));
    *world.secrets.error.lock().unwrap() = Some(SecretError::Unreachable);
    let text = world.failure("x", &provider(&["ca.crt"])).await;
    assert_eq!(text, format!("Unreachable: {AT}: the API server does not answer"));
    assert!(world.upstream.log().is_empty());
}
