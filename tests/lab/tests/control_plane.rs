//! The control plane itself: real, side by side, quick to come and gone without a trace.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use muster_lab::audit::{Audit, Request};
use muster_lab::control_plane::{ControlPlane, Controllers, Options};
use muster_lab::{identity, manifests, wait};
use serde_json::json;

fn config_map(name: &str, owner: Option<&Pod>) -> ConfigMap {
    let owner_references = owner.map(|pod| {
        vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            ..OwnerReference::default()
        }]
    });
    let metadata = ObjectMeta { name: Some(name.to_owned()), owner_references, ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some(BTreeMap::from([("a".to_owned(), "b".to_owned())])), ..ConfigMap::default() }
}

async fn pod(plane: &ControlPlane, name: &str) -> Result<Pod> {
    let pod = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "c"}]}
    }))?;
    let pods: Api<Pod> = Api::namespaced(plane.client()?, "default");
    Ok(pods.create(&PostParams::default(), &pod).await?)
}

#[tokio::test]
async fn two_run_side_by_side_and_vanish_when_stopped() -> Result<()> {
    let nobody = Options { controllers: Controllers::None, ..Options::default() };
    let (one, two) = tokio::try_join!(ControlPlane::start(nobody.clone()), ControlPlane::start(nobody))?;
    let maps = |plane: &ControlPlane| -> Result<Api<ConfigMap>> { Ok(Api::namespaced(plane.client()?, "default")) };
    maps(&one)?.create(&PostParams::default(), &config_map("only-here", None)).await?;
    assert!(maps(&two)?.get_opt("only-here").await?.is_none());

    let version = one.client()?.apiserver_version().await?;
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"), "{}", version.git_version);

    let root = one.root().to_owned();
    let pids = [one.api_server().pid(), one.etcd().pid()];
    one.stop().await;
    assert!(!root.exists());
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{}", pid.unwrap())).exists());
    }
    two.stop().await;
    Ok(())
}

#[tokio::test]
async fn what_a_pod_owns_is_collected_with_it() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    plane.default_service_account("default").await?;
    let owner = pod(&plane, "owner").await?;
    let client = plane.client()?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &config_map("owned", Some(&owner))).await?;
    maps.create(&PostParams::default(), &config_map("free", None)).await?;

    let mark = plane.audit().mark()?;
    Api::<Pod>::namespaced(client, "default").delete("owner", &DeleteParams::default()).await?;
    wait::until("the owned object to be collected", || async {
        ensure!(maps.get_opt("owned").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    assert!(maps.get_opt("free").await?.is_some());
    let collector =
        |request: &Request| request.by("kube-system", "generic-garbage-collector") && request.verb == "delete";
    assert_eq!(plane.audit().count(mark, collector)?, 1);
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn an_outage_ends_with_the_same_address_and_data() -> Result<()> {
    let plane = ControlPlane::start(Options { controllers: Controllers::None, ..Options::default() }).await?;
    let maps: Api<ConfigMap> = Api::namespaced(plane.client()?, "default");
    maps.create(&PostParams::default(), &config_map("kept", None)).await?;

    plane.api_server().kill().await;
    assert!(maps.get("kept").await.is_err());
    plane.start_api_server().await?;
    assert!(maps.get_opt("kept").await?.is_some());

    plane.api_server().freeze();
    let hung = tokio::time::timeout(std::time::Duration::from_millis(300), maps.get("kept")).await;
    assert!(hung.is_err(), "a frozen server answers nothing: {hung:?}");
    plane.api_server().thaw();
    assert!(maps.get_opt("kept").await?.is_some());
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn service_accounts_have_only_their_rights_and_the_audit_log_knows_them() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let admin = plane.client()?;
    manifests::apply(
        &admin,
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reader}\n\
         rules: [{apiGroups: [''], resources: [configmaps], verbs: [get, list]}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: reader}\n\
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}\n\
         subjects: [{kind: ServiceAccount, name: default, namespace: default}]\n",
    )
    .await?;
    plane.default_service_account("default").await?;
    pod(&plane, "me").await?;

    let mark = plane.audit().mark()?;
    for client in
        [identity::service_account(&plane, "default", "default").await?, identity::pod(&plane, "default", "me").await?]
    {
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        maps.list(&ListParams::default()).await?;
        let refused = maps.create(&PostParams::default(), &config_map("no", None)).await.unwrap_err();
        assert!(matches!(&refused, kube::Error::Api(status) if status.is_forbidden()), "{refused}");
    }

    let own = |request: &Request| request.by("default", "default") && request.on("configmaps");
    let seen: Vec<_> =
        plane.audit().matching(mark, own)?.into_iter().map(|request| (request.verb, request.code)).collect();
    let expected = [("list", 200), ("create", 403), ("list", 200), ("create", 403)];
    assert_eq!(seen, expected.map(|(verb, code)| (verb.to_owned(), code)));
    assert_eq!(plane.audit().count(mark, |request| own(request) && request.is_write())?, 2);
    assert_eq!(plane.audit().count(mark, |request| own(request) && request.is_list())?, 2);
    assert!(plane.audit().count(Audit::START, |request| request.by("default", "other"))? == 0);
    plane.stop().await;
    Ok(())
}
