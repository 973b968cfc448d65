//! A real control plane on loopback: etcd, kube-apiserver and kube-controller-manager, ready in seconds.
//!
//! ```no_run
//! # use muster_lab::control_plane::{ControlPlane, Options};
//! # async fn example() -> anyhow::Result<()> {
//! let plane = ControlPlane::start(Options::default()).await?;
//! let client = plane.client()?;
//! // … the test …
//! plane.stop().await;
//! # Ok(()) }
//! ```
//!
//! Any number run side by side, also in one process. `stop` is the test's word that all went well, and removes every
//! trace; a control plane that is dropped without it (a panic, an early return) leaves its logs behind and says where.

mod commands;
mod component;
mod credentials;
mod options;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Config};

use crate::audit::Audit;
use crate::net::Net;
use crate::node::{Forward, forward};
use crate::workdir::Workdir;
use crate::{manifests, wait};
use commands::Layout;
use credentials::Credentials;

pub(crate) use commands::locate;
pub use component::Component;
pub(crate) use credentials::{Auth, User, kubeconfig, write};
pub use options::{Controllers, Options};

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    controller_manager: Option<Component>,
    api_server: Component,
    etcd: Component,
    credentials: Credentials,
    url: String,
    net: Arc<Net>,
    dir: Mutex<Workdir>,
    root: PathBuf,
    ended: AtomicBool,
    /// The way to the API server, if it is in a network of its own.
    _door: Option<Forward>,
}

impl ControlPlane {
    /// Starts one, and returns when its API server is ready and `options.crds` are established.
    pub async fn start(options: Options) -> Result<Self> {
        let dir = Workdir::new()?;
        let net = Arc::new(Net::claim()?);
        let root = dir.path().to_owned();
        let logs = dir.folder("logs")?;
        let url = format!("https://{}", net.api_server());
        let credentials = Credentials::create(dir.folder("credentials")?, &net.api_server().ip().to_string())?;
        let audit_log = logs.join("audit.log");
        let inside = options.inside.as_deref();
        let layout = Layout { root: &root, logs: &logs, audit_log: &audit_log, inside };
        let address = net.api_server();
        let door = inside.map(|inside| forward(inside, address, address)).transpose()?;

        let controllers = options.controllers.flag();
        let controller_manager = controllers
            .map(|controllers| commands::controller_manager(&layout, &url, &credentials, controllers))
            .transpose()?
            .map(|program| Component::new("kube-controller-manager", program));
        let plane = Self {
            etcd: Component::new("etcd", commands::etcd(&layout, &net)?),
            api_server: Component::new("kube-apiserver", commands::api_server(&layout, &net, &credentials, &options)?),
            controller_manager,
            credentials,
            url,
            net,
            dir: Mutex::new(dir),
            root,
            ended: AtomicBool::new(false),
            _door: door,
        };
        let auth = Auth::Token(plane.credentials.token(User::Admin));
        write(&plane.kubeconfig(), &kubeconfig(&plane.url, None, &plane.ca_file(), auth))?;

        plane.etcd.start()?;
        plane.start_api_server().await?;
        manifests::apply(&plane.client()?, &options.crds.join("\n---\n")).await.context("cannot install the CRDs")?;
        if let Some(controller_manager) = &plane.controller_manager {
            controller_manager.start()?;
        }
        Ok(plane)
    }

    /// URL of the API server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kubeconfig of the administrator, for kubectl and for programs under test.
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// Certificate authority of the API server, PEM.
    pub fn ca_file(&self) -> PathBuf {
        self.credentials.ca_file()
    }

    /// Certificate of the API server, PEM: for whoever stands in front of it.
    pub(crate) fn server_certificate(&self) -> PathBuf {
        self.credentials.server_certificate()
    }

    /// Its key.
    pub(crate) fn server_key(&self) -> PathBuf {
        self.credentials.server_key()
    }

    /// The administrator's token.
    pub fn admin_token(&self) -> &str {
        self.credentials.token(User::Admin)
    }

    /// A new client with all rights. It belongs to the runtime that first uses it.
    pub fn client(&self) -> Result<Client> {
        self.client_with_token(self.admin_token())
    }

    /// A new client with `token`.
    pub fn client_with_token(&self, token: &str) -> Result<Client> {
        Client::try_from(self.config(token)?).context("cannot make a client")
    }

    /// Client configuration with `token`, to be changed further.
    pub fn config(&self, token: &str) -> Result<Config> {
        self.credentials.config(&self.url, token)
    }

    /// Who asked what of the API server so far.
    pub fn audit(&self) -> Audit {
        Audit::new(self.logs().join("audit.log"))
    }

    /// Loopback addresses of this cluster.
    pub fn net(&self) -> &Arc<Net> {
        &self.net
    }

    /// Folder of all logs.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The cluster's folder, for files that should go with it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The API server, to freeze, thaw or kill it.
    pub fn api_server(&self) -> &Component {
        &self.api_server
    }

    /// etcd.
    pub fn etcd(&self) -> &Component {
        &self.etcd
    }

    /// The controller manager, if there is one.
    pub fn controller_manager(&self) -> Option<&Component> {
        self.controller_manager.as_ref()
    }

    pub(crate) fn kubelet_token(&self) -> &str {
        self.credentials.token(User::Kubelet)
    }

    /// Starts the API server again after a kill, on the same address and data, and waits until it is ready.
    pub async fn start_api_server(&self) -> Result<()> {
        self.api_server.start()?;
        let client = self.client()?;
        wait::until("the API server to be ready", || async {
            self.etcd.check()?;
            self.api_server.check()?;
            let answer = client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
            ensure!(answer == "ok", "{answer}");
            Ok(())
        })
        .await
    }

    /// Creates a namespace, and returns when pods can be created in it.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        let client = self.client()?;
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .context("cannot create a namespace")?;
        self.default_service_account(name).await
    }

    /// Waits for the service account without which a namespace takes no pods.
    pub async fn default_service_account(&self, namespace: &str) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client()?, namespace);
        let what = format!("the default service account of {namespace}");
        wait::until(what, || accounts.get("default")).await.map(drop)
    }

    /// Ends it after a success: all processes killed, all files removed.
    pub async fn stop(self) {
        for component in self.components() {
            component.kill().await;
        }
        self.end(true);
    }

    /// Those that talk to others come before those they talk to, so that none complains in its log.
    fn components(&self) -> impl Iterator<Item = &Component> {
        self.controller_manager.iter().chain([&self.api_server, &self.etcd])
    }

    /// Kills everything once, and keeps the files unless `succeeded`.
    fn end(&self, succeeded: bool) {
        if self.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        for component in self.components() {
            component.kill_blocking();
        }
        self.net.release();
        let _ = std::fs::remove_dir_all(self.root.join("etcd")); // large, and nothing a person would read
        let mut dir = self.dir.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = dir.finish(succeeded) {
            tell_kept(kept);
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.end(false);
    }
}

#[expect(clippy::print_stderr, reason = "shown with the failed test; there is nobody else to tell")]
fn tell_kept(folder: &Path) {
    eprintln!("logs of the test cluster: {}", folder.join("logs").display());
}
