//! A replica: builds each Executor for itself and reports its own ExecutorPodStatus.
//!
//! `observe` reads watches, [`replica`] keeps what is known, [`decide`] says what to do next, `act` does it against the
//! API server and `controller` joins them.

pub mod bucket;
pub mod decide;
pub mod replica;
pub mod subject;
