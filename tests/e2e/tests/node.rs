//! Installations on a real node: kubelet, containerd and gRPC probes, as users have them. Skipped, with words, where
//! there is to be none or cannot be one.

#[path = "node/faults.rs"]
mod faults;
#[path = "node/lifecycle.rs"]
mod lifecycle;
#[path = "node/rollouts.rs"]
mod rollouts;
#[path = "node/stage.rs"]
mod stage;
#[path = "node/witness.rs"]
mod witness;
