//! Secrets of the release's namespace that specs name: read when a build needs them, watched so that a change acts at
//! once.
//!
//! Each name has a watch of its own, because that is all that rights by name allow. What counts as a change is the data,
//! never a label or an annotation (C21). A watch that fails costs only time: every refresh reads the Secret anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use muster_core::backoff::Backoff;
use muster_core::heartbeat::LoopId;
use muster_core::retry::Retry;
use muster_executor::Compiled;
use muster_executor::compile::{FerrVaultToken, Provider};
use muster_executor::trust::{SecretData, SecretError, SecretReader};
use muster_runtime::clock::Clock;
use muster_runtime::heartbeat::Heartbeat;
use muster_runtime::kube_error::{classify, classify_watch};
use muster_runtime::rng::Rng;
use muster_runtime::watch::Signs;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::inbox::Sender;
use crate::replica::Event as News;
use crate::subject::Uid;

/// Most Secrets that are watched, each by a request of its own. Further ones are read when their executors refresh.
const WATCHES_MAX: usize = 64;

/// Reads Secrets of one namespace.
#[derive(Clone)]
pub struct Reader {
    api: Api<Secret>,
    deadline: Duration,
}

/// Watches the Secrets that executors use. Clones are the same.
#[derive(Clone)]
pub struct Watches(Arc<Inner>);

struct Inner {
    client: Client,
    namespace: String,
    watch_seconds: u32,
    heartbeat: Heartbeat,
    clock: Clock,
    rng: Rng,
    inbox: Sender,
    used: Mutex<BTreeMap<String, Used>>,
}

struct Used {
    by: BTreeSet<Uid>,
    _watch: Option<DropGuard>,
}

impl Reader {
    /// Reads in `namespace`, each Secret within `deadline`.
    pub fn new(client: Client, namespace: &str, deadline: Duration) -> Self {
        Self { api: Api::namespaced(client, namespace), deadline }
    }

    async fn get(&self, name: &str) -> Result<Option<SecretData>, SecretError> {
        match tokio::time::timeout(self.deadline, self.api.get_opt(name)).await {
            Ok(Ok(secret)) => Ok(secret.map(|secret| {
                secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
            })),
            Ok(Err(error)) => {
                let verdict = classify(&error);
                tracing::info!(secret = name, category = verdict.category(), error = %verdict, "cannot read a Secret");
                match verdict.retry {
                    Retry::Forbidden | Retry::Denied => Err(SecretError::Forbidden),
                    _ => Err(SecretError::Unreachable),
                }
            }
            Err(_elapsed) => Err(SecretError::Unreachable),
        }
    }
}

impl SecretReader for Reader {
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<SecretData>, SecretError>> {
        self.get(name).boxed()
    }
}

impl Watches {
    /// Watches in `namespace` and tells `inbox`; every watch asks to last for `watch_timeout`, as those of executors do, and
    /// owes signs of life to the loop `watch-secrets`: the stall threshold is held against that same time.
    pub fn new(
        client: Client,
        namespace: &str,
        watch_timeout: Duration,
        heartbeat: Heartbeat,
        clock: Clock,
        rng: Rng,
        inbox: Sender,
    ) -> Self {
        let namespace = namespace.to_owned();
        let watch_seconds = u32::try_from(watch_timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        Self(Arc::new(Inner { client, namespace, watch_seconds, heartbeat, clock, rng, inbox, used: Mutex::default() }))
    }

    /// From now on this executor uses the Secrets that its spec names, and no others; none at all if it is gone or wrong.
    pub fn uses(&self, uid: &Uid, compiled: Option<&Compiled>) {
        let names = compiled.map(names).unwrap_or_default();
        let mut used = self.used();
        used.retain(|name, used| names.contains(name) || !(used.by.remove(uid) && used.by.is_empty()));
        for name in names {
            let room = used.len() < WATCHES_MAX;
            let used = used.entry(name).or_insert_with_key(|name| Used {
                by: BTreeSet::new(),
                _watch: room.then(|| self.begin(name.clone())),
            });
            used.by.insert(uid.clone());
        }
    }

    fn begin(&self, name: String) -> DropGuard {
        let stop = CancellationToken::new();
        let (watches, stopped) = (self.clone(), stop.clone());
        tokio::spawn(async move { stopped.run_until_cancelled(watches.watch(name)).await });
        stop.drop_guard()
    }

    async fn watch(self, name: String) {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}")).timeout(self.0.watch_seconds);
        let beat = self.0.heartbeat.of(LoopId::WATCH_SECRETS);
        let signs = Signs::new(beat.clone(), "watch of a Secret");
        let api = Api::<Secret>::namespaced(signs.of_requests(self.0.client.clone()), &self.0.namespace);
        let mut events = watcher::watcher(api, config).boxed();
        let (mut waits, mut rng) = (Backoff::default(), self.0.rng.clone());
        let (mut known, mut listed) = (None, None);
        loop {
            beat.faults().await;
            let Some(event) = events.next().await else { return };
            signs.seen();
            let seen = match event {
                Ok(Event::Init) => {
                    listed = None;
                    continue;
                }
                Ok(Event::InitApply(secret)) => {
                    listed = Some(digest(&secret));
                    continue;
                }
                Ok(Event::InitDone) => listed,
                Ok(Event::Apply(secret)) => Some(digest(&secret)),
                Ok(Event::Delete(_)) => None,
                Err(error) => {
                    let verdict = classify_watch(&error);
                    let until = waits.failed((), self.0.clock.now(), None, &mut rng);
                    signs.failed(until);
                    tracing::info!(secret = name, category = verdict.category(), error = %verdict, "cannot watch a Secret, trying again");
                    self.0.clock.sleep_until(until).await;
                    continue;
                }
            };
            waits.forget(&());
            if known.replace(seen).is_some_and(|before| before != seen) {
                tracing::info!(secret = name, "a Secret has changed");
                let users = self.used().get(&name).map(|used| used.by.clone()).unwrap_or_default();
                for uid in users {
                    self.0.inbox.tell(News::SecretChanged { uid }).await;
                }
            }
        }
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<String, Used>> {
        // No holder leaves the map half changed.
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The Secrets that a spec names.
fn names(compiled: &Compiled) -> BTreeSet<String> {
    let name = |provider: &Provider| match provider {
        Provider::KubernetesSecret(secret) => Some(secret.name.clone()),
        Provider::FerrVault(vault) => match &vault.token {
            FerrVaultToken::Secret { name, .. } => Some(name.clone()),
            FerrVaultToken::Oidc { .. } => None,
        },
        Provider::Inline(_) | Provider::Files(_) | Provider::AzureKeyVault(_) => None,
    };
    compiled.trust_requests().filter_map(|request| name(&request.provider)).collect()
}

/// Tells whether a Secret's data changed; labels and the like do not count.
fn digest(secret: &Secret) -> [u8; 32] {
    let mut hash = Sha256::new();
    for (key, value) in secret.data.iter().flatten() {
        // A key cannot hold it, so keys and values cannot run into each other.
        hash.update(key);
        hash.update([0]);
        hash.update(Sha256::digest(&value.0));
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
