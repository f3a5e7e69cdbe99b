/// How large a commit may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Most keys that a commit may expect something of.
    pub expectations: usize,
    /// Most keys that a commit may write.
    pub writes: usize,
    /// Most bytes of one key.
    pub key_bytes: usize,
    /// Most bytes of all keys and values of a commit.
    pub bytes: usize,
}

/// A commit is larger than the store takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a commit has {actual} {what}, and the store takes {limit}")]
pub struct LimitExceeded {
    /// What there is too much of.
    pub what: &'static str,
    /// How much there is.
    pub actual: usize,
    /// How much there may be.
    pub limit: usize,
}

impl LimitExceeded {
    pub(crate) const fn check(what: &'static str, actual: usize, limit: usize) -> Result<(), Self> {
        if actual > limit { Err(Self { what, actual, limit }) } else { Ok(()) }
    }
}
