//! Applies manifests as `kubectl apply --server-side` does: any kind the server knows, many documents in a file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Client, ResourceExt, discovery};
use muster_api::{PART_OF_LABEL, PART_OF_VALUE};

use crate::wait;

/// Field manager of everything that is applied here.
const MANAGER: &str = "muster-lab";
/// Objects without a namespace go where kubectl would put them.
const DEFAULT_NAMESPACE: &str = "default";

/// Applies every document of `yaml`, namespaces and custom resource definitions first, and waits for the latter to be
/// served. Returns the objects as the server stored them.
pub async fn apply(client: &Client, yaml: &str) -> Result<Vec<DynamicObject>> {
    apply_objects(client, parse(yaml)?).await
}

/// The same for objects, as [`read`] or [`parse`] gives them.
pub async fn apply_objects(client: &Client, mut objects: Vec<DynamicObject>) -> Result<Vec<DynamicObject>> {
    objects.sort_by_key(order);
    let mut applied = Vec::with_capacity(objects.len());
    for object in objects {
        let label = label(&object);
        let stored = apply_one(client, &object).await.with_context(|| format!("cannot apply {label}"))?;
        if kind(&stored) == "CustomResourceDefinition" {
            established(client, &stored.name_any()).await?;
        }
        applied.push(stored);
    }
    Ok(applied)
}

/// Applies a file or a folder, see [`read`].
pub async fn apply_path(client: &Client, path: &Path) -> Result<Vec<DynamicObject>> {
    apply_objects(client, read(path)?).await.with_context(|| format!("in {}", path.display()))
}

/// The documents of a file, or of the `.yaml` files of a folder by name. `kustomization.yaml` is not a manifest, and is
/// passed over.
pub fn read(path: &Path) -> Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for file in files(path)? {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        objects.extend(parse(&text).with_context(|| format!("in {}", file.display()))?);
    }
    Ok(objects)
}

/// The documents of `yaml` as objects; empty ones are left out.
pub fn parse(yaml: &str) -> Result<Vec<DynamicObject>> {
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(yaml).context("not YAML")?;
    documents
        .into_iter()
        .filter(|document| !document.is_null())
        .map(|document| {
            let object: DynamicObject = serde_json::from_value(document).context("not a Kubernetes object")?;
            ensure!(object.types.is_some(), "an object without apiVersion and kind");
            Ok(object)
        })
        .collect()
}

/// Waits until a custom resource definition is established and its objects can be read.
pub async fn established(client: &Client, name: &str) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    wait::until(format!("CRD {name}"), || async {
        let definition = definitions.get(name).await?;
        let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
        let is_established =
            conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True");
        ensure!(is_established, "{conditions:?}");
        let spec = definition.spec;
        let version = spec.versions.iter().find(|version| version.served).context("no served version")?;
        let path = format!("/apis/{}/{}/{}?limit=1", spec.group, version.name, spec.names.plural);
        client.request_text(http::Request::get(path).body(Vec::new())?).await?;
        Ok(())
    })
    .await
}

async fn apply_one(client: &Client, object: &DynamicObject) -> Result<DynamicObject> {
    let types = object.types.as_ref().context("no apiVersion and kind")?;
    let gvk = GroupVersionKind::try_from(types).context("bad apiVersion")?;
    let (resource, capabilities) = discovery::pinned_kind(client, &gvk).await.context("the server does not know it")?;
    let api: Api<DynamicObject> = if capabilities.scope == discovery::Scope::Cluster {
        Api::all_with(client.clone(), &resource)
    } else {
        let namespace = object.metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        Api::namespaced_with(client.clone(), namespace, &resource)
    };
    if kind(object) == "CustomResourceDefinition" && is_ours(object) {
        let theirs = api.get_opt(&object.name_any()).await?.filter(|present| !is_ours(present));
        ensure!(
            theirs.is_none(),
            "one of that name is there without the label {PART_OF_LABEL}={PART_OF_VALUE}: it belongs to somebody else, whose objects would lose what ours does not know"
        );
    }
    let params = PatchParams::apply(MANAGER).force();
    Ok(api.patch(&object.name_any(), &params, &Patch::Apply(object)).await?)
}

/// What others need comes before them.
fn order(object: &DynamicObject) -> u8 {
    match kind(object) {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "ServiceAccount" | "ClusterRole" | "Role" => 2,
        _ => 3,
    }
}

/// Marked as part of this project.
fn is_ours(object: &DynamicObject) -> bool {
    object.labels().get(PART_OF_LABEL).is_some_and(|value| value == PART_OF_VALUE)
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| types.kind.as_str())
}

fn label(object: &DynamicObject) -> String {
    let namespace = object.metadata.namespace.as_deref().map_or_else(String::new, |namespace| format!("{namespace}/"));
    format!("{} {namespace}{}", kind(object), object.name_any())
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.with_context(|| format!("cannot read {}", path.display()))?.path();
        let is_yaml = file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if is_yaml && file.file_stem().is_some_and(|stem| stem != "kustomization") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_and_put_in_order() {
        let yaml = "# only a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {on: 'yes'}\n---\n\n---\n\
                    apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n";
        let mut objects = parse(yaml).unwrap();
        assert_eq!(objects.iter().map(label).collect::<Vec<_>>(), ["ConfigMap a", "Namespace ns"]);
        objects.sort_by_key(order);
        assert_eq!(kind(&objects[0]), "Namespace");
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        assert!(parse("a: 1\n").is_err());
        assert!(parse("a: [\n").is_err());
        assert_eq!(parse("").unwrap().len(), 0);
    }

    #[test]
    fn a_folder_is_read_by_name_without_its_kustomization() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.yml", "kustomization.yaml", "notes.txt"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(files(dir.path()).unwrap(), [dir.path().join("a.yml"), dir.path().join("b.yaml")]);
    }
}
