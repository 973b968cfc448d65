//! One pod on the lab's node: what a test can see of it and do to it.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use nix::sys::signal::Signal;
use tokio::sync::watch;

use crate::process::Process;

/// A pod as it was when asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Its own loopback address, for as long as the pod exists.
    pub ip: Ipv4Addr,
    /// Process number, while it runs.
    pub pid: Option<i32>,
    /// How often its container was started again in place.
    pub restarts: u32,
    /// Whether it was last found ready.
    pub ready: bool,
    /// Output and errors of its process, all runs in one file. It outlives the pod.
    pub log: PathBuf,
}

impl PodView {
    /// Everything its process wrote so far.
    pub fn log_text(&self) -> Result<String> {
        let bytes = std::fs::read(&self.log).with_context(|| format!("cannot read {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A pod and its process, shared between its worker and the test.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) ip: Ipv4Addr,
    pub(super) log: PathBuf,
    /// Files that its process reads.
    pub(super) dir: PathBuf,
    /// The pod as last seen; `None` when the object is gone.
    seen: watch::Sender<Option<Arc<Pod>>>,
    live: Mutex<Live>,
}

/// What changes during its life.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) process: Option<Process>,
    pub(super) restarts: u32,
    pub(super) ready: bool,
}

impl Slot {
    pub(super) fn new(pod: Pod, ip: Ipv4Addr, log: PathBuf, dir: PathBuf) -> Self {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let uid = pod.uid().unwrap_or_default();
        let (seen, _) = watch::channel(Some(Arc::new(pod)));
        Self { namespace, name, uid, ip, log, dir, seen, live: Mutex::default() }
    }

    pub(super) fn saw(&self, pod: Option<Pod>) {
        self.seen.send_replace(pod.map(Arc::new));
    }

    pub(super) fn watch(&self) -> watch::Receiver<Option<Arc<Pod>>> {
        self.seen.subscribe()
    }

    pub(super) fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals the running process; false if there is none.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        self.live().process.as_ref().is_some_and(|process| process.signal(signal))
    }

    pub(super) fn view(&self) -> PodView {
        let live = self.live();
        PodView {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            ip: self.ip,
            pid: live.process.as_ref().filter(|process| process.ended().is_none()).map(Process::pid),
            restarts: live.restarts,
            ready: live.ready,
            log: self.log.clone(),
        }
    }
}
