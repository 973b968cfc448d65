//! The rights that we ship, one by one, so that a test can take each away and hear it missed.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::installation::deploy;
use crate::manifests;

/// What stands before the missing right in logs and readiness.
const PHRASE: &str = "RBAC does not allow to ";

/// One verb of one rule of one role.
#[derive(Clone, Debug)]
pub struct Right {
    role: DynamicObject,
    rule: usize,
    /// The verb.
    pub verb: String,
    /// The resource, with its subresource.
    pub resource: String,
}

/// Every verb of every rule on every resource in the manifests of a component.
pub fn rights(component: &str) -> Result<Vec<Right>> {
    let objects = manifests::read(&deploy("kustomize/base").join(component))?;
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
    /// Takes it away.
    pub async fn take(&self, client: &Client) -> Result<()> {
        apply(client, &self.without()).await
    }

    /// Gives it back.
    pub async fn give_back(&self, client: &Client) -> Result<()> {
        apply(client, &self.with()).await
    }

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

async fn apply(client: &Client, role: &Value) -> Result<()> {
    manifests::apply(client, &serde_json::to_string(role)?).await.map(drop)
}

/// The rights that a text of ours says are lacking.
pub fn named(text: &str) -> BTreeSet<String> {
    let right = |rest: &str| rest.split([' ', ';', '"', '\n']).take(2).collect::<Vec<_>>().join(" ");
    text.split(PHRASE).skip(1).map(right).collect()
}
