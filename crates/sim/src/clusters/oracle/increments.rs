use super::ensure;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "no increment is lost",
    "in the end a counter holds every increment that was acknowledged, and besides at most those \
     whose outcome is not known",
);

/// Judges a counter at the end.
pub(in crate::clusters) fn judge(
    counter: &str,
    value: u64,
    acknowledged: u64,
    unknown: u64,
) -> Result<(), Finding> {
    ensure(ORACLE, (acknowledged..=acknowledged + unknown).contains(&value), || {
        format!("{counter} is {value}: {acknowledged} acknowledged, {unknown} unknown")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_is_there_and_no_more_than_may_be() {
        assert_eq!(judge("a", 4, 4, 0), Ok(()));
        assert_eq!(judge("a", 6, 4, 2), Ok(()));
        assert!(judge("a", 3, 4, 2).is_err(), "one is lost");
        assert!(judge("a", 7, 4, 2).is_err(), "one was refused and done all the same");
    }
}
