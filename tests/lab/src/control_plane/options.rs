//! What a test may choose about its control plane.

use std::sync::Arc;

use crate::node::Namespaces;

/// Which controllers the controller manager runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Controllers {
    /// None: no controller manager at all. Namespaces then have no service accounts, and nothing is collected.
    None,
    /// Those that tests here rely on. Quick to start, and nothing judges the lab's node by its missing heartbeats.
    #[default]
    Usual,
    /// All that Kubernetes runs by default, as a real node needs them.
    All,
    /// The usual ones without the garbage collector, for tests about leftovers.
    WithoutGarbageCollector,
}

impl Controllers {
    const GARBAGE_COLLECTOR: &'static str = "garbage-collector-controller";
    const USUAL: [&'static str; 13] = [
        "clusterrole-aggregation-controller",
        "daemonset-controller",
        "deployment-controller",
        "disruption-controller",
        Self::GARBAGE_COLLECTOR,
        "job-controller",
        "namespace-controller",
        "replicaset-controller",
        "resourcequota-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
        "statefulset-controller",
        "validatingadmissionpolicy-status-controller",
    ];

    /// Value of `--controllers`, or `None` for no controller manager.
    pub(crate) fn flag(self) -> Option<String> {
        if self == Self::All {
            return Some("*".to_owned());
        }
        let keep = |name: &&str| self == Self::Usual || *name != Self::GARBAGE_COLLECTOR;
        (self != Self::None).then(|| Self::USUAL.into_iter().filter(keep).collect::<Vec<_>>().join(","))
    }
}

/// Choices, all of them with good defaults.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which controllers run.
    pub controllers: Controllers,
    /// More flags for the API server, such as `--max-requests-inflight=1`.
    pub api_server_flags: Vec<String>,
    /// Manifests of custom resource definitions, installed before the controllers start. The garbage collector looks for
    /// new kinds only every 30 s: of a kind that is installed later, the first orphan is collected some 40 s late.
    pub crds: Vec<String>,
    /// Namespaces of a real node that the servers run in; this machine's own if none.
    pub inside: Option<Arc<Namespaces>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_garbage_collector_can_be_left_out() {
        let collector = Controllers::GARBAGE_COLLECTOR;
        assert!(Controllers::Usual.flag().unwrap().contains(collector));
        assert!(!Controllers::WithoutGarbageCollector.flag().unwrap().contains(collector));
        assert_eq!(Controllers::None.flag(), None);
    }
}
