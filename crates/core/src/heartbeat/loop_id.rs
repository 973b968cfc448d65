//! Names of the loops: the closed list that metrics, `Describe`, `/readyz` and `--hang LOOP` share.

use std::fmt;

/// One of the loops listed below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoopId(&'static str);

impl LoopId {
    /// Watches Executors.
    pub const WATCH_EXECUTORS: Self = Self("watch-executors");
    /// Watches NamespacedExecutors.
    pub const WATCH_NAMESPACED_EXECUTORS: Self = Self("watch-namespacedexecutors");
    /// A replica watches the ExecutorPodStatus objects it wrote itself.
    pub const WATCH_OWN: Self = Self("watch-own");
    /// A replica watches the Secrets that specs name, each by a watch of its own.
    pub const WATCH_SECRETS: Self = Self("watch-secrets");
    /// A replica compiles specs and loads trust material, several objects at a time.
    pub const BUILD: Self = Self("build");
    /// A replica writes its ExecutorPodStatus objects.
    pub const REPORT: Self = Self("report");
    /// A replica renews trust material on a timer.
    pub const REFRESH: Self = Self("refresh");
    /// The aggregator watches ExecutorPodStatus objects.
    pub const WATCH_POD_STATUSES: Self = Self("watch-podstatuses");
    /// The aggregator watches the reconciler's pods.
    pub const WATCH_PODS: Self = Self("watch-pods");
    /// The leading aggregator computes statuses.
    pub const FOLD: Self = Self("fold");
    /// The leading aggregator writes statuses.
    pub const WRITE: Self = Self("write");
    /// The leading aggregator asks replicas for their health.
    pub const HEALTH: Self = Self("health");
    /// The leading aggregator removes leftovers.
    pub const SWEEP: Self = Self("sweep");
    /// An aggregator contends for, or renews, the Lease.
    pub const LEASE: Self = Self("lease");

    /// Loops of a replica.
    pub const RECONCILER: [Self; 7] = [
        Self::WATCH_EXECUTORS,
        Self::WATCH_NAMESPACED_EXECUTORS,
        Self::WATCH_OWN,
        Self::WATCH_SECRETS,
        Self::BUILD,
        Self::REPORT,
        Self::REFRESH,
    ];

    /// Loops of an aggregator.
    pub const AGGREGATOR: [Self; 9] = [
        Self::WATCH_EXECUTORS,
        Self::WATCH_NAMESPACED_EXECUTORS,
        Self::WATCH_POD_STATUSES,
        Self::WATCH_PODS,
        Self::FOLD,
        Self::WRITE,
        Self::HEALTH,
        Self::SWEEP,
        Self::LEASE,
    ];

    /// The name, as a metric label or a flag's value.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// The loop of that name among `loops`.
    pub fn find(name: &str, loops: &[Self]) -> Option<Self> {
        loops.iter().copied().find(|id| id.0 == name)
    }
}

impl fmt::Display for LoopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
