//! What a spec compiles to, where the text of the outcome does not tell.

use std::time::Duration;

use super::*;

fn compiled(edits: &[(&str, &str)]) -> Compiled {
    let mut value = yaml(BASE);
    for (pointer, new) in edits {
        set(&mut value, pointer, yaml(new));
    }
    compile(&spec(value), &options()).unwrap()
}

#[test]
fn defaults_are_those_of_ratify() {
    let compiled = compiled(&[("/verifiers/1/parameters/trustPolicies/0/scopes", "[]")]);
    assert_eq!(compiled.concurrency, 3);
    assert_eq!(compiled.refresh_interval, Some(Duration::from_hours(1)));
    let VerifierKind::Notation(notation) = &compiled.verifiers[0].kind else { panic!("no notation") };
    assert_eq!((&*notation.scopes, &*notation.trusted_identities), (&["*".into()][..], &["*".into()][..]));
    let VerifierKind::Cosign(cosign) = &compiled.verifiers[1].kind else { panic!("no cosign") };
    assert_eq!(cosign.policies[0].scopes, compiled.scopes);
    let StoreKind::Registry(store) = &compiled.stores[0].kind else { panic!("no registry") };
    assert_eq!((store.max_blob_bytes, store.max_manifest_bytes), (32 << 20, 4 << 20));
    assert_eq!(store.user_agent, "ratify-go");
    assert_eq!(store.credential, Credential::Anonymous);
    assert_eq!(compiled.stores[0].scopes, compiled.scopes);
}

#[test]
fn what_is_written_is_kept() {
    let compiled = compiled(&[
        ("/concurrency", "7"),
        ("/refreshInterval", "90m"),
        ("/stores/0/scopes", "[registry.io/team/app]"),
        ("/stores/0/parameters/maxBlobBytes", "1024"),
        ("/stores/0/parameters/caPem", "$CA"),
        ("/stores/0/parameters/credential", "{provider: static, password: token}"),
        ("/verifiers/0/parameters/certificates/0", "{type: tsa, files: [./a/ca.pem, /etc/trust/b]}"),
    ]);
    assert_eq!(compiled.concurrency, 7);
    assert_eq!(compiled.refresh_interval, Some(Duration::from_mins(90)));
    assert_eq!(compiled.stores[0].scopes, ["registry.io/team/app".parse().unwrap()]);
    let StoreKind::Registry(store) = &compiled.stores[0].kind else { panic!("no registry") };
    assert_eq!((store.max_blob_bytes, store.certificate_authorities.len()), (1024, 1));
    let Credential::RefreshToken(token) = &store.credential else { panic!("no token") };
    assert_eq!(token.reveal(), "token");
    let requests: Vec<_> = compiled.trust_requests().collect();
    assert_eq!(requests[0].path, "spec.verifiers[0].parameters.certificates[0].files");
    let Provider::Files(files) = &requests[0].provider else { panic!("no files") };
    assert_eq!(files.paths, [PathBuf::from("a/ca.pem"), PathBuf::from("b")]);
    assert_eq!(requests[1].want, Want::Keys);
}

#[test]
fn zero_switches_refreshing_off() {
    assert_eq!(compiled(&[("/refreshInterval", "0s")]).refresh_interval, None);
    assert_eq!(compiled(&[("/refreshInterval", "1ns")]).refresh_interval, Some(Duration::from_secs(1)));
}

#[test]
fn a_threshold_of_zero_is_all() {
    let compiled = compiled(&[("/policyEnforcer/parameters/policy/threshold", "0")]);
    assert_eq!(compiled.policy.unwrap().threshold, 2);
}

#[test]
fn no_password_is_in_a_debug_text() {
    let credential = "{provider: static, username: u, password: open-sesame}";
    let compiled = compiled(&[("/stores/0/parameters/credential", credential)]);
    let text = format!("{compiled:?}");
    assert!(text.contains("[hidden]") && !text.contains("open-sesame"), "{text}");
}

#[test]
fn every_sample_with_an_upstream_compiles_without_a_warning() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples/upstreams");
    let mut providers = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let mut sample: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let compiled = compile(&spec(sample["spec"].take()), &options()).unwrap();
        assert!(compiled.warnings.is_empty(), "{}: {:?}", path.display(), compiled.warnings);
        providers.extend(compiled.trust_requests().map(|request| request.provider.kind()));
    }
    providers.sort_unstable();
    let upstreams = [ProviderKind::AzureKeyVault, ProviderKind::KubernetesSecret, ProviderKind::FerrVault];
    assert_eq!(providers, upstreams);
}
