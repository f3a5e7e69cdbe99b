//! Keys as numbers, and numbers as keys of the same order.

use anyhow::{Context as _, Result};

/// The key of a number.
#[must_use]
pub fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The number of a key.
pub fn number(key: &[u8]) -> Result<u64> {
    let bytes = key.try_into().context("a key that nobody here made")?;
    Ok(u64::from_be_bytes(bytes))
}
