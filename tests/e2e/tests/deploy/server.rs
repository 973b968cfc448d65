//! A real API server accepts every object, and every pod passes the restricted Pod Security profile.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, GroupVersionKind, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt, discovery};
use muster_lab::control_plane::{ControlPlane, Options};
use muster_lab::installation::{NAMESPACE, deploy};
use muster_lab::{manifests, wait};
use serde_json::json;

use crate::tools::render;

/// Kinds of the Prometheus operator, which no plain API server knows.
const FOREIGN: [&str; 2] = ["PodMonitor", "PrometheusRule"];

async fn dry_run(client: &Client, object: &DynamicObject) -> Result<()> {
    let types = object.types.as_ref().context("no kind")?;
    let (resource, capabilities) = discovery::pinned_kind(client, &GroupVersionKind::try_from(types)?).await?;
    let api: Api<DynamicObject> = if capabilities.scope == discovery::Scope::Cluster {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), object.metadata.namespace.as_deref().unwrap_or(NAMESPACE), &resource)
    };
    let params = PatchParams {
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::apply("deploy").dry_run()
    };
    api.patch(&object.name_any(), &params, &Patch::Apply(object)).await?;
    Ok(())
}

/// A pod as the Deployment would make it.
fn pod_of(deployment: &DynamicObject) -> Result<Pod> {
    let template = &deployment.data["spec"]["template"];
    let mut pod: Pod = serde_json::from_value(json!({"spec": template["spec"]})).context("not a pod")?;
    pod.metadata = ObjectMeta { name: Some("trial".to_owned()), ..ObjectMeta::default() };
    Ok(pod)
}

#[tokio::test]
async fn every_object_is_accepted_and_every_pod_is_restricted() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client()?;
    manifests::apply_path(&client, &deploy("kustomize/base/namespace.yaml")).await?;
    plane.default_service_account(NAMESPACE).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let trial = PostParams { dry_run: true, ..PostParams::default() };

    for args in [&[][..], &["--values=deploy/chart/ci/everything-values.yaml"]] {
        let objects = render(args).await?;
        // A pod of an account that is not there is refused for that.
        let is = |object: &&DynamicObject, kind: &str| object.types.as_ref().is_some_and(|types| types.kind == kind);
        manifests::apply_objects(
            &client,
            objects.iter().filter(|object| is(object, "ServiceAccount")).cloned().collect(),
        )
        .await?;
        let mut skipped = 0;
        for object in &objects {
            if FOREIGN.iter().any(|kind| is(&object, kind)) {
                skipped += 1;
                continue;
            }
            dry_run(&client, object).await.with_context(|| format!("{:?} {}", object.types, object.name_any()))?;
        }
        ensure!(skipped == if args.is_empty() { 0 } else { 2 }, "{skipped} skipped");
        for deployment in objects.iter().filter(|object| is(object, "Deployment")) {
            let mut pod = pod_of(deployment)?;
            wait::until("the pod to be admitted", || pods.create(&trial, &pod)).await?;
            let containers = pod.spec.iter_mut().flat_map(|spec| &mut spec.containers);
            containers.for_each(|container| container.security_context = None);
            let refused = pods.create(&trial, &pod).await.err().context("a pod without restrictions was admitted")?;
            ensure!(refused.to_string().contains("violates PodSecurity \"restricted"), "{refused}");
        }
    }
    plane.stop().await;
    Ok(())
}
