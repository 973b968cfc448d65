//! A real control plane on loopback, a harness that plays kubelet, demo and benches.
