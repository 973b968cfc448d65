//! The demo's table: who runs which executor at which generation, who is broken and why. Data in, text out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use comfy_table::{Table, TableStyle};
use muster_api::ExecutorStatus;

use super::cell::Cell;

/// One executor as the API server shows it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// `name` or `namespace/name`.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status`, once the aggregator has written it.
    pub status: Option<ExecutorStatus>,
}

/// The table and, below it, one line for each cause: equal causes of several replicas are one.
pub(super) fn render(rows: &[Row]) -> String {
    let pods = pods(rows);
    let short = shorten(&pods);
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    let mut header = vec!["NAME".to_owned(), "GEN".into(), "READY".into()];
    header.extend(pods.iter().map(|pod| short[pod].clone()));
    header.push("REASON".into());
    table.set_header(header);
    let mut causes = String::new();
    for row in rows {
        let status = row.status.clone().unwrap_or_default();
        let mut line = vec![row.name.clone(), row.generation.to_string()];
        line.push(status.replicas.as_ref().map_or_else(|| "-".to_owned(), |counts| counts.summary.clone()));
        for pod in &pods {
            let entry = status.by_pod.iter().find(|entry| entry.id == *pod);
            line.push(entry.map_or("", |entry| Cell::of(entry).word()).to_owned());
        }
        let worst = status.by_pod.iter().min_by_key(|entry| Cell::of(entry));
        let reason = match worst {
            Some(entry) if Cell::of(entry) != Cell::Ok => entry.reason.as_str(),
            Some(_) => "",
            None => "NoReplicas",
        };
        line.push(reason.to_owned());
        table.add_row(line);
        explain(&mut causes, row, &status, &short);
    }
    let ready = rows.iter().filter(|row| row.status.as_ref().is_some_and(|status| status.succeeded)).count();
    let mut text = format!("{ready} of {} executors ready on {} replicas\n\n", rows.len(), pods.len());
    for line in table.to_string().lines() {
        let _ = writeln!(text, "{}", line.trim());
    }
    if !causes.is_empty() {
        let _ = write!(text, "\n{causes}");
    }
    text
}

/// Appends `name on a, b: reason: text`, equal causes once.
fn explain(causes: &mut String, row: &Row, status: &ExecutorStatus, short: &BTreeMap<String, String>) {
    let mut groups: BTreeMap<(Cell, &str, &str), Vec<&str>> = BTreeMap::new();
    for entry in status.by_pod.iter().filter(|entry| Cell::of(entry) != Cell::Ok) {
        let replica = short.get(&entry.id).map_or(entry.id.as_str(), String::as_str);
        groups.entry((Cell::of(entry), entry.reason.as_str(), &entry.error)).or_default().push(replica);
    }
    for ((cell, reason, error), replicas) in groups {
        let whom = if replicas.len() == status.by_pod.len() && replicas.len() > 1 {
            format!("all {} replicas", replicas.len())
        } else {
            replicas.join(", ")
        };
        let _ = writeln!(causes, "{:<5} {} on {whom}: {reason}", cell.word(), row.name);
        if !error.is_empty() {
            let _ = writeln!(causes, "      {error}");
        }
    }
    for warning in &status.warnings {
        let _ = writeln!(causes, "warn  {}: {warning}", row.name);
    }
}

/// Every pod that any executor names, in order.
fn pods(rows: &[Row]) -> Vec<String> {
    let all: BTreeSet<&String> = rows
        .iter()
        .filter_map(|row| row.status.as_ref())
        .flat_map(|status| &status.by_pod)
        .map(|pod| &pod.id)
        .collect();
    all.into_iter().cloned().collect()
}

/// The part of each pod's name that tells it from the others: what follows the last `-`, or all of it where that is
/// not unique.
fn shorten(pods: &[String]) -> BTreeMap<String, String> {
    let suffix = |pod: &str| pod.rsplit('-').next().unwrap_or(pod).to_owned();
    let unique: BTreeSet<String> = pods.iter().map(|pod| suffix(pod)).collect();
    let short = |pod: &String| if unique.len() == pods.len() { suffix(pod) } else { pod.clone() };
    pods.iter().map(|pod| (pod.clone(), short(pod))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, yaml: &str) -> Row {
        let status = serde_saphyr::from_str(yaml).unwrap();
        Row { name: name.into(), generation: 2, status: Some(status) }
    }

    #[test]
    fn says_who_is_broken_and_why() {
        let rows = [
            row(
                "base",
                r"
succeeded: true
replicas: { expected: 2, reporting: 2, current: 2, succeeded: 2, stale: 0, summary: 2/2 }
byPod:
- { id: r-7d4-aaaaa, podUID: a, observedGeneration: 2, succeeded: true, state: Current, reason: Built, serves: Wanted }
- { id: r-7d4-bbbbb, podUID: b, observedGeneration: 2, succeeded: true, state: Current, reason: Built, serves: Wanted }
",
            ),
            row(
                "files",
                r"
succeeded: false
replicas: { expected: 2, reporting: 2, current: 2, succeeded: 1, stale: 0, summary: 1/2 }
byPod:
- { id: r-7d4-bbbbb, podUID: b, observedGeneration: 2, state: Current, reason: FileMissing, serves: Nothing, error: no such file }
- { id: r-7d4-aaaaa, podUID: a, observedGeneration: 2, succeeded: true, state: Current, reason: Built, serves: Wanted }
",
            ),
        ];
        let text = render(&rows);
        assert_eq!(
            text,
            "1 of 2 executors ready on 2 replicas\n\n\
             NAME   GEN  READY  aaaaa  bbbbb  REASON\n\
             base   2    2/2    ok     ok\n\
             files  2    1/2    ok     WAIT   FileMissing\n\n\
             WAIT  files on bbbbb: FileMissing\n      no such file\n"
        );
    }

    #[test]
    fn an_executor_that_nobody_folded_is_not_ready() {
        let rows = [Row { name: "new".into(), generation: 1, status: None }];
        assert!(render(&rows).starts_with("0 of 1 executors ready on 0 replicas"));
    }
}
