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
            ("labels", &["helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "app.kubernetes.io/instance"][..]),
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
