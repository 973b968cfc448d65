//! Rendering, and what two renderings have in common.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kube::api::DynamicObject;
use muster_lab::{manifests, tools};
use muster_toolbox::Tool;
use serde_json::Value;

/// The chart, seen from the repository.
pub(crate) const CHART: &str = "deploy/chart";

/// The chart as text, with more arguments for helm.
pub(crate) async fn template(args: &[&str]) -> Result<String> {
    let release = ["template", "muster", CHART, "--namespace=muster-system"];
    tools::run(Tool::Helm, None, &[&release[..], args].concat()).await
}

/// The chart as objects.
pub(crate) async fn render(args: &[&str]) -> Result<Vec<DynamicObject>> {
    manifests::parse(&template(args).await?)
}

/// A kustomization as objects.
pub(crate) async fn kustomize(folder: &str) -> Result<Vec<DynamicObject>> {
    manifests::parse(&tools::run(Tool::Kubectl, None, &["kustomize", folder]).await?)
}

/// Objects by kind and name, without what only helm writes, and without the namespace, which is helm's caller's.
pub(crate) fn normalised(objects: Vec<DynamicObject>) -> Result<BTreeMap<String, Value>> {
    let mut named = BTreeMap::new();
    for object in objects {
        let mut object = serde_json::to_value(object)?;
        let metadata = object["metadata"].as_object_mut().context("no metadata")?;
        for (field, keys) in [
            (
                "labels",
                &[
                    "helm.sh/chart",
                    "app.kubernetes.io/managed-by",
                    "app.kubernetes.io/version",
                    "app.kubernetes.io/instance",
                ][..],
            ),
            ("annotations", &["helm.sh/resource-policy"]),
        ] {
            if let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                map.retain(|key, _| !keys.contains(&key.as_str()));
                if map.is_empty() {
                    metadata.remove(field);
                }
            }
        }
        let name = format!("{} {}", text(&object, "/kind"), text(&object, "/metadata/name"));
        if text(&object, "/kind") != "Namespace" {
            ensure!(named.insert(name.clone(), object).is_none(), "{name} is there twice");
        }
    }
    Ok(named)
}

/// A string in an object, empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Where two objects differ, as paths with both values.
pub(crate) fn differences(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let at = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differences(&at(a), &at(b), &format!("{path}/{key}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}/{index}"), found);
            }
        }
        // A whole number may be written in two ways.
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        _ if one == other => {}
        _ => found.push(format!("{path}: {one} and {other}")),
    }
}
