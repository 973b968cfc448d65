//! Notices that files from which an executor was built have changed. Mounted Secrets and ConfigMaps are exchanged by
//! links, which no file watch sees reliably, so their contents are compared from time to time.

use std::time::Duration;

use muster_core::heartbeat::LoopId;
use muster_executor::{Built, ProviderKind, Sources, build};
use muster_runtime::clock::Clock;
use muster_runtime::heartbeat::Heartbeat;

use crate::controller::Shelf;
use crate::inbox::Sender;
use crate::replica::Event;

/// Looks at the files of everything on the shelf, each `every`, for ever. One look takes at most `deadline`.
pub async fn watch(
    shelf: Shelf,
    sources: Sources,
    every: Duration,
    deadline: Duration,
    heartbeat: Heartbeat,
    clock: Clock,
    inbox: Sender,
) {
    let beat = heartbeat.of(LoopId::REFRESH);
    let mut owed = beat.due_at("trust files", clock.now().saturating_add(every));
    loop {
        clock.sleep_until(clock.now().saturating_add(every)).await;
        let running = owed.start().await;
        let mut changed = Vec::new();
        let look = async {
            for (uid, built) in shelf.all().into_iter().filter(|(_, built)| uses_files(built)) {
                if build::changed(&built, &sources).await {
                    changed.push(uid);
                }
            }
        };
        if tokio::time::timeout(deadline, look).await.is_err() {
            tracing::warn!("comparing trust files took too long and was given up");
        }
        owed = running.complete_then_due(clock.now().saturating_add(every));
        for uid in changed {
            inbox.tell(Event::MaterialChanged { uid }).await;
        }
    }
}

fn uses_files(built: &Built) -> bool {
    built.compiled.trust_requests().any(|request| request.provider.kind() == ProviderKind::Files)
}
