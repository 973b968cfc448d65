//! Least privilege: each rule that we ship is explained, and none is wider than it says.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use muster_lab::tools::repository;
use serde_json::Value;

use crate::tools::{normalised, render, text};

/// The strings of a list.
fn words(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[tokio::test]
async fn every_rule_is_explained_and_none_is_wide() -> Result<()> {
    let page = fs::read_to_string(repository().join("docs/rights.md"))?;
    let rows: BTreeSet<_> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let objects = normalised(render(&["--set=reconciler.readableSecrets={a}"]).await?)?;
    let mut rules = 0;
    for (name, role) in objects.iter().filter(|(name, _)| name.starts_with("Role ") || name.starts_with("ClusterRole "))
    {
        for rule in role["rules"].as_array().context("no rules")? {
            rules += 1;
            let all: Vec<_> = ["apiGroups", "resources", "verbs"].iter().flat_map(|list| words(&rule[*list])).collect();
            ensure!(!all.contains(&"*"), "{name}: a wildcard in {rule}");
            let core: Vec<_> = words(&rule["resources"]).collect();
            ensure!(
                !name.starts_with("Cluster") || !core.iter().any(|one| ["secrets", "pods"].contains(one)),
                "{rule}"
            );
            ensure!(!core.contains(&"secrets") || rule["resourceNames"] == serde_json::json!(["a"]), "{rule}");
            let resources = core.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
            let verbs = words(&rule["verbs"]).collect::<Vec<_>>().join(", ");
            let explained = rows.iter().any(|row| {
                let short = |cell: &str| cell.trim().replace(" by name", "").replace(" (`events.k8s.io`)", "");
                let cells: Vec<_> = row.split('|').map(short).collect();
                cells.contains(&resources) && cells.contains(&verbs)
            });
            ensure!(explained, "docs/rights.md has no row for {name}: {resources} | {verbs}");
        }
    }
    ensure!(rules >= 10, "{rules} rules");
    Ok(())
}

#[tokio::test]
async fn no_secret_is_readable_by_default_and_accounts_are_apart() -> Result<()> {
    let objects = normalised(render(&[]).await?)?;
    let readable: Vec<_> =
        objects.iter().filter(|(_, object)| object["rules"].to_string().contains("secrets")).collect();
    ensure!(readable.is_empty(), "{readable:?}");
    let accounts: BTreeSet<_> = objects
        .values()
        .map(|object| text(object, "/spec/template/spec/serviceAccountName"))
        .filter(|name| !name.is_empty())
        .collect();
    ensure!(accounts == BTreeSet::from(["muster-aggregator", "muster-reconciler"]), "{accounts:?}");
    Ok(())
}
