//! Folds the replicas' reports into Executor.status.

pub mod facts;
pub mod fold;
