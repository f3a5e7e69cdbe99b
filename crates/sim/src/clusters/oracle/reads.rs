use super::ensure;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "reads are not stale",
    "a read tells every increment that was acknowledged before it was asked",
);

/// Judges what was read.
pub(in crate::clusters) fn judge(counter: &str, read: u64, at_least: u64) -> Result<(), Finding> {
    ensure(ORACLE, read >= at_least, || {
        format!("{counter} was read as {read}, and {at_least} had been acknowledged before")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_misses_something_is_noticed() {
        assert_eq!(judge("a", 4, 4), Ok(()));
        assert!(judge("a", 3, 4).is_err());
    }
}
