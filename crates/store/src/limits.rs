/// How large a commit may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// The largest number of expectations.
    pub expectations: usize,
    /// The largest number of writes.
    pub writes: usize,
    /// The largest number of bytes in a key.
    pub key_bytes: usize,
    /// The largest number of bytes in all keys and values together.
    pub bytes: usize,
}

/// A commit exceeds a limit of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a commit has {actual} {what}, the limit is {limit}")]
pub struct LimitExceeded {
    /// What exceeds its limit.
    pub what: &'static str,
    /// The amount.
    pub actual: usize,
    /// The limit.
    pub limit: usize,
}

impl LimitExceeded {
    pub(crate) const fn check(what: &'static str, actual: usize, limit: usize) -> Result<(), Self> {
        if actual > limit { Err(Self { what, actual, limit }) } else { Ok(()) }
    }
}
