//! Broken specs by the hundred: each gets a reason and a path, and none makes the compiler panic.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

/// A spec that uses every part of the parameters.
fn full() -> Value {
    let mut value = yaml(BASE);
    for (pointer, new) in [
        ("/verifiers/0/parameters/scopes", "[registry.io/team/app]"),
        ("/verifiers/0/parameters/trustedIdentities", "['x509.subject: C=US, ST=WA, O=wabbit']"),
        ("/verifiers/0/parameters/certificates/1", "{type: tsa, files: [tsa.pem]}"),
        (
            "/verifiers/0/parameters/certificates/2",
            "{type: signingAuthority, azurekeyvault: {vaultURL: 'https://v', certificates: [{name: ca, version: v}]}, \
             kubernetesSecret: {name: s, certs: [ca]}, ferrvault: {url: 'https://v', organization: o, project: p, vault: v, \
             certs: [ca], tokenSecretRef: {name: t, key: k}}}",
        ),
        (
            "/verifiers/1/parameters/trustPolicies/0",
            "{scopes: [registry.io], ignoreTLog: true, ignoreObserverTimestamps: true, keys: {inline: {keys: $KEY}}}",
        ),
        (
            "/verifiers/1/parameters/trustPolicies/1",
            "{scopes: [registry.io/team/app], ignoreCTLog: true, certificateIdentity: me, certificateIdentityRegex: m, \
             certificateOIDCIssuer: i, certificateOIDCIssuerRegex: i}",
        ),
        (
            "/stores/0",
            "{type: registry-store, scopes: [registry.io], parameters: {plainHttp: true, userAgent: u, maxBlobBytes: 1, \
             maxManifestBytes: 1, allowCosignTag: true, caPem: $CA, credential: {provider: static, username: u, password: p}}}",
        ),
        ("/stores/1", "{type: filesystem-oci-store, scopes: [registry.io/team/app], parameters: {path: /p}}"),
        ("/policyEnforcer/parameters/policy/rules/2", "{threshold: 1, rules: [{verifierName: cosign}]}"),
    ] {
        set(&mut value, pointer, yaml(new));
    }
    value
}

/// Every place below `parameters`, as a pointer and as a path.
fn places(value: &Value, pointer: &str, path: &str, found: &mut Vec<(String, String)>) {
    if pointer.contains("/parameters") {
        found.push((pointer.to_owned(), path.to_owned()));
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                places(value, &format!("{pointer}/{key}"), &format!("{path}.{key}"), found);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                places(value, &format!("{pointer}/{index}"), &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn is_parameters(pointer: &str) -> bool {
    pointer.ends_with("/parameters")
}

#[test]
fn c67_200_broken_specs_each_get_a_reason_and_a_path() {
    let whole = full();
    assert!(compile(&spec(whole.clone()), &options()).is_ok());
    let mut all = Vec::new();
    places(&whole, "", "spec", &mut all);
    let mut broken = 0;
    for (pointer, path) in &all {
        let here = whole.pointer(pointer).unwrap();
        for new in
            [json!(5), json!(true), json!("?"), json!(""), json!([]), json!({}), json!([[5]]), json!({"a b\n": 5})]
        {
            // Parameters that are no object never pass the API server.
            if is_parameters(pointer) && !new.is_object()
                || std::mem::discriminant(&new) == std::mem::discriminant(here)
            {
                continue;
            }
            let mut value = whole.clone();
            set(&mut value, pointer, new.clone());
            let Err(error) = compile(&spec(value.clone()), &options()) else {
                panic!("{pointer}: {new} is accepted");
            };
            let text = error.to_string();
            // The mistake is found where it is, or where its consequence is.
            assert!(error.path().starts_with(path) || path.starts_with(error.path()), "{path}: {text}");
            assert!(text.len() <= 1_024 && !text.contains('\n'), "{text:?}");
            assert_eq!(compile(&spec(value), &options()).unwrap_err(), error, "not the same twice");
            broken += 1;
        }
    }
    assert!(broken >= 200, "{broken}");
}

/// Any JSON, with words of the spec among its keys and texts.
fn any_json() -> impl Strategy<Value = Value> {
    const WORDS: [&str; 28] = [
        "certificates",
        "type",
        "ca",
        "inline",
        "certs",
        "keys",
        "files",
        "azurekeyvault",
        "vaultURL",
        "name",
        "scopes",
        "trustPolicies",
        "trustedIdentities",
        "credential",
        "provider",
        "static",
        "policy",
        "rules",
        "threshold",
        "verifierName",
        "notation",
        "path",
        "registry.io",
        "*",
        "",
        "caPem",
        "x509.subject: C=US",
        "certificateIdentity",
    ];
    let word = proptest::sample::select(&WORDS[..]).prop_map(str::to_owned);
    let text = prop_oneof![3 => word.clone(), 1 => "\\PC{0,12}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(text.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn no_parameters_make_compiling_panic(values in proptest::collection::vec(any_json(), 4), tenant in any::<bool>()) {
        let places = ["/verifiers/0/parameters", "/verifiers/1/parameters", "/stores/0/parameters", "/policyEnforcer/parameters"];
        let options = CompileOptions { tenant, ..options() };
        for (place, value) in places.iter().zip(values) {
            let mut whole = yaml(BASE);
            let value = if value.is_object() { value } else { json!({ "certificates": value.clone(), "trustPolicies": value.clone(), "credential": value.clone(), "policy": value }) };
            set(&mut whole, place, value);
            match compile(&spec(whole), &options) {
                Ok(compiled) => {
                    prop_assert!(compiled.warnings.len() <= 8);
                    prop_assert!(compiled.warnings.iter().all(|text| text.len() <= 200 && !text.contains('\n')));
                }
                Err(error) => {
                    let start = place.replace('/', ".").replace(".0", "[0]").replace(".1", "[1]");
                    prop_assert!(error.path().starts_with(&format!("spec{start}")), "{error}");
                    let text = error.to_string();
                    prop_assert!(text.len() <= 1_024 && text == muster_core::text::single_line(&text), "{text:?}");
                }
            }
        }
    }
}

#[test]
fn an_error_is_bounded_whatever_is_written() {
    let long = "x".repeat(100_000);
    let mut whole = yaml(BASE);
    set(&mut whole, "/verifiers/0/parameters/certificates/0", json!({ long.clone(): {} }));
    let text = compile(&spec(whole), &options()).unwrap_err().to_string();
    assert!(text.len() <= 300, "{text}");
    let mut whole = yaml(BASE);
    set(&mut whole, "/verifiers/0/name", json!(long));
    let text = compile(&spec(whole), &options()).unwrap_err().to_string();
    assert!(text.len() <= 1_024, "{}", text.len());
}

#[test]
fn a_list_is_bounded() {
    let mut whole = yaml(BASE);
    set(&mut whole, "/verifiers/0/parameters/scopes", json!(vec!["registry.io/team/app"; 257]));
    let error = compile(&spec(whole), &options()).unwrap_err();
    assert_eq!(error.to_string(), "spec.verifiers[0].parameters.scopes has 257 entries, expected at most 256");
    let rules: Vec<_> = (0..20).map(|_| json!({ "rules": vec![json!({ "verifierName": "notation" }); 20] })).collect();
    let mut whole = yaml(BASE);
    set(&mut whole, "/policyEnforcer/parameters/policy", json!({ "rules": rules }));
    let error = compile(&spec(whole), &options()).unwrap_err().to_string();
    let path = "spec.policyEnforcer.parameters.policy.rules[12].rules[3]";
    assert_eq!(error, format!("{path} has rule number 257, expected at most 256"));
}
