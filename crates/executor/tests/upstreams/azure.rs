//! `azurekeyvault`: identities, content types, keys, and each reason with its text.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use muster_executor::trust::gate::Patience;
use muster_executor::{Built, build};
use muster_upstream::azure::Secret;
use muster_upstream::{Behaviour, Config, Fault, Rule};
use p12_keystore::{Certificate, KeyStore, KeyStoreEntry};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::world::{CLIENT, Remembering, TENANT, World, authority, compiled_keys, now, subjects};

const AT: &str = "spec.verifiers[0].parameters.certificates[0].azurekeyvault";

fn vault(secrets: impl IntoIterator<Item = (&'static str, Secret)>) -> Config {
    let mut behaviour = Behaviour::default();
    behaviour.azure.secrets = secrets.into_iter().map(|(name, secret)| (name.to_owned(), secret)).collect();
    behaviour.into()
}

/// What Key Vault hands out for a certificate kept as PEM: the private key is part of it.
fn with_private_key(certificate: &str) -> String {
    format!("{}{certificate}", KeyPair::generate().unwrap().serialize_pem())
}

fn pkcs12(certificates: &[String]) -> Secret {
    let mut store = KeyStore::new();
    for (index, pem) in certificates.iter().enumerate() {
        let der = STANDARD.decode(pem.lines().filter(|line| !line.starts_with("---")).collect::<String>()).unwrap();
        store.add_entry(&format!("c{index}"), KeyStoreEntry::Certificate(Certificate::from_der(&der).unwrap()));
    }
    Secret::pkcs12(STANDARD.encode(store.writer("").write().unwrap()))
}

#[tokio::test]
async fn a_workload_identity_exchanges_its_token_once_and_reads_pem_and_pkcs12() {
    let archive = pkcs12(&[authority("Two"), authority("Three")]);
    let world =
        World::start(vault([("pem", Secret::pem(with_private_key(&authority("One")))), ("pfx", archive)])).await;
    let built = world.build("x", &world.azure(&["pem", "pfx"])).await.unwrap();
    assert_eq!(subjects(&built), ["CN=One", "CN=Two", "CN=Three"]);
    assert!(built.warnings.iter().all(|warning| !warning.contains("PRIVATE KEY")), "{:?}", built.warnings);

    let log = world.upstream.log();
    let targets: Vec<&str> = log.iter().map(|entry| entry.target.as_str()).collect();
    let token = format!("/{TENANT}/oauth2/v2.0/token");
    assert_eq!(targets, [&*token, "/secrets/pem?api-version=7.4", "/secrets/pfx?api-version=7.4"]);
    assert!(log[0].holds("eyJ.marker-of-the-azure-assertion"));
    assert!(log[0].holds("scope=https%3A%2F%2Fvault.azure.net%2F.default"));
    assert_eq!(world.upstream.count(CLIENT).admitted, 2);

    world.build("y", &world.azure(&["pem"])).await.unwrap();
    assert_eq!(world.upstream.log().len(), 4, "the token is still good");
}

#[tokio::test]
async fn a_spec_may_name_its_own_identity_and_versions() {
    let secret = Secret { version: "v1".into(), ..Secret::pem(authority("One")) };
    let world = World::start(vault([("ca", secret)])).await;
    let mut provider = world.azure(&["ca"]);
    provider["azurekeyvault"]["clientID"] = json!("own-client");
    provider["azurekeyvault"]["tenantID"] = json!("own-tenant");
    provider["azurekeyvault"]["certificates"] = json!([{"name": "ca", "version": "v1"}]);
    world.build("x", &provider).await.unwrap();
    assert!(world.upstream.log()[0].target.starts_with("/own-tenant/"));
    assert_eq!(world.upstream.count("own-client").admitted, 1);
    provider["azurekeyvault"]["certificates"] = json!([{"name": "ca", "version": "v2"}]);
    let failure = world.failure("x", &provider).await;
    assert_eq!(failure, format!(r#"MissingKeys: {AT}: 127.0.0.1 has no certificate "ca" version "v2""#));
}

#[tokio::test]
async fn keys_of_every_usual_kind_are_read() {
    let jwk = |point: &[u8], curve: &str| {
        let (x, y) = point[1..].split_at((point.len() - 1) / 2);
        json!({"kty": "EC-HSM", "crv": curve, "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)})
    };
    let (small, large) = (KeyPair::generate().unwrap(), KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap());
    let mut modulus = vec![0xa5; 256];
    modulus[255] = 1;
    let mut behaviour = Behaviour::default();
    let keys = [
        ("p256", jwk(small.der_bytes(), "P-256")),
        ("p384", jwk(large.der_bytes(), "P-384")),
        ("rsa", json!({"kty": "RSA", "n": URL_SAFE_NO_PAD.encode(modulus), "e": "AQAB"})),
        ("odd", json!({"kty": "oct", "k": "AA"})),
        ("off", jwk(small.der_bytes(), "P-256")),
    ];
    behaviour.azure.keys = keys.into_iter().map(|(name, jwk)| (name.to_owned(), jwk.into())).collect();
    behaviour.azure.keys.get_mut("off").unwrap().disabled = true;
    let world = World::start(Config::from(behaviour)).await;
    let items: Vec<Value> = ["p256", "p384", "rsa", "odd", "off"].map(|name| json!({ "name": name })).into();
    let provider = json!({"azurekeyvault": {"vaultURL": world.upstream.url(), "keys": items}});

    let patience = Arc::<Remembering>::clone(&world.patience) as Arc<dyn Patience>;
    let (sources, visit) = world.upstreams.visit("x".into(), muster_core::gate::Line::Urgent, patience);
    let built: Built = build(&compiled_keys(&provider), &sources, now()).await.unwrap();
    visit.end(true);
    let kinds: Vec<String> = built.trust[0].items.iter().map(|item| format!("{:?}", item.material)).collect();
    assert!(kinds[0].contains("EcdsaP256") && kinds[1].contains("EcdsaP384"), "{kinds:?}");
    assert!(kinds[2].contains("Rsa { bits: 2048 }") && kinds.len() == 3, "{kinds:?}");
    let warnings = built.warnings.join("\n");
    assert!(warnings.contains(r#"key "odd" is a public key of an unknown algorithm"#), "{warnings}");
    assert!(warnings.contains(r#"key "off" is disabled"#), "{warnings}");
}

#[tokio::test]
async fn a_bad_item_names_itself_and_hides_no_good_one() {
    let text = Secret { content_type: Some("text/plain".into()), ..Secret::pem("hello") };
    let bare = Secret { content_type: None, ..Secret::pem("hello") };
    let off = Secret { disabled: true, ..Secret::pem("hello") };
    let items = [("good", Secret::pem(authority("Good"))), ("text", text), ("bare", bare), ("off", off)];
    let archives = [("empty", pkcs12(&[])), ("junk", Secret::pkcs12("AAAA")), ("letters", Secret::pkcs12("%%%"))];
    let world = World::start(vault(items.into_iter().chain(archives))).await;
    let built =
        world.build("x", &world.azure(&["text", "bare", "off", "empty", "junk", "letters", "good"])).await.unwrap();
    assert_eq!(subjects(&built), ["CN=Good"]);
    let warnings = built.warnings.join("\n");
    for expected in [
        r#"certificate "text" has content type "text/plain", neither application/x-pem-file nor application/x-pkcs12"#,
        r#"certificate "bare" has no content type, neither"#,
        r#"certificate "off" is disabled"#,
        r#"certificate "empty" holds no certificate"#,
        r#"certificate "junk" is no PKCS#12 archive in base64 with an empty password"#,
        r#"certificate "letters" is no PKCS#12 archive"#,
    ] {
        assert!(warnings.contains(expected), "{expected}\n{warnings}");
    }
    let failure = world.failure("x", &world.azure(&["text"])).await;
    assert!(
        failure.starts_with("BadMaterial: ") && failure.contains(r#"certificate "text" has content type"#),
        "{failure}"
    );
}

#[tokio::test]
async fn every_missing_item_is_named_at_once() {
    let world = World::start(vault([("good", Secret::pem(authority("Good")))])).await;
    let failure = world.failure("x", &world.azure(&["one", "good", "two"])).await;
    assert_eq!(failure, format!(r#"MissingKeys: {AT}: 127.0.0.1 has no certificate "one", "two""#));
}

#[tokio::test]
async fn each_refusal_has_its_reason_and_nothing_of_what_the_upstream_wrote() {
    let world = World::start(vault([("ca", Secret::pem(authority("One")))])).await;
    let provider = world.azure(&["ca"]);
    world.upstream.change(|behaviour| behaviour.refused = vec![CLIENT.into()]);
    assert_eq!(world.failure("x", &provider).await, format!("AuthFailed: {AT}: 127.0.0.1 refuses the credential"));
    world.upstream.change(|behaviour| behaviour.refused.clear());
    for (rule, code, expected) in [
        ("/token", 500, "Unreachable: {AT}: 127.0.0.1 does not answer"),
        ("/secrets/", 503, "Unreachable: {AT}: 127.0.0.1 does not answer"),
        ("/secrets/", 403, "AuthFailed: {AT}: 127.0.0.1 refuses the credential"),
        ("/secrets/", 418, "Unreachable: {AT}: 127.0.0.1 answers with HTTP status 418"),
    ] {
        world.upstream.change(|behaviour| {
            behaviour.rules = vec![Rule::on(rule, Fault::Status { code, retry_after: None })];
        });
        assert_eq!(world.failure("x", &provider).await, expected.replace("{AT}", AT), "{rule} {code}");
    }
}

#[tokio::test]
async fn an_unreadable_assertion_sends_nothing() {
    let world = World::start(vault([("ca", Secret::pem(authority("One")))])).await;
    let file = world.tokens.path().join("azure");
    std::fs::remove_file(&file).unwrap();
    let failure = world.failure("x", &world.azure(&["ca"])).await;
    assert_eq!(failure, format!("TokenUnreadable: {AT}: file {file:?} cannot be read"));
    assert!(world.upstream.log().is_empty());
    std::fs::write(&file, "eyJ.rotated").unwrap();
    world.build("x", &world.azure(&["ca"])).await.unwrap();
    assert!(world.upstream.log()[0].holds("eyJ.rotated"), "the file is read each time");
}

#[tokio::test]
async fn a_token_for_vaults_is_shown_to_no_other_host() {
    let world = World::start(vault([("ca", Secret::pem(authority("One")))])).await;
    for host in
        ["https://vault.azure.net.evil.example", "https://evil-vault.azure.net.example:8443", "https://vault.azure.net"]
    {
        let provider = json!({"azurekeyvault": {"vaultURL": host, "certificates": [{"name": "ca"}]}});
        let failure = world.failure("x", &provider).await;
        assert!(failure.starts_with("InvalidSpec: ") && failure.contains("is no Azure Key Vault"), "{failure}");
    }
    assert!(world.upstream.log().is_empty());
}
