//! A replica writes only its own pod's reports: the admission policy that we ship, met with real tokens. And what the roles
//! that we ship allow, and what not.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use muster_api::ExecutorPodStatus;
use muster_lab::control_plane::{ControlPlane, Options};
use muster_lab::installation::{AGGREGATOR, NAMESPACE, RECONCILER, deploy};
use muster_lab::{identity, manifests, wait};
use serde_json::{Value, json};

async fn pod(client: &Client, name: &str) -> Result<Pod> {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "serviceAccountName": RECONCILER,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "reconciler", "image": "none",
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await.context("cannot create a pod")
}

/// A report about `about`, owned by `owner`.
fn report(name: &str, about: &Pod, owner: &Value) -> Value {
    json!({
        "apiVersion": "config.ratify.dev/v2alpha1", "kind": "ExecutorPodStatus",
        "metadata": {"name": name, "ownerReferences": owner},
        "spec": {
            "executor": {"kind": "Executor", "namespace": "", "name": "a", "uid": "0b7d3a7e-0000-4000-8000-000000000000"},
            "pod": {"name": about.name_any(), "uid": about.uid()},
        },
        "status": {
            "observedGeneration": 1, "succeeded": true, "serves": "Wanted", "reason": "Built", "error": "", "briefError": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "trustExpiresAt": null, "warnings": [],
        },
    })
}

fn owned_by(pod: &Pod) -> Value {
    json!([{"apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid()}])
}

async fn apply(client: &Client, object: &Value) -> kube::Result<ExecutorPodStatus> {
    let reports: Api<ExecutorPodStatus> = Api::namespaced(client.clone(), NAMESPACE);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    reports.patch(name, &PatchParams::apply("muster-reconciler").force(), &Patch::Apply(object)).await
}

/// Asserts that it was the policy that refused, with these words.
fn refused<T>(what: &str, outcome: kube::Result<T>, words: &str) -> Result<()> {
    match outcome {
        Ok(_) => anyhow::bail!("{what} was accepted"),
        Err(kube::Error::Api(status)) => {
            let by_policy = status.message.contains("ValidatingAdmissionPolicy 'muster-own-reports'");
            ensure!(status.code == 403 && by_policy && status.message.contains(words), "{what}: {status:?}");
            Ok(())
        }
        Err(error) => Err(error).context(what.to_owned()),
    }
}

#[tokio::test]
async fn a_replica_writes_only_the_reports_of_its_own_pod() -> Result<()> {
    let crds = ["executors", "namespacedexecutors", "executorpodstatuses"]
        .map(|plural| std::fs::read_to_string(deploy(&format!("crds/{plural}.config.ratify.dev.yaml"))));
    let crds = crds.into_iter().collect::<Result<Vec<_>, _>>().context("cannot read the CRDs")?;
    let plane = ControlPlane::start(Options { crds, ..Options::default() }).await?;
    let admin = plane.client()?;
    manifests::apply_path(&admin, &deploy("kustomize/base/namespace.yaml")).await?;
    let accounts = ["service-account", "role", "cluster-role"];
    for file in accounts {
        manifests::apply_path(&admin, &deploy(&format!("kustomize/base/reconciler/{file}.yaml"))).await?;
    }
    manifests::apply_path(&admin, &deploy("kustomize/components/policy/policy.yaml")).await?;
    let (a, b) = (pod(&admin, "a").await?, pod(&admin, "b").await?);
    let as_a = identity::pod(&plane, NAMESPACE, "a").await?;
    let as_b = identity::pod(&plane, NAMESPACE, "b").await?;
    let unbound = identity::service_account(&plane, NAMESPACE, RECONCILER).await?;

    // The policy is in force a moment after it was applied.
    let mine = report("mine", &a, &owned_by(&a));
    wait::until("the policy to be in force", || async {
        refused("an unbound token", apply(&unbound, &mine).await, "token is not bound to a pod")
    })
    .await?;

    apply(&as_a, &mine).await.context("its own report")?;
    let mut changed = mine.clone();
    changed["status"]["observedGeneration"] = json!(2);
    let stored = apply(&as_a, &changed).await.context("a change of its own report")?;
    ensure!(stored.status.is_some_and(|status| status.observed_generation == 2), "the change is not stored");

    let own = "a replica writes only its own status; this token belongs to pod b";
    refused("a change of another pod's report", apply(&as_b, &changed).await, own)?;
    refused("a report for another pod", apply(&as_b, &report("theirs", &a, &owned_by(&a))).await, own)?;
    let reports = |client: &Client| Api::<ExecutorPodStatus>::namespaced(client.clone(), NAMESPACE);
    refused("deleting another pod's report", reports(&as_b).delete("mine", &DeleteParams::default()).await, own)?;
    let one = "the one owner must be the reporting pod";
    refused("a foreign owner", apply(&as_b, &report("b", &b, &owned_by(&a))).await, one)?;
    refused("no owner", apply(&as_b, &report("b", &b, &json!([]))).await, one)?;
    let both = json!([owned_by(&b)[0], owned_by(&a)[0]]);
    refused("a second owner", apply(&as_b, &report("b", &b, &both)).await, one)?;

    apply(&as_b, &report("b", &b, &owned_by(&b))).await.context("the other pod's own report")?;
    reports(&as_a).delete("mine", &DeleteParams::default()).await.context("deleting its own report")?;
    reports(&admin).delete("b", &DeleteParams::default()).await.context("other accounts are not looked at")?;
    plane.stop().await;
    Ok(())
}

/// Whether a user, member of groups or not, may do `verb` on `resource`, in a namespace or in the whole cluster.
async fn may(client: &Client, user: &str, verb: &str, resource: &str, namespace: &str) -> Result<bool> {
    let (group, resource) = resource.split_once('/').context("no group")?;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({"spec": {"user": user, "resourceAttributes": {
        "group": group, "resource": resource, "subresource": subresource, "verb": verb, "namespace": namespace,
    }}});
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &serde_json::from_value(review)?).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[tokio::test]
async fn accounts_and_users_may_do_what_their_roles_are_for_and_no_more() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let admin = plane.client()?;
    manifests::apply_path(&admin, &deploy("kustomize/base/namespace.yaml")).await?;
    for file in
        ["reconciler/role", "reconciler/cluster-role", "aggregator/role", "aggregator/cluster-role", "user-roles"]
    {
        manifests::apply_path(&admin, &deploy(&format!("kustomize/base/{file}.yaml"))).await?;
    }
    let bindings = ["view", "edit"].map(|role| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": format!("{role}er"), "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": format!("{role}er")}],
        })
        .to_string()
    });
    manifests::apply(&admin, &bindings.join("\n---\n")).await?;

    let account = |name: &str| format!("system:serviceaccount:{NAMESPACE}:{name}");
    let (replica, aggregator) = (account(RECONCILER), account(AGGREGATOR));
    let cases = [
        (replica.as_str(), "get", "config.ratify.dev/executors", "", true),
        (&replica, "update", "config.ratify.dev/executors/status", "", false),
        (&replica, "patch", "config.ratify.dev/executors/status", "", false),
        (&replica, "get", "/secrets", NAMESPACE, false),
        (&replica, "list", "/secrets", "", false),
        (&replica, "list", "/pods", "", false),
        (&replica, "patch", "config.ratify.dev/executorpodstatuses", "default", false),
        (&aggregator, "update", "config.ratify.dev/executors/status", "", true),
        (&aggregator, "patch", "config.ratify.dev/executors/status", "", false),
        (&aggregator, "update", "config.ratify.dev/executors", "", false),
        (&aggregator, "list", "/pods", NAMESPACE, true),
        (&aggregator, "list", "/pods", "default", false),
        (&aggregator, "get", "/secrets", NAMESPACE, false),
        (&aggregator, "patch", "config.ratify.dev/executorpodstatuses", NAMESPACE, false),
        ("viewer", "list", "config.ratify.dev/namespacedexecutors", "default", true),
        ("viewer", "patch", "config.ratify.dev/namespacedexecutors", "default", false),
        ("viewer", "list", "config.ratify.dev/executors", "", false),
        ("editer", "patch", "config.ratify.dev/namespacedexecutors", "default", true),
        ("editer", "update", "config.ratify.dev/namespacedexecutors/status", "default", false),
        ("editer", "patch", "config.ratify.dev/executorpodstatuses", "default", false),
    ];
    // Aggregated roles are filled by a controller, a moment later.
    wait::until("every answer to be as it should", || async {
        for (user, verb, resource, namespace, expected) in cases {
            let may = may(&admin, user, verb, resource, namespace).await?;
            ensure!(may == expected, "{user} may {verb} {resource} in {namespace:?}: {may}");
        }
        anyhow::Ok(())
    })
    .await?;
    plane.stop().await;
    Ok(())
}
