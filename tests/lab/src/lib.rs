//! A real control plane on loopback, and a harness that plays kubelet: where the product is seen to work.
//!
//! Conflicts, generations, server-side apply, garbage collection, bound tokens and RBAC are what this project is about, so
//! no test of them stands on an imitation of the API server. [`control_plane`] starts a real one in seconds; [`kubelet`]
//! turns the pods of real Deployments into processes, and
//! [`node`] runs them as containers; [`audit`] counts what they asked of the server; [`wait`] waits for
//! what should happen; [`manifests`] and [`identity`] are the hands.
//!
//! Errors are `anyhow` here: nobody branches on them, they are read in the output of a failed test.

pub mod admin;
pub mod audit;
pub mod bench;
pub mod cluster;
pub mod control_plane;
pub mod demo;
pub mod deployments;
pub mod faulty;
pub mod identity;
pub mod installation;
pub mod kubelet;
pub mod manifests;
pub mod net;
pub mod node;
pub mod process;
pub mod proxy;
pub mod rights;
pub mod skip;
pub mod tools;
pub mod wait;

mod random;
mod running;
mod workdir;
