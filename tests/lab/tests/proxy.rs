//! The fault proxy in front of a real API server: what it spoils, and what it leaves alone.

#[path = "proxy/calls.rs"]
mod calls;
#[path = "proxy/connections.rs"]
mod connections;
#[path = "proxy/watches.rs"]
mod watches;

use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams, ObjectMeta, WatchEvent, WatchParams};
use muster_lab::control_plane::{ControlPlane, Controllers, Options};
use muster_lab::proxy::Proxy;
use tokio::time::timeout;

/// Long enough for anything that should happen at once.
const SOON: Duration = Duration::from_secs(10);
/// Long enough to believe that nothing happens.
const MOMENT: Duration = Duration::from_millis(500);

/// A bare control plane, and a proxy in front of it.
async fn start() -> Result<(ControlPlane, Proxy)> {
    let plane = ControlPlane::start(Options { controllers: Controllers::None, ..Options::default() }).await?;
    let proxy = Proxy::start(&plane).await?;
    Ok((plane, proxy))
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

/// Names of what is added, from now on.
async fn added(api: &Api<ConfigMap>) -> Result<BoxStream<'static, Result<String, kube::Error>>> {
    let now = api.list_metadata(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let events = api.watch(&WatchParams::default(), &now).await?;
    let name = |event: WatchEvent<ConfigMap>| async move {
        match event {
            WatchEvent::Added(map) => Ok(map.metadata.name),
            WatchEvent::Error(status) => Err(kube::Error::Api(status)),
            _ => Ok(None),
        }
    };
    Ok(events.try_filter_map(name).boxed())
}

async fn soon<T>(what: impl Future<Output = T>) -> Result<T> {
    timeout(SOON, what).await.context("no answer in time")
}

async fn is_silent<T>(what: impl Future<Output = T>) -> bool {
    timeout(MOMENT, what).await.is_err()
}

/// A stream of events ends with its connection: kube tells of that as an error or not, depending on where it was cut.
async fn is_cut(watch: &mut BoxStream<'static, Result<String, kube::Error>>) -> Result<bool> {
    Ok(soon(watch.next()).await?.is_none_or(|event| code(event) == 0))
}

/// Status code of an answer: 200 if it was good, 0 if there was none.
fn code<T>(result: Result<T, kube::Error>) -> u16 {
    match result {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}
