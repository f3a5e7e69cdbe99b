//! Keys as numbers, and numbers as keys of the same order.

/// The key of a number.
#[must_use]
pub fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The number of a key. A key that nobody here made is a number that nobody here uses, so that it
/// fits nowhere.
#[must_use]
pub fn number(key: &[u8]) -> u64 {
    key.try_into().map_or(u64::MAX, u64::from_be_bytes)
}
