//! The only place from which a replica speaks to the API server on its own: reads an executor, applies or deletes its own
//! object. Nothing is decided here; every error is classed and handed back.

use std::sync::Arc;

use kube::api::{DeleteParams, GetParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::core::Request;
use kube::{Api, Client, Resource};
use muster_api::{Executor, ExecutorKind, ExecutorPodStatus, ExecutorRef, ExecutorSpec, NamespacedExecutor, PodReport};
use muster_core::retry::Retry;
use muster_executor::{CompileOptions, Compiled, claimed_scopes, compile};
use muster_runtime::client::RECONCILER_MANAGER;
use muster_runtime::kube_error::{Verdict, classify};
use serde::Deserialize;

use crate::identity::Identity;
use crate::own;
use crate::subject::{Failure, Loaded, Own};

/// A spec that was read, with what it compiled to, if it did.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// What the decisions need to know.
    pub loaded: Loaded,
    /// What the build needs.
    pub compiled: Option<Arc<Compiled>>,
}

/// Reads executors.
#[derive(Clone)]
pub struct Reader {
    client: Client,
    options: CompileOptions,
}

/// Writes the own objects of this pod.
#[derive(Clone)]
pub struct Writer {
    api: Api<ExecutorPodStatus>,
    identity: Identity,
}

/// Only what is needed of an executor: its status can be half a megabyte.
#[derive(Debug, Deserialize)]
struct Document {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<serde_json::Value>,
}

impl Reader {
    /// Reads through `client`, compiles with `options` (tenancy is set by kind).
    pub const fn new(client: Client, options: CompileOptions) -> Self {
        Self { client, options }
    }

    /// Reads one executor and compiles it. `None` if the object is not there, is another one of that name, or is going.
    ///
    /// What is not older than `version`, the resource version of the news that led here, will do: the API server then
    /// answers from memory. Otherwise an edit would be one read of the whole object from etcd for each replica.
    pub async fn fetch(&self, executor: &ExecutorRef, version: Option<String>) -> Result<Option<Fetched>, Verdict> {
        let invalid = |error| classify(&kube::Error::BuildRequest(error));
        let params = GetParams { resource_version: version };
        let request = Request::new(url_path(executor)).get(&executor.name, &params).map_err(invalid)?;
        let document: Document = match self.client.request(request).await.map_err(|error| classify(&error)) {
            Ok(document) => document,
            Err(verdict) if verdict.retry == Retry::NotFound => return Ok(None),
            Err(verdict) => return Err(verdict),
        };
        let metadata = &document.metadata;
        if metadata.uid.as_deref() != Some(&executor.uid) || metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        Ok(Some(self.compile(executor.kind, document)))
    }

    fn compile(&self, kind: ExecutorKind, document: Document) -> Fetched {
        let generation = document.metadata.generation.unwrap_or(0);
        let decoded = serde_json::from_value::<ExecutorSpec>(document.spec.unwrap_or_default());
        let options = CompileOptions { tenant: kind == ExecutorKind::NamespacedExecutor, ..self.options.clone() };
        let (claims, result) = match decoded {
            Ok(spec) => {
                let compiled = compile(&spec, &options);
                let failure = |error| Failure::new(muster_executor::CompileError::reason(&error), error.to_string());
                (claimed_scopes(&spec), compiled.map_err(failure))
            }
            // The definition lets only what can be decoded pass, unless it is newer than this program.
            Err(error) => (
                Vec::new(),
                Err(Failure::new(muster_api::Reason::InvalidSpec, format!("spec cannot be read: {error}"))),
            ),
        };
        let (compiled, refresh) = match result {
            Ok(compiled) => {
                let interval = compiled.refresh_interval.filter(|_| compiled.trust_requests().next().is_some());
                (Some(Arc::new(compiled)), Ok(interval))
            }
            Err(failure) => (None, Err(failure)),
        };
        Fetched { loaded: Loaded { generation, claims, compiled: refresh }, compiled }
    }
}

impl Writer {
    /// Writes the objects of this pod, in its namespace.
    pub fn new(client: Client, identity: Identity) -> Self {
        Self { api: Api::namespaced(client, &identity.namespace), identity }
    }

    /// Applies the whole object. The manager's name is the same for every replica and version, and force takes over what
    /// others wrote into our fields.
    pub async fn apply(&self, executor: &ExecutorRef, report: &PodReport) -> Result<Own, Verdict> {
        let object = own::object(&self.identity, executor, report);
        let name = own::name(&self.identity, executor);
        let params = PatchParams::apply(RECONCILER_MANAGER).force();
        let written = self.api.patch(&name, &params, &Patch::Apply(&object)).await;
        written.map(|object| own::read(&self.identity, &object).1).map_err(|error| classify(&error))
    }

    /// Deletes the object of that name, but not another one that has taken the name since.
    pub async fn delete(&self, name: &str, uid: &str) -> Result<(), Verdict> {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        self.api.delete(name, &params).await.map(drop).map_err(|error| classify(&error))
    }
}

/// Path of the collection that an executor is in.
pub(crate) fn url_path(executor: &ExecutorRef) -> String {
    match executor.kind {
        ExecutorKind::Executor => Executor::url_path(&(), None),
        ExecutorKind::NamespacedExecutor => NamespacedExecutor::url_path(&(), Some(&executor.namespace)),
    }
}
