//! The only place that changes something in the cluster, and the only one that reads single objects.
//!
//! A status goes out as a PUT of `/status` with resourceVersion and UID: the one form that cannot overwrite what it has not
//! read. Without a resourceVersion the API server refuses it, and our role grants no other form (`update`, not `patch`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::core::{PartialObjectMeta, Request};
use kube::{Api, Client, Resource, ResourceExt as _};
use muster_api::{ExecutorKind, ExecutorLike, ExecutorPodStatus, ExecutorStatus, GROUP, NamespacedExecutor, VERSION};
use muster_core::retry::Retry;
use muster_runtime::kube_error::{Verdict, classify};
use serde::{Deserialize, Serialize};

use crate::facts::{Executor, Name, Version};
use crate::observe;

/// Speaks to the API server as one field manager.
#[derive(Clone)]
pub struct Actor {
    client: Client,
    namespace: String,
    manager: String,
}

/// A status to be written.
#[derive(Clone, Debug)]
pub struct Put {
    /// The executor, as the status was folded for it: its version and UID guard the write.
    pub executor: Executor,
    /// The status.
    pub status: Arc<ExecutorStatus>,
}

/// A status was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The object's version now.
    pub version: Version,
    /// The API server did not store everything: its definition of the kind is older than this program.
    pub pruned: bool,
}

/// An executor as a read shows it.
#[derive(Clone, Debug)]
pub struct Read {
    /// The executor.
    pub executor: Executor,
    /// Field managers other than ours that own something in its status.
    pub foreign_managers: Vec<String>,
}

/// The spec is not sent: on `/status` the API server keeps its own.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: String,
    kind: &'static str,
    metadata: ObjectMeta,
    status: &'a ExecutorStatus,
}

#[derive(Deserialize)]
struct Answer {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Option<ExecutorStatus>,
}

impl Actor {
    /// Acts through `client` as the aggregator of `namespace`.
    pub fn new(client: Client, namespace: &str, manager: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), manager: manager.to_owned() }
    }

    /// Writes a status.
    pub async fn put_status(&self, put: &Put) -> Result<Written, Verdict> {
        let Put { executor, status } = put;
        let body = Body {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: executor.kind.as_str(),
            metadata: ObjectMeta {
                name: Some(executor.name.to_string()),
                namespace: Some(executor.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
                uid: Some(executor.uid.to_string()),
                resource_version: Some(executor.version.as_str().to_owned()),
                ..ObjectMeta::default()
            },
            status,
        };
        let body = serde_json::to_vec(&body).map_err(|error| classify(&kube::Error::SerdeError(error)))?;
        let params = PostParams { field_manager: Some(self.manager.clone()), ..PostParams::default() };
        let request = Request::new(url_path(executor)).replace_subresource("status", &executor.name, &params, body);
        let request = request.map_err(|error| classify(&kube::Error::BuildRequest(error)))?;
        let answer: Answer = self.client.request(request).await.map_err(|error| classify(&error))?;
        let version = answer.metadata.resource_version.as_deref().unwrap_or(executor.version.as_str());
        Ok(Written { version: Version::new(version), pruned: answer.status.as_ref() != Some(status) })
    }

    /// Reads an executor; `None` if it is gone, or another object has its name now.
    pub async fn read(&self, executor: &Executor) -> Result<Option<Read>, Verdict> {
        match executor.kind {
            ExecutorKind::Executor => {
                self.read_from(Api::<muster_api::Executor>::all(self.client.clone()), executor).await
            }
            ExecutorKind::NamespacedExecutor => {
                let api = Api::<NamespacedExecutor>::namespaced(self.client.clone(), &executor.namespace);
                self.read_from(api, executor).await
            }
        }
    }

    async fn read_from<K: ExecutorLike>(&self, api: Api<K>, executor: &Executor) -> Result<Option<Read>, Verdict> {
        let object = match api.get(&executor.name).await {
            Ok(object) => object,
            Err(error) => {
                let verdict = classify(&error);
                return if verdict.retry == Retry::NotFound { Ok(None) } else { Err(verdict) };
            }
        };
        let managers = object.managed_fields().iter().filter(|entry| entry.subresource.as_deref() == Some("status"));
        let foreign_managers =
            managers.filter_map(|entry| entry.manager.clone()).filter(|manager| *manager != self.manager).collect();
        let read = observe::executor(&object).map(|executor| Read { executor, foreign_managers });
        Ok(read.filter(|read| read.executor.uid == executor.uid))
    }

    /// True if the executor of that name is still the one of this UID.
    pub async fn executor_exists(&self, name: &Name, uid: &str) -> Result<bool, Verdict> {
        match name.kind {
            ExecutorKind::Executor => {
                uid_of(Api::<PartialObjectMeta<muster_api::Executor>>::all(self.client.clone()), &name.name).await
            }
            ExecutorKind::NamespacedExecutor => {
                let api =
                    Api::<PartialObjectMeta<NamespacedExecutor>>::namespaced(self.client.clone(), &name.namespace);
                uid_of(api, &name.name).await
            }
        }
        .map(|found| found.as_deref() == Some(uid))
    }

    /// UID of a pod in our namespace, whatever its labels; `None` if there is no such pod.
    pub async fn pod_uid(&self, name: &str) -> Result<Option<String>, Verdict> {
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &self.namespace);
        uid_of(api, name).await
    }

    /// Deletes a report, if it is still the object of this UID. One that is gone already is no error.
    pub async fn delete_report(&self, name: &str, uid: &str) -> Result<(), Verdict> {
        let api: Api<ExecutorPodStatus> = Api::namespaced(self.client.clone(), &self.namespace);
        let guard = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(guard), ..DeleteParams::default() };
        match api.delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let verdict = classify(&error);
                if matches!(verdict.retry, Retry::NotFound | Retry::Conflict) { Ok(()) } else { Err(verdict) }
            }
        }
    }

    /// Sends an Event.
    pub async fn publish(&self, event: &Event) -> Result<(), Verdict> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or(&self.namespace);
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let params = PostParams { field_manager: Some(self.manager.clone()), ..PostParams::default() };
        api.create(&params, event).await.map(drop).map_err(|error| classify(&error))
    }
}

async fn uid_of<K>(api: Api<PartialObjectMeta<K>>, name: &str) -> Result<Option<String>, Verdict>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug,
{
    match api.get(name).await {
        Ok(object) => Ok(object.metadata.uid),
        Err(error) => {
            let verdict = classify(&error);
            if verdict.retry == Retry::NotFound { Ok(None) } else { Err(verdict) }
        }
    }
}

fn url_path(executor: &Executor) -> String {
    match executor.kind {
        ExecutorKind::Executor => muster_api::Executor::url_path(&(), None),
        ExecutorKind::NamespacedExecutor => NamespacedExecutor::url_path(&(), Some(&executor.namespace)),
    }
}
