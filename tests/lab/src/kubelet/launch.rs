//! From a pod to the process that stands for its first container: command, arguments and environment, as the kubelet
//! computes them. Pure, apart from looking which binaries exist.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};
use kube::ResourceExt;

use crate::identity::service_account_of;

/// What a pod's process is started with. A test may change it, see [`super::Kubelet::customise`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Program as the manifest names it, then its arguments.
    pub command: Vec<String>,
    /// Environment of the manifest, in its order. Later ones win.
    pub env: Vec<(String, String)>,
    /// The pod's own address, for programs that would otherwise listen on all of this machine's.
    pub ip: Ipv4Addr,
    /// URL of the API server that its kubeconfig names: the real one, or a proxy in front of it.
    pub api_server: String,
}

/// What only the node knows about a pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) pod_ip: Ipv4Addr,
    pub(super) host_ip: Ipv4Addr,
    pub(super) node: &'a str,
}

impl Launch {
    /// What `pod` asks for.
    pub(super) fn of(pod: &Pod, place: Place<'_>, api_server: &str) -> Result<Self> {
        let container = container(pod)?;
        let mut env: Vec<(String, String)> = vec![("HOSTNAME".to_owned(), pod.name_any())];
        for variable in container.env.iter().flatten() {
            let value = value_of(variable, pod, place)?;
            let value = expand(&value, |name| lookup(&env, name));
            env.push((variable.name.clone(), value));
        }
        let command = match &container.command {
            Some(command) if !command.is_empty() => command.clone(),
            _ => vec![image_name(container)],
        };
        let command = command.iter().chain(container.args.iter().flatten());
        let command = command.map(|word| expand(word, |name| lookup(&env, name))).collect();
        Ok(Self { command, env, ip: place.pod_ip, api_server: api_server.to_owned() })
    }
}

/// The one container that is run. What the lab cannot do is refused, so that no test believes in it.
pub(super) fn container(pod: &Pod) -> Result<&Container> {
    let spec = pod.spec.as_ref().context("a pod without spec")?;
    ensure!(spec.init_containers.as_ref().is_none_or(Vec::is_empty), "the lab runs no init containers");
    let container = spec.containers.first().context("a pod without containers")?;
    ensure!(container.env_from.as_ref().is_none_or(Vec::is_empty), "the lab has no envFrom");
    Ok(container)
}

/// Where the program `name` is: an absolute path that exists is meant, otherwise the file of that name in `bin_dir`, since
/// a path in an image means nothing here.
pub(super) fn resolve(name: &str, bin_dir: &Path) -> Result<PathBuf> {
    let path = Path::new(name);
    if path.is_absolute() && path.is_file() {
        return Ok(path.to_owned());
    }
    let file = path.file_name().with_context(|| format!("not a program: {name}"))?;
    let built = bin_dir.join(file);
    ensure!(built.is_file(), "{} is not built: run `cargo build --workspace`", built.display());
    Ok(built)
}

/// Without a command, an image runs its entry point; here that is the program the image is named after.
fn image_name(container: &Container) -> String {
    let image = container.image.as_deref().unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split([':', '@']).next().unwrap_or_default().to_owned()
}

fn lookup(env: &[(String, String)], name: &str) -> Option<String> {
    env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

fn value_of(variable: &EnvVar, pod: &Pod, place: Place<'_>) -> Result<String> {
    let Some(source) = &variable.value_from else {
        return Ok(variable.value.clone().unwrap_or_default());
    };
    let Some(field) = &source.field_ref else {
        bail!("{}: the lab has only fieldRef in valueFrom", variable.name);
    };
    field_value(&field.field_path, pod, place).with_context(|| format!("{}: no such field", variable.name))
}

/// The downward API.
fn field_value(path: &str, pod: &Pod, place: Place<'_>) -> Result<String> {
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        let map: &BTreeMap<_, _> = match map {
            "metadata.labels" => pod.labels(),
            "metadata.annotations" => pod.annotations(),
            _ => bail!("{path}"),
        };
        return Ok(map.get(key).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "spec.nodeName" => place.node.to_owned(),
        "spec.serviceAccountName" => service_account_of(pod).to_owned(),
        "status.hostIP" => place.host_ip.to_string(),
        "status.podIP" | "status.podIPs" => place.pod_ip.to_string(),
        _ => bail!("{path}"),
    })
}

/// Replaces `$(NAME)` by the value of a known variable; an unknown one stays as it is, and `$$` is a plain `$`. These are
/// the rules of Kubernetes for `command`, `args` and `env`.
fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            out.push_str(&lookup(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            out.push('$');
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const PLACE: Place<'_> =
        Place { pod_ip: Ipv4Addr::new(127, 66, 1, 1), host_ip: Ipv4Addr::new(127, 66, 0, 3), node: "lab" };

    fn pod(container: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "x"}},
            "spec": {"serviceAccountName": "sa", "containers": [container]},
        }))
        .unwrap()
    }

    #[test]
    fn command_and_environment_are_expanded_in_order() {
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let launch = Launch::of(
            &pod(&json!({
                "name": "c",
                "command": ["/app/run"],
                "args": ["--address=$(POD_IP):8086", "$$(POD_IP)", "$(UNKNOWN)", "$(NODE)"],
                "env": [
                    field("POD_IP", "status.podIP"),
                    field("POD_UID", "metadata.uid"),
                    field("NODE", "spec.nodeName"),
                    field("ACCOUNT", "spec.serviceAccountName"),
                    field("APP", "metadata.labels['app']"),
                    {"name": "BOTH", "value": "$(POD_UID)@$(POD_IP) $(LATER)"},
                    {"name": "LATER", "value": "x"},
                ],
            })),
            PLACE,
            "https://a",
        )
        .unwrap();
        assert_eq!(launch.command, ["/app/run", "--address=127.66.1.1:8086", "$(POD_IP)", "$(UNKNOWN)", "lab"]);
        let expected = [
            ("HOSTNAME", "p"),
            ("POD_IP", "127.66.1.1"),
            ("POD_UID", "u"),
            ("NODE", "lab"),
            ("ACCOUNT", "sa"),
            ("APP", "x"),
            ("BOTH", "u@127.66.1.1 $(LATER)"),
            ("LATER", "x"),
        ];
        assert_eq!(launch.env, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn an_image_without_a_command_runs_the_program_of_its_name() {
        let launch = |image: &str| Launch::of(&pod(&json!({"name": "c", "image": image})), PLACE, "").unwrap().command;
        assert_eq!(launch("ghcr.io/x/muster-reconciler:v1"), ["muster-reconciler"]);
        assert_eq!(launch("localhost:5000/muster-aggregator@sha256:00"), ["muster-aggregator"]);
    }

    #[test]
    fn what_the_lab_cannot_do_is_refused() {
        let secret = json!({"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
        assert!(Launch::of(&pod(&json!({"name": "c", "env": [secret]})), PLACE, "").is_err());
        assert!(Launch::of(&pod(&json!({"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]})), PLACE, "").is_err());
        let memory = json!({"name": "M", "valueFrom": {"fieldRef": {"fieldPath": "status.qosClass"}}});
        assert!(Launch::of(&pod(&json!({"name": "c", "env": [memory]})), PLACE, "").is_err());
    }

    #[test]
    fn programs_are_found_by_name_in_the_build_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("muster-reconciler"), "").unwrap();
        let built = dir.path().join("muster-reconciler");
        assert_eq!(resolve("/muster-reconciler", dir.path()).unwrap(), built);
        assert_eq!(resolve("muster-reconciler", dir.path()).unwrap(), built);
        assert_eq!(resolve("/bin/sh", dir.path()).unwrap(), Path::new("/bin/sh"));
        assert!(resolve("muster-aggregator", dir.path()).unwrap_err().to_string().contains("cargo build"));
    }

    #[test]
    fn expansion_follows_kubernetes() {
        let expand = |text| expand(text, |name| (name == "A").then(|| "1".to_owned()));
        for (text, expected) in [
            ("$(A)$(A)", "11"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A", "$A"),
            ("$(B)", "$(B)"),
            ("$(A", "$(A"),
            ("ends in $", "ends in $"),
            ("ä$(A)ö", "ä1ö"),
        ] {
            assert_eq!(expand(text), expected, "{text}");
        }
    }
}
