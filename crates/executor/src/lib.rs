//! From an Executor spec to an in-memory executor: compile, trust providers, serve set.
