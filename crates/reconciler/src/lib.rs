//! A replica: builds each Executor for itself and reports its own ExecutorPodStatus.
