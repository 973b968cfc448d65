//! Every right that we ship is used, and missed by its name: take one away, and the process names exactly that one.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use muster_api::NamespacedExecutor;
use muster_lab::admin::get;
use muster_lab::installation::{NAMESPACE, deploy};
use muster_lab::{manifests, wait};
use serde_json::{Value, json};

use crate::cast::Actor;
use crate::pods::no_replicas;
use crate::stage::{Stage, spec};

/// What stands before the missing right in logs and readiness.
const PHRASE: &str = "RBAC does not allow to ";

/// One verb of one rule of one role.
#[derive(Clone, Debug)]
struct Right {
    role: DynamicObject,
    rule: usize,
    verb: String,
    resource: String,
}

/// Every verb of every rule on every resource in the manifests of the aggregator.
fn rights() -> Result<Vec<Right>> {
    let objects = manifests::read(&deploy("kustomize/base/aggregator"))?;
    let roles = objects.into_iter().filter(|object| {
        object.types.as_ref().is_some_and(|types| types.kind == "Role" || types.kind == "ClusterRole")
    });
    let mut rights = Vec::new();
    for role in roles {
        for (index, rule) in role.data["rules"].as_array().context("a role without rules")?.iter().enumerate() {
            for resource in rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                for verb in rule["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    rights.push(Right {
                        role: role.clone(),
                        rule: index,
                        verb: verb.to_owned(),
                        resource: resource.to_owned(),
                    });
                }
            }
        }
    }
    Ok(rights)
}

impl Right {
    /// The role without this right: the rule is split, so that its other resources keep the verb.
    fn without(&self) -> Value {
        let mut role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": self.role.types.as_ref().map(|types| types.kind.clone()),
            "metadata": {"name": self.role.name_any(), "namespace": self.role.namespace()},
            "rules": self.role.data["rules"],
        });
        let rule = &mut role["rules"][self.rule];
        let mut others = rule.clone();
        let strip = |list: &Value, word: &str| -> Value {
            list.as_array().into_iter().flatten().filter(|item| *item != word).cloned().collect()
        };
        rule["resources"] = json!([self.resource]);
        rule["verbs"] = strip(&rule["verbs"], &self.verb);
        others["resources"] = strip(&others["resources"], &self.resource);
        let (empty_rule, empty_others) = (rule["verbs"] == json!([]), others["resources"] == json!([]));
        let rules = role["rules"].as_array_mut().into_iter();
        for rules in rules {
            if !empty_others {
                rules.push(others.clone());
            }
            if empty_rule {
                rules.remove(self.rule);
            }
        }
        role
    }

    fn with(&self) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": self.role.types.as_ref().map(|types| types.kind.clone()),
            "metadata": {"name": self.role.name_any(), "namespace": self.role.namespace()},
            "rules": self.role.data["rules"],
        })
    }
}

async fn apply(stage: &Stage, role: &Value) -> Result<()> {
    manifests::apply(&stage.client, &serde_json::to_string(role)?).await.map(drop)
}

/// Does everything that makes an aggregator use each of its rights.
async fn provoke(stage: &Stage, actor: &Actor, round: usize) -> Result<()> {
    let number = i32::try_from(round)? + 4;
    let base = stage.edit("base", number).await?;
    actor.report(&base, 1_000, "").await?;
    let said = stage.edit("said", number).await?;
    let generation = said.metadata.generation.unwrap_or_default();
    actor.report(&said, generation, "kv: no answer").await?;
    let tenants: Api<NamespacedExecutor> = Api::namespaced(stage.client.clone(), "default");
    let patch = Patch::Merge(json!({"spec": {"concurrency": number}}));
    let tenant = tenants.patch("tenant", &PatchParams::default(), &patch).await?;
    actor.report_on_tenant(&tenant, 1_000).await?;
    stage.leftover(&format!("leftover-{round}")).await
}

#[tokio::test]
async fn each_right_that_is_taken_away_is_named() -> Result<()> {
    let mut settings = no_replicas();
    settings.aggregator_args.push("--sweep-grace=1s".to_owned());
    let stage = Stage::start(settings).await?;
    let actor = stage.act("a").await?;
    stage.create("base").await?;
    stage.create("said").await?;
    let tenant = json!({
        "apiVersion": "config.ratify.dev/v2alpha1", "kind": "NamespacedExecutor",
        "metadata": {"name": "tenant", "namespace": "default"}, "spec": spec("tenant.example.com"),
    });
    let tenants: Api<NamespacedExecutor> = Api::namespaced(stage.client.clone(), "default");
    tenants.create(&PostParams::default(), &serde_json::from_value(tenant)?).await?;
    stage.installation.ready().await?;

    let rights = rights()?;
    ensure!(rights.len() > 15, "{} rights", rights.len());
    for (round, right) in rights.iter().enumerate() {
        apply(&stage, &right.without()).await?;
        let leases: Api<Lease> = Api::namespaced(stage.client.clone(), NAMESPACE);
        let before = stage.aggregator()?;
        stage.installation.kubelet.crash(&before).await?;
        leases.delete("muster-aggregator", &DeleteParams::default()).await.ok();
        provoke(&stage, &actor, round).await?;
        let wanted = format!("{} {}", right.verb, right.resource);
        wait::within(wait::scaled(Duration::from_secs(45)), format!("{wanted} to be missed"), || async {
            let named = named(&stage).await?;
            ensure!(named.contains(&wanted), "named: {named:?}");
            ensure!(named.len() == 1, "more was named: {named:?}");
            Ok::<_, anyhow::Error>(())
        })
        .await
        .with_context(|| format!("{right:?}"))?;
        apply(&stage, &right.with()).await?;
    }
    stage.stop().await;
    Ok(())
}

/// The rights that the aggregator says it lacks.
async fn named(stage: &Stage) -> Result<BTreeSet<String>> {
    let pod = stage.aggregator()?;
    let text = pod.log_text()? + &get(&pod, "/readyz?verbose").await.unwrap_or_default();
    Ok(text
        .split(PHRASE)
        .skip(1)
        .map(|rest| rest.split([' ', ';', '"', '\n']).take(2).collect::<Vec<_>>().join(" "))
        .collect())
}
