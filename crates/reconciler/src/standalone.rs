//! One process without a pod, `--standalone`: it writes its own outcome into the executor's status, as the only writer.
//!
//! The write is a PUT of `/status` with resourceVersion and UID, the one form that cannot overwrite what it has not read.
//! It is for a machine outside the cluster; several of these, or one beside an aggregator, would overwrite each other.

use kube::Client;
use kube::api::{GetParams, ObjectMeta, PostParams};
use kube::core::Request;
use muster_api::{ExecutorRef, ExecutorStatus, GROUP, PodReport, VERSION};
use muster_core::retry::Retry;
use muster_runtime::client::RECONCILER_MANAGER;
use muster_runtime::kube_error::{Verdict, classify};
use serde::{Deserialize, Serialize};

use crate::act::url_path;
use crate::subject::Own;

/// How often one write reads again at once after a conflict. Somebody who changes the object faster than that is met
/// with the object's backoff.
const ATTEMPTS: u32 = 8;

/// Writes outcomes into the status of executors.
#[derive(Clone)]
pub struct Writer {
    client: Client,
}

#[derive(Debug, Deserialize)]
struct Current {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Option<ExecutorStatus>,
}

/// The spec is not sent: on `/status` the API server keeps its own.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Replacement<'a> {
    api_version: String,
    kind: &'static str,
    metadata: ObjectMeta,
    status: &'a ExecutorStatus,
}

impl Writer {
    /// Writes through `client`.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Writes the outcome unless it is there already.
    pub async fn write(&self, executor: &ExecutorRef, report: &PodReport) -> Result<Own, Verdict> {
        let status = status(report);
        let mut attempt = 1;
        loop {
            let current = self.read(executor).await?;
            if current.status.as_ref() == Some(&status) {
                return Ok(written(executor, report));
            }
            match self.put(executor, &current, &status).await {
                Ok(()) => return Ok(written(executor, report)),
                Err(verdict) if verdict.retry == Retry::Conflict && attempt < ATTEMPTS => {
                    tracing::debug!(%executor, attempt, "the object changed meanwhile, reading it again");
                    attempt += 1;
                }
                Err(verdict) => return Err(verdict),
            }
        }
    }

    async fn read(&self, executor: &ExecutorRef) -> Result<Current, Verdict> {
        let request = Request::new(url_path(executor)).get(&executor.name, &GetParams::default());
        let request = request.map_err(|error| classify(&kube::Error::BuildRequest(error)))?;
        let current: Current = self.client.request(request).await.map_err(|error| classify(&error))?;
        if current.metadata.uid.as_deref() == Some(&executor.uid) {
            return Ok(current);
        }
        let sentence = format!("{} {executor} is another object of that name now", executor.kind);
        Err(Verdict { retry: Retry::NotFound, sentence })
    }

    async fn put(&self, executor: &ExecutorRef, current: &Current, status: &ExecutorStatus) -> Result<(), Verdict> {
        let body = Replacement {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: executor.kind.as_str(),
            metadata: ObjectMeta {
                name: Some(executor.name.clone()),
                namespace: current.metadata.namespace.clone(),
                uid: current.metadata.uid.clone(),
                resource_version: current.metadata.resource_version.clone(),
                ..ObjectMeta::default()
            },
            status,
        };
        let body = serde_json::to_vec(&body).map_err(|error| classify(&kube::Error::SerdeError(error)))?;
        let params = PostParams { field_manager: Some(RECONCILER_MANAGER.to_owned()), ..PostParams::default() };
        let request = Request::new(url_path(executor)).replace_subresource("status", &executor.name, &params, body);
        let request = request.map_err(|error| classify(&kube::Error::BuildRequest(error)))?;
        self.client.request::<serde_json::Value>(request).await.map(drop).map_err(|error| classify(&error))
    }
}

/// The fields that a single writer fills; what only an aggregator can know is left empty.
fn status(report: &PodReport) -> ExecutorStatus {
    ExecutorStatus {
        succeeded: report.succeeded,
        error: report.error.clone(),
        brief_error: report.brief_error.clone(),
        observed_generation: Some(report.observed_generation),
        ..ExecutorStatus::default()
    }
}

/// There is no object of our own; what was written stands for it.
fn written(executor: &ExecutorRef, report: &PodReport) -> Own {
    Own {
        name: executor.name.clone(),
        uid: executor.uid.clone(),
        version: 0,
        intact: true,
        report: Some(report.clone()),
    }
}
