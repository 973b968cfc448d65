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

/// Why a test did not run that only a flag asks for; the flag follows. Other reasons for not running may be failures.
pub const UNASKED: &str = "runs only with ";
