//! What `cargo xtask test` and the tests that it runs have to say in the same words.

/// Arguments of cargo that build the programs with injected faults: both at once, and with the features of the whole
/// workspace, so that nothing beneath them is compiled a second time.
pub const FAULTY_BUILD: [&str; 6] = [
    "build",
    "--quiet",
    "--workspace",
    "--features=muster-reconciler/fault,muster-aggregator/fault",
    "--example=faulty-reconciler",
    "--example=faulty-aggregator",
];

/// How the reason begins of a test that needs a real node where none can be; other reasons may be failures.
pub const UNABLE: &str = "no real node here: ";
