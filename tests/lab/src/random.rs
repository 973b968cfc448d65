//! Randomness of the lab: tokens nobody else can guess, and places to start looking. From the kernel, never seeded.

use std::fmt::Write;

use anyhow::{Context, Result};
use rand::TryRng;
use rand::rngs::SysRng;

/// Any number.
pub(crate) fn u64() -> Result<u64> {
    SysRng.try_next_u64().context("the system has no randomness")
}

/// 32 hexadecimal digits.
pub(crate) fn token() -> Result<String> {
    let mut token = String::new();
    for _ in 0..2 {
        write!(token, "{:016x}", u64()?)?;
    }
    Ok(token)
}
