//! Specs in, text out. Each file under `cases` is a list of specs, written as edits of a base, and its snapshot has the
//! outcome of each: the error, or `ok` and the warnings.

mod broken;
mod typed;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::*;
use crate::trust::testing::{SPECIMENS, without_fingerprints};

/// A spec with one verifier of each type that compiles without warnings. `$NAME` stands for a specimen's PEM text.
pub(super) const BASE: &str = "
scopes: [registry.io, registry.io/team/app]
verifiers:
  - name: notation
    type: notation
    parameters:
      certificates: [{type: ca, inline: {certs: $CA}}]
  - name: cosign
    type: cosign
    parameters:
      trustPolicies: [{keys: {inline: {keys: $KEY}}}]
stores:
  - type: registry-store
    parameters: {credential: {provider: static}}
policyEnforcer:
  type: threshold-policy
  parameters:
    policy: {threshold: 1, rules: [{verifierName: notation}, {verifierName: cosign}]}
";

/// What all providers need.
pub(super) fn options() -> CompileOptions {
    CompileOptions {
        providers: ProviderKind::ALL.into_iter().collect(),
        trust_dir: Some("/etc/trust".into()),
        ..CompileOptions::default()
    }
}

/// YAML as JSON, specimens filled in.
pub(super) fn yaml(text: &str) -> Value {
    fill(serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}")))
}

fn fill(value: Value) -> Value {
    match value {
        Value::String(text) => {
            let specimens = [
                ("$OTHER_CA", &SPECIMENS.other_ca),
                ("$CA", &SPECIMENS.ca),
                ("$LEAF", &SPECIMENS.leaf),
                ("$SELF_SIGNED", &SPECIMENS.self_signed),
                ("$KEY", &SPECIMENS.key),
                ("$PRIVATE_KEY", &SPECIMENS.private_key),
            ];
            Value::String(specimens.iter().fold(text, |text, (name, pem)| text.replace(name, pem)))
        }
        Value::Array(values) => values.into_iter().map(fill).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, fill(value))).collect(),
        other => other,
    }
}

/// Sets the value at a JSON pointer, making objects on the way; the index behind a list's end appends.
pub(super) fn set(root: &mut Value, pointer: &str, new: Value) {
    let mut here = root;
    for step in pointer.split('/').skip(1) {
        here = match here {
            Value::Array(values) => {
                let index: usize = step.parse().unwrap();
                if index == values.len() {
                    values.push(Value::Null);
                }
                &mut values[index]
            }
            other => {
                if !other.is_object() {
                    *other = Value::Object(serde_json::Map::new());
                }
                other.as_object_mut().unwrap().entry(step).or_insert(Value::Null)
            }
        };
    }
    *here = new;
}

pub(super) fn spec(value: Value) -> ExecutorSpec {
    serde_json::from_value(value).unwrap()
}

/// The outcome as text.
fn outcome(spec: &ExecutorSpec, options: &CompileOptions) -> String {
    let text = match compile(spec, options) {
        Ok(compiled) => {
            let warnings = compiled.warnings.iter().map(|warning| format!("\n  ! {warning}"));
            std::iter::once("ok".to_owned()).chain(warnings).collect()
        }
        Err(error) => {
            assert_eq!(error.reason(), muster_api::Reason::InvalidSpec);
            assert!(error.to_string().starts_with(error.path()), "{error}");
            format!("{}: {error}", error.category())
        }
    };
    without_fingerprints(&text)
}

/// Runs a file of cases: paragraphs of edits, `pointer: value` each, that start from [`BASE`]. A pointer without value
/// removes; `option: word` sets an option.
fn run(cases: &str) -> String {
    let mut out = String::new();
    for case in cases.trim().split("\n\n") {
        let mut value = yaml(BASE);
        let mut options = options();
        for edit in case.lines().filter(|line| !line.starts_with('#')) {
            match edit.split_once(": ") {
                Some(("option", word)) => option(&mut options, word),
                Some((pointer, new)) => set(&mut value, pointer, yaml(new)),
                None => remove(&mut value, edit),
            }
        }
        writeln!(out, "{case}\n  -> {}\n", outcome(&spec(value), &options)).unwrap();
    }
    out
}

fn option(options: &mut CompileOptions, word: &str) {
    match word.split_once('=') {
        Some(("tenant", providers)) => {
            options.tenant = true;
            options.tenant_providers = providers.split_whitespace().map(|name| name.parse().unwrap()).collect();
        }
        Some(("providers", providers)) => {
            options.providers = providers.split_whitespace().map(|name| name.parse().unwrap()).collect();
        }
        Some(("trust_dir", "")) => options.trust_dir = None,
        _ => panic!("no option {word}"),
    }
}

fn remove(root: &mut Value, pointer: &str) {
    let (parent, last) = pointer.rsplit_once('/').unwrap_or_else(|| panic!("no edit: {pointer}"));
    let parent = root.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {pointer}"));
    match parent {
        Value::Array(values) => drop(values.remove(last.parse().unwrap())),
        other => assert!(other.as_object_mut().unwrap().remove(last).is_some(), "nothing at {pointer}"),
    }
}

macro_rules! cases {
    ($($name:ident),+) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(run(include_str!(concat!("cases/", stringify!($name), ".txt"))));
        })+
    };
}

cases!(spec_fields, notation, cosign, providers, stores, policy);

#[test]
fn every_kind_of_mistake_has_a_case() {
    let all = [
        include_str!("cases/spec_fields.txt"),
        include_str!("cases/notation.txt"),
        include_str!("cases/cosign.txt"),
        include_str!("cases/providers.txt"),
        include_str!("cases/stores.txt"),
        include_str!("cases/policy.txt"),
    ];
    let outcomes: String = all.iter().map(|cases| run(cases)).collect();
    let kinds: BTreeSet<_> = outcomes
        .lines()
        .filter_map(|line| line.strip_prefix("  -> ")?.split_once(": ").map(|(kind, _)| kind))
        .collect();
    let expected = ["Duplicate", "Missing", "NotBuiltIn", "NotForTenants", "TooMany", "WrongType", "WrongValue"].into();
    assert_eq!(kinds, expected);
}
