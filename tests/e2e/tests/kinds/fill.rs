//! An object with every leaf of a definition's schema filled: what C70 compares before and after a round trip.

use anyhow::{Context as _, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

/// A full object of `crd` named `name`, with every property that the schema declares.
pub(crate) fn filled(crd: &CustomResourceDefinition, name: &str) -> Result<Value> {
    let version = crd.spec.versions.first().context("no version")?;
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref()).context("no schema")?;
    let mut object = fill(&serde_json::to_value(schema)?)?;
    object["apiVersion"] = json!(format!("{}/{}", crd.spec.group, crd.spec.versions[0].name));
    object["kind"] = json!(crd.spec.names.kind);
    object["metadata"] = json!({ "name": name });
    if crd.spec.scope == "Namespaced" {
        object["metadata"]["namespace"] = json!("default");
    }
    Ok(object)
}

/// How many leaves a value has: a filler that fills nothing must not pass for one that does.
pub(crate) fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.values().map(leaves).sum(),
        Value::Array(items) => items.iter().map(leaves).sum(),
        _ => 1,
    }
}

fn fill(schema: &Value) -> Result<Value> {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return Ok(json!({ "kept": { "as": ["it", 1, true, null] } }));
    }
    if let Some(first) = schema["enum"].get(0) {
        return Ok(first.clone());
    }
    Ok(match schema["type"].as_str() {
        Some("object") => fill_object(schema)?,
        Some("array") => json!([fill(&schema["items"])?]),
        Some("integer") => json!(7),
        Some("boolean") => json!(true),
        Some("string") if schema["format"] == "date-time" => json!("2026-11-30T03:09:28Z"),
        Some("string") => json!("filled"),
        other => bail!("no filler for type {other:?} in {schema}"),
    })
}

fn fill_object(schema: &Value) -> Result<Value> {
    let mut object = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        object.insert(name.clone(), fill(property)?);
    }
    if schema["additionalProperties"].is_object() {
        object.insert("key".into(), fill(&schema["additionalProperties"])?);
    }
    Ok(Value::Object(object))
}
