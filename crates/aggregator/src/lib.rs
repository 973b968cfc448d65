//! Folds the replicas' reports into Executor.status.
