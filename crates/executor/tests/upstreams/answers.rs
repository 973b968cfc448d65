//! Answers that are not what was asked for: named clearly, bounded in memory, no harm to anybody else.

use std::time::Duration;

use muster_executor::trust::http::HttpOptions;
use muster_upstream::azure::Secret;
use muster_upstream::ferrvault::Content;
use muster_upstream::{Behaviour, Config, Fault, Rule};

use crate::world::{Setup, World, authority, subjects};

const AT: &str = "spec.verifiers[0].parameters.certificates[0]";

fn behaviour() -> Behaviour {
    let mut behaviour =
        Behaviour { ferrvault: Content::default().with("p/v", "ca", authority("One")), ..Behaviour::default() };
    behaviour.azure.secrets.insert("good".into(), Secret::pem(authority("Good")));
    behaviour.azure.secrets.insert("bad".into(), Secret::pem(authority("Bad")));
    behaviour
}

/// A world whose calls are cut soon, so that a hang is over soon.
async fn impatient() -> World {
    let config = Config::from(behaviour());
    World::start(Setup { config, http: HttpOptions::default(), deadline: Duration::from_secs(2) }).await
}

#[tokio::test]
async fn a_bad_answer_of_ferrvault_names_the_upstream_and_what_it_is() {
    let world = impatient().await;
    for (fault, expected) in [
        (Fault::Junk, "BadMaterial: {AT}.ferrvault: 127.0.0.1 answers with something that is not the expected JSON"),
        (Fault::Html, "BadMaterial: {AT}.ferrvault: 127.0.0.1 answers with an HTML page instead of JSON"),
        (Fault::Huge(10 << 20), "BadMaterial: {AT}.ferrvault: 127.0.0.1 answers with more than 1 MiB"),
        (Fault::Cut, "Unreachable: {AT}.ferrvault: 127.0.0.1 does not answer"),
        (Fault::Close, "Unreachable: {AT}.ferrvault: 127.0.0.1 does not answer"),
        (Fault::Hang, "Unreachable: {AT}.ferrvault: 127.0.0.1 does not answer"),
        (Fault::Drip, "Unreachable: {AT}.ferrvault: 127.0.0.1 does not answer"),
        (
            Fault::TruncatedValue,
            r#"BadMaterial: {AT}: nothing usable: "ca" block 1 has no line "-----END CERTIFICATE-----""#,
        ),
    ] {
        world.upstream.change(|behaviour| behaviour.rules = vec![Rule::on("reveal", fault.clone())]);
        let failure = world.failure("x", &world.ferrvault(&["ca"])).await;
        assert_eq!(failure, expected.replace("{AT}", AT), "{fault:?}");
        assert_eq!(world.failure("x", &world.ferrvault(&["ca"])).await, failure, "the text is the same each time");
        // Whoever shares the process, even the credential, is not harmed.
        world.upstream.change(|behaviour| behaviour.rules.clear());
        world.build("y", &world.ferrvault(&["ca"])).await.unwrap();
    }
}

#[tokio::test]
async fn a_bad_answer_about_one_item_of_key_vault_names_the_item_and_hides_no_other() {
    let world = impatient().await;
    for (fault, expected) in [
        (Fault::Junk, r#"certificate "bad" was answered with something that is not the expected JSON"#),
        (Fault::Html, r#"certificate "bad" was answered with an HTML page instead of JSON"#),
        (Fault::Huge(10 << 20), r#"certificate "bad" was answered with more than 1 MiB"#),
        (Fault::TruncatedValue, r#"certificate "bad" block 1 has no line "-----END CERTIFICATE-----""#),
        (Fault::ContentType("image/png".into()), r#"certificate "bad" has content type "image/png""#),
    ] {
        world.upstream.change(|behaviour| behaviour.rules = vec![Rule::on("/secrets/bad", fault.clone())]);
        let built = world.build("x", &world.azure(&["bad", "good"])).await.unwrap();
        assert_eq!(subjects(&built), ["CN=Good"], "{fault:?}");
        assert!(built.warnings.join("\n").contains(expected), "{fault:?}: {:?}", built.warnings);
        let failure = world.failure("y", &world.azure(&["bad"])).await;
        assert!(failure.starts_with("BadMaterial: ") && failure.contains(expected), "{fault:?}: {failure}");
    }
}

#[tokio::test]
async fn a_bad_answer_of_the_token_endpoint_is_told_as_one() {
    let world = impatient().await;
    for (fault, expected) in [
        (Fault::Html, "BadMaterial: {AT}.azurekeyvault: 127.0.0.1 answers with an HTML page instead of JSON"),
        (Fault::Huge(10 << 20), "BadMaterial: {AT}.azurekeyvault: 127.0.0.1 answers with more than 1 MiB"),
        (Fault::Close, "Unreachable: {AT}.azurekeyvault: 127.0.0.1 does not answer"),
    ] {
        world.upstream.change(|behaviour| behaviour.rules = vec![Rule::on("/oauth2/", fault.clone())]);
        assert_eq!(world.failure("x", &world.azure(&["good"])).await, expected.replace("{AT}", AT), "{fault:?}");
    }
    world.upstream.change(|behaviour| behaviour.rules.clear());
    world.build("x", &world.azure(&["good"])).await.unwrap();
}
