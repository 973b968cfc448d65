//! Turns watches into events. Executors are watched by metadata only: every write of a `byPod` goes to every replica, and
//! of a status that is half a megabyte a replica needs no byte. Own objects are watched whole, and nobody else's.

use kube::api::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client};
use muster_api::{ExecutorKind, ExecutorLike, ExecutorPodStatus, ExecutorRef, RETRY_ANNOTATION};
use muster_runtime::watch::{Selection, Setup, Watch};

use crate::identity::Identity;
use crate::inbox::Sender;
use crate::own;
use crate::replica::Event;
use crate::subject::{Own, Present, Uid};

/// Watches the executors of one kind, for ever.
pub async fn executors<K: ExecutorLike>(setup: Setup, client: Client, inbox: Sender) {
    let mut watch = Watch::<PartialObjectMeta<K>>::new(setup, client, Selection::default(), Api::all);
    let mut listing: Option<Vec<(ExecutorRef, Present)>> = None;
    loop {
        match watch.next().await {
            watcher::Event::Init => listing = Some(Vec::new()),
            watcher::Event::InitApply(object) => {
                if let (Some(items), Some(Event::Seen { executor, present })) =
                    (&mut listing, seen(K::KIND, &object.metadata))
                {
                    items.push((executor, present));
                }
            }
            watcher::Event::InitDone => {
                inbox.tell(Event::Listed { kind: K::KIND, items: listing.take().unwrap_or_default() }).await;
            }
            watcher::Event::Apply(object) => {
                if let Some(event) = seen(K::KIND, &object.metadata) {
                    inbox.tell(event).await;
                }
            }
            watcher::Event::Delete(object) => inbox.tell(Event::Gone { uid: uid(&object.metadata) }).await,
        }
    }
}

/// Watches the objects of this pod, for ever.
pub async fn own(setup: Setup, client: Client, identity: Identity, inbox: Sender) {
    let selection = Selection { fields: Some(format!("spec.pod.uid={}", identity.pod.uid)), labels: None };
    let namespace = identity.namespace.clone();
    let api = move |client| Api::namespaced(client, &namespace);
    let mut watch = Watch::<ExecutorPodStatus>::new(setup, client, selection, api);
    let mut listing: Option<Vec<(ExecutorRef, Own)>> = None;
    loop {
        match watch.next().await {
            watcher::Event::Init => listing = Some(Vec::new()),
            watcher::Event::InitApply(object) => {
                if let Some(items) = &mut listing {
                    items.push(own::read(&identity, &object));
                }
            }
            watcher::Event::InitDone => {
                inbox.tell(Event::OwnListed { items: listing.take().unwrap_or_default() }).await;
            }
            watcher::Event::Apply(object) => {
                let (executor, own) = own::read(&identity, &object);
                inbox.tell(Event::OwnSeen { executor, own }).await;
            }
            watcher::Event::Delete(object) => {
                let executor = Uid::from(object.spec.executor.uid.as_str());
                inbox.tell(Event::OwnGone { executor, object: object.metadata.uid.unwrap_or_default() }).await;
            }
        }
    }
}

/// An executor that is being deleted is gone, although its generation moved as if its spec had changed. `None` for
/// metadata that no API server sends.
fn seen(kind: ExecutorKind, metadata: &ObjectMeta) -> Option<Event> {
    if metadata.deletion_timestamp.is_some() {
        return Some(Event::Gone { uid: uid(metadata) });
    }
    let executor = ExecutorRef {
        kind,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
    };
    let present = Present {
        generation: metadata.generation?,
        created: metadata.creation_timestamp.as_ref()?.0,
        retry: metadata.annotations.as_ref().and_then(|annotations| annotations.get(RETRY_ANNOTATION)).cloned(),
        version: metadata.resource_version.clone()?,
    };
    Some(Event::Seen { executor, present })
}

fn uid(metadata: &ObjectMeta) -> Uid {
    Uid::from(metadata.uid.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn metadata() -> ObjectMeta {
        ObjectMeta {
            name: Some("a".into()),
            uid: Some("u-1".into()),
            generation: Some(2),
            resource_version: Some("7".into()),
            creation_timestamp: Some(Time("2026-11-30T12:00:00Z".parse().unwrap())),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn an_executor_that_is_being_deleted_is_gone_though_its_generation_moved() {
        let mut metadata = metadata();
        assert!(matches!(seen(ExecutorKind::Executor, &metadata), Some(Event::Seen { .. })));
        metadata.generation = Some(3);
        metadata.deletion_timestamp = metadata.creation_timestamp.clone();
        assert_eq!(seen(ExecutorKind::Executor, &metadata), Some(Event::Gone { uid: "u-1".into() }));
    }
}
