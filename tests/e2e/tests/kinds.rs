//! The three kinds as the Rust types and a real API server take them.

#[path = "kinds/fill.rs"]
mod fill;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use muster_api::{Executor, ExecutorPodStatus, NamespacedExecutor, PART_OF_LABEL, crds};
use muster_lab::control_plane::{ControlPlane, Controllers, Options};
use muster_lab::installation::deploy;
use muster_lab::manifests;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use fill::{filled, leaves};

/// Reads the filled object into the Rust type and writes it again: what is lost or invented shows as a difference.
fn round_trip<K: Serialize + DeserializeOwned>(kind: &str) -> Result<()> {
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind).context("no such kind")?;
    let before = filled(&crd, "every-leaf")?;
    ensure!(leaves(&before) > 10, "{kind}: the filler fills too little: {before}");
    let typed: K = serde_json::from_value(before.clone())?;
    let after: Value = serde_json::to_value(&typed)?;
    ensure!(before == after, "{kind}: {before} became {after}");
    Ok(())
}

#[test]
fn c70_every_leaf_of_the_schema_survives_the_rust_types() -> Result<()> {
    round_trip::<Executor>("Executor")?;
    round_trip::<NamespacedExecutor>("NamespacedExecutor")?;
    round_trip::<ExecutorPodStatus>("ExecutorPodStatus")
}

/// A control plane with the definitions as they are checked in.
async fn plane() -> Result<ControlPlane> {
    let plane = ControlPlane::start(Options::default()).await?;
    manifests::apply_path(&plane.client()?, &deploy("crds")).await?;
    Ok(plane)
}

fn api(plane: &ControlPlane, kind: &str, namespaced: bool) -> Result<Api<DynamicObject>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(muster_api::GROUP, muster_api::VERSION, kind));
    Ok(if namespaced {
        Api::namespaced_with(plane.client()?, "default", &resource)
    } else {
        Api::all_with(plane.client()?, &resource)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c70_every_leaf_of_the_schema_survives_the_api_server() -> Result<()> {
    let plane = plane().await?;
    for crd in crds() {
        let kind = crd.spec.names.kind.clone();
        let api = api(&plane, &kind, crd.spec.scope == "Namespaced")?;
        let object = filled(&crd, "every-leaf")?;
        let mut stored = api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
        if crd.spec.versions[0].subresources.is_some() {
            stored.data["status"] = object["status"].clone();
            api.replace_status("every-leaf", &PostParams::default(), &stored).await.context("status")?;
        }
        let read = api.get("every-leaf").await?.data;
        for part in ["spec", "status"] {
            ensure!(read[part] == object[part], "{kind}.{part}: sent {}, read {}", object[part], read[part]);
        }
    }
    plane.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_status_is_stored_by_one_apply_never_changes_hands_and_is_found_by_its_pod() -> Result<()> {
    let plane = plane().await?;
    let api = api(&plane, "ExecutorPodStatus", true)?;
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == "ExecutorPodStatus").context("no such kind")?;
    ensure!(crd.spec.versions[0].subresources.is_none(), "ExecutorPodStatus has a subresource");
    let object: DynamicObject = serde_json::from_value(filled(&crd, "one")?)?;
    let apply = PatchParams::apply("muster-reconciler").force();
    let stored = api.patch("one", &apply, &Patch::Apply(&object)).await?;
    ensure!(stored.data["status"] == object.data["status"], "the first apply lost the status: {:?}", stored.data);

    let mut other = object.clone();
    other.data["spec"]["pod"]["uid"] = json!("another");
    let refused = api.patch("one", &apply, &Patch::Apply(&other)).await;
    let refused = refused.err().context("the spec was changed")?;
    ensure!(refused.to_string().contains("spec is immutable"), "{refused}");

    for field in ["spec.pod.uid", "spec.executor.uid"] {
        let of = |uid: &str| ListParams::default().fields(&format!("{field}={uid}"));
        ensure!(api.list(&of("filled")).await?.items.len() == 1, "{field} does not select");
        ensure!(api.list(&of("nobody")).await?.items.is_empty(), "{field} selects everything");
    }
    plane.stop().await;
    Ok(())
}

/// Somebody else's definition of `executors.config.ratify.dev`: an older Ratify had this group.
fn definition_of_another() -> Result<CustomResourceDefinition> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "executors.config.ratify.dev", "labels": {"app.kubernetes.io/managed-by": "Helm"}},
        "spec": {
            "group": "config.ratify.dev", "scope": "Cluster",
            "names": {"kind": "Executor", "plural": "executors", "singular": "executor"},
            "versions": [{"name": "v2alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }))?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_others_are_not_overwritten_unless_asked() -> Result<()> {
    let plane = ControlPlane::start(Options { controllers: Controllers::None, ..Options::default() }).await?;
    let client = plane.client()?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let by_helm = PostParams { field_manager: Some("helm".to_owned()), ..PostParams::default() };
    definitions.create(&by_helm, &definition_of_another()?).await?;
    manifests::established(&client, "executors.config.ratify.dev").await?;
    let theirs = definitions.get("executors.config.ratify.dev").await?;

    // Our own hands look first, and say what they saw.
    let refused = manifests::apply_path(&client, &deploy("crds")).await.err().context("it was overwritten")?;
    let refused = format!("{refused:#}");
    ensure!(
        refused.contains("executors.config.ratify.dev") && refused.contains("belongs to somebody else"),
        "{refused}"
    );

    // The command of the manual leaves it to the server, which knows whose the fields are.
    let ours = crds().into_iter().find(|crd| crd.spec.names.plural == "executors").context("no such kind")?;
    let as_in_the_manual = PatchParams::apply("kubectl");
    let refused = definitions.patch("executors.config.ratify.dev", &as_in_the_manual, &Patch::Apply(&ours)).await;
    let refused = refused.err().context("it was overwritten")?;
    ensure!(matches!(&refused, kube::Error::Api(status) if status.code == 409), "{refused}");
    ensure!(refused.to_string().contains("\"helm\""), "{refused}");
    let now = definitions.get("executors.config.ratify.dev").await?;
    ensure!(now.spec == theirs.spec && now.metadata.labels == theirs.metadata.labels, "{now:?}");

    // Asked to, it is taken over, and from then on it is ours.
    definitions.patch("executors.config.ratify.dev", &as_in_the_manual.force(), &Patch::Apply(&ours)).await?;
    manifests::apply_path(&client, &deploy("crds")).await?;
    let now = definitions.get("executors.config.ratify.dev").await?;
    ensure!(now.metadata.labels.is_some_and(|labels| labels.contains_key(PART_OF_LABEL)), "it has no label");
    plane.stop().await;
    Ok(())
}
