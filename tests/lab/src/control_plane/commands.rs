//! The servers' command lines. Each flag is there for a reason; what is a default of Kubernetes is left alone, since the
//! answers of an ordinary API server are what the tests are about.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use muster_toolbox::{Tool, find};

use super::credentials::{Auth, Credentials, User, kubeconfig, write};
use super::options::Options;
use crate::net::{API_SERVER_PORT, ETCD_PORTS, Net};
use crate::node::{EnterNamespaces, NODE_IP, Namespaces};
use crate::process::Program;

/// When Go collects garbage: once the heap has grown by so many percent. A server that lives for seconds has a small heap,
/// and with Go's own 100 it spends a fifth of its time on it, which one with a large heap does not.
const COLLECT_AT: &str = "300";

/// Who did what, without bodies. One line per request: when it was answered, or for a watch when its answer began.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: ['system:apiserver']}
- {level: Metadata}
";

/// Files of one control plane.
pub(super) struct Layout<'a> {
    pub(super) root: &'a Path,
    pub(super) logs: &'a Path,
    pub(super) audit_log: &'a Path,
    pub(super) inside: Option<&'a Namespaces>,
}

impl Layout<'_> {
    fn program(&self, tool: Tool, args: Vec<String>) -> Result<Program> {
        let log = self.logs.join(format!("{}.log", tool.name()));
        let env = vec![("GOGC".to_owned(), COLLECT_AT.to_owned())];
        let program = Program { path: locate(tool)?, args, env, log };
        match self.inside {
            Some(inside) => inside.inside(EnterNamespaces::Network, program),
            None => Ok(program),
        }
    }
}

/// Path of a tool, or how to get it.
pub(crate) fn locate(tool: Tool) -> Result<PathBuf> {
    let missing = || format!("{} {} is not here: run `cargo xtask tools`", tool.name(), tool.version());
    find(tool).map(|found| found.path).with_context(missing)
}

pub(super) fn etcd(layout: &Layout<'_>, net: &Net) -> Result<Program> {
    let (clients, peers) = ETCD_PORTS;
    let (clients, peers) = (format!("http://{}:{clients}", net.etcd()), format!("http://{}:{peers}", net.etcd()));
    let args = vec![
        flag("data-dir", layout.root.join("etcd").display()),
        flag("listen-client-urls", &clients),
        flag("advertise-client-urls", &clients),
        flag("listen-peer-urls", &peers),
        flag("initial-advertise-peer-urls", &peers),
        flag("initial-cluster", format!("default={peers}")),
        flag("unsafe-no-fsync", true), // the data need not outlive the machine
        flag("log-level", "warn"),
    ];
    layout.program(Tool::Etcd, args)
}

pub(super) fn api_server(
    layout: &Layout<'_>,
    net: &Net,
    credentials: &Credentials,
    options: &Options,
) -> Result<Program> {
    let policy = layout.root.join("audit-policy.yaml");
    write(&policy, AUDIT_POLICY)?;
    let ip = net.api_server().ip();
    let mut args = vec![
        flag("etcd-servers", format!("http://{}:{}", net.etcd(), ETCD_PORTS.0)),
        flag("secure-port", API_SERVER_PORT),
        flag("tls-cert-file", credentials.server_certificate().display()),
        flag("tls-private-key-file", credentials.server_key().display()),
        flag("token-auth-file", credentials.tokens_file().display()),
        flag("authorization-mode", "Node,RBAC"),
        flag("service-account-key-file", credentials.service_account_public_key().display()),
        flag("service-account-signing-key-file", credentials.service_account_key().display()),
        flag("service-account-issuer", "https://kubernetes.default.svc"),
        flag("service-cluster-ip-range", "10.96.0.0/16"),
        flag("audit-policy-file", policy.display()),
        flag("audit-log-path", layout.audit_log.display()),
        flag("profiling", false),
    ];
    if options.inside.is_some() {
        args.extend([
            flag("bind-address", "0.0.0.0"),
            flag("advertise-address", NODE_IP), // where pods find it
            flag("allow-privileged", true),
            flag("kubelet-preferred-address-types", "InternalIP"), // nobody knows the node's name
        ]);
    } else {
        args.extend([
            flag("bind-address", ip),
            flag("advertise-address", ip), // otherwise a machine without a network cannot start it
            flag("endpoint-reconciler-type", "none"), // it refuses to publish a loopback address
        ]);
    }
    args.extend(options.api_server_flags.iter().cloned());
    layout.program(Tool::KubeApiserver, args)
}

pub(super) fn controller_manager(
    layout: &Layout<'_>,
    url: &str,
    credentials: &Credentials,
    controllers: String,
) -> Result<Program> {
    let config = layout.root.join("controller-manager.kubeconfig");
    let auth = Auth::Token(credentials.token(User::ControllerManager));
    write(&config, &kubeconfig(url, None, &credentials.ca_file(), auth))?;
    let args = vec![
        flag("kubeconfig", config.display()),
        flag("controllers", controllers),
        flag("service-account-private-key-file", credentials.service_account_key().display()),
        flag("use-service-account-credentials", true),
        flag("root-ca-file", credentials.ca_file().display()),
        flag("leader-elect", false),
        flag("secure-port", 0),    // nobody scrapes it, and it would need a port of its own
        flag("kube-api-qps", 500), // tests are impatient; the default is 20
        flag("kube-api-burst", 1_000),
    ];
    layout.program(Tool::KubeControllerManager, args)
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}
