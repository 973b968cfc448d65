//! `ferrvault`: what is sent, what is understood, and each reason with its text.

use muster_upstream::{Behaviour, Config, Entry, Fault, Rule, ferrvault::Content};
use serde_json::json;

use crate::world::{CLUSTER, NAMESPACE, World, authority, subjects};

fn content() -> Config {
    let ferrvault = Content::default().with("p/v", "ca", authority("One")).with("p/v", "other", authority("Two"));
    Behaviour { ferrvault, ..Behaviour::default() }.into()
}

fn sent(entries: &[Entry], part: &str) -> usize {
    entries.iter().filter(|entry| entry.target.contains(part)).count()
}

#[tokio::test]
async fn a_token_of_a_secret_is_shown_and_all_items_come_with_one_call() {
    let world = World::start(content()).await;
    let built = world.build("x", &world.ferrvault(&["ca", "other"])).await.unwrap();
    assert_eq!(subjects(&built), ["CN=One", "CN=Two"]);
    let log = world.upstream.log();
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].target, "/api/v1/orgs/org/projects/p/vaults/by-name/v/secrets/reveal?names=ca%2Cother");
    assert_eq!(log[0].header("authorization"), Some("Bearer fft_marker-of-the-user-token"), "without the line end");
    assert_eq!(log[0].header("x-ferrflow-namespace"), Some(NAMESPACE));
    assert_eq!(log[0].header("x-ferrvault-namespace"), Some(NAMESPACE));
}

#[tokio::test]
async fn a_hundred_executors_that_begin_together_exchange_the_pods_token_once() {
    let world = World::start(content()).await;
    let provider = world.ferrvault_oidc(&["ca"]);
    let uids: Vec<String> = (0..100).map(|n| format!("x{n}")).collect();
    let builds = uids.iter().map(|uid| world.build(uid, &provider));
    for built in futures::future::join_all(builds).await {
        assert_eq!(subjects(&built.unwrap()), ["CN=One"]);
    }
    let log = world.upstream.log();
    assert_eq!((sent(&log, "oidc-exchange"), sent(&log, "reveal")), (1, 100));
    assert!(log[0].holds("eyJ.marker-of-the-pod-token") && log[0].holds(CLUSTER));
    assert_eq!(world.upstream.count(CLUSTER).admitted, 100);
    assert_eq!(world.upstreams.gates().reports().len(), 1, "exchange and reveal pass one gate");
}

#[tokio::test]
async fn a_token_that_was_withdrawn_is_replaced_once() {
    let world = World::start(content()).await;
    let provider = world.ferrvault_oidc(&["ca"]);
    world.build("x", &provider).await.unwrap();
    world.upstream.expire_tokens();
    world.upstream.forget_calls();
    world.build("x", &provider).await.unwrap();
    let log = world.upstream.log();
    assert_eq!((sent(&log, "oidc-exchange"), sent(&log, "reveal")), (1, 2));

    // A cluster that is refused for good is not asked for ever.
    world
        .upstream
        .change(|behaviour| behaviour.rules = vec![Rule::on("reveal", Fault::Status { code: 401, retry_after: None })]);
    world.upstream.forget_calls();
    let failure = world.failure("x", &provider).await;
    assert_eq!(
        failure,
        "AuthFailed: spec.verifiers[0].parameters.certificates[0].ferrvault: 127.0.0.1 refuses the credential"
    );
    assert!(world.upstream.log().len() <= 3, "{:?}", world.upstream.log());
}

#[tokio::test]
async fn an_unreadable_token_sends_nothing() {
    let world = World::start(content()).await;
    let path = "spec.verifiers[0].parameters.certificates[0].ferrvault";
    let secret = |name: &str, key: &str| json!({"tokenSecretRef": {"name": name, "key": key}});
    for (token, shown) in [
        (secret("absent", "token"), r#"key "token" of Secret "absent""#),
        (secret("vault", "absent"), r#"key "absent" of Secret "vault""#),
        (secret("empty", "token"), r#"key "token" of Secret "empty""#),
        (secret("bytes", "token"), r#"key "token" of Secret "bytes""#),
    ] {
        world.secrets.put("empty", "token", " \n");
        world.secrets.held.lock().unwrap().entry("bytes".into()).or_default().insert("token".into(), vec![0xff, 0xfe]);
        let failure = world.failure("x", &world.ferrvault_with(&["ca"], &token)).await;
        assert_eq!(failure, format!("TokenUnreadable: {path}: {shown} cannot be read"));
    }
    let file = world.tokens.path().join("absent");
    let oidc = json!({"oidc": {"clusterID": CLUSTER, "tokenPath": file}});
    let failure = world.failure("x", &world.ferrvault_with(&["ca"], &oidc)).await;
    assert_eq!(failure, format!("TokenUnreadable: {path}: file {file:?} cannot be read"));
    assert!(world.upstream.log().is_empty(), "nothing was sent");
    assert!(world.upstreams.gates().reports().len() <= 1, "nor does a gate wait for it");
}

#[tokio::test]
async fn a_token_file_outside_of_the_allowed_directories_is_not_read_and_not_sent() {
    let world = World::start(content()).await;
    let oidc =
        json!({"oidc": {"clusterID": CLUSTER, "tokenPath": "/var/run/secrets/kubernetes.io/serviceaccount/token"}});
    let failure = world.failure("x", &world.ferrvault_with(&["ca"], &oidc)).await;
    assert!(
        failure.starts_with("InvalidSpec: ") && failure.ends_with("is in no directory that tokens may be read from"),
        "{failure}"
    );
    assert!(world.upstream.log().is_empty());
}

#[tokio::test]
async fn each_refusal_has_its_reason_and_a_text_that_stays_the_same() {
    let world = World::start(content()).await;
    let at = "spec.verifiers[0].parameters.certificates[0].ferrvault: 127.0.0.1";
    let missing = world.failure("x", &world.ferrvault(&["ca", "none", "neither"])).await;
    assert_eq!(missing, format!(r#"MissingKeys: {at} has no "none", "neither" in vault "v""#));

    let mut elsewhere = world.ferrvault(&["ca"]);
    elsewhere["ferrvault"]["vault"] = json!("w");
    let not_found = r#"VaultNotFound: spec.verifiers[0].parameters.certificates[0].ferrvault: vault "w" does not exist at 127.0.0.1"#;
    assert_eq!(world.failure("x", &elsewhere).await, not_found);

    world.upstream.change(|behaviour| behaviour.refused = vec!["fft_marker-of-the-user-token".into()]);
    assert_eq!(world.failure("x", &world.ferrvault(&["ca"])).await, format!("AuthFailed: {at} refuses the credential"));
    world.upstream.change(|behaviour| {
        behaviour.refused.clear();
        behaviour.rules = vec![Rule::on("", Fault::Status { code: 500, retry_after: None })];
    });
    assert_eq!(world.failure("x", &world.ferrvault(&["ca"])).await, format!("Unreachable: {at} does not answer"));
    world
        .upstream
        .change(|behaviour| behaviour.rules = vec![Rule::on("", Fault::Status { code: 302, retry_after: None })]);
    assert_eq!(
        world.failure("x", &world.ferrvault(&["ca"])).await,
        format!("Unreachable: {at} answers with HTTP status 302")
    );
}

#[tokio::test]
async fn another_token_in_the_secret_is_another_credential_and_used_at_once() {
    let world = World::start(content()).await;
    world.build("x", &world.ferrvault(&["ca"])).await.unwrap();
    world.secrets.put("vault", "token", "fft_the-new-one");
    world.build("x", &world.ferrvault(&["ca"])).await.unwrap();
    assert_eq!(world.upstream.count("fft_the-new-one").admitted, 1);
    assert_eq!(world.upstreams.gates().reports().len(), 1, "the old credential has no user any more");
}

#[tokio::test]
async fn names_that_would_change_the_address_are_refused() {
    let world = World::start(content()).await;
    let mut provider = world.ferrvault(&["ca"]);
    provider["ferrvault"]["project"] = json!("..");
    assert!(world.failure("x", &provider).await.ends_with(r#"project ".." is not valid"#));
    provider["ferrvault"]["project"] = json!("a/../b?c#d");
    assert!(world.failure("x", &provider).await.starts_with("VaultNotFound"));
    assert!(
        world.upstream.log()[0].target.contains("/projects/a%2F..%2Fb%3Fc%23d/vaults/"),
        "{:?}",
        world.upstream.log()
    );
}
