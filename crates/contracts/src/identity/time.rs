use std::fmt;

use crate::canonical::{CanonicalBytes, CanonicalSink};

/// A point on the driver's clock, in milliseconds since an epoch that only the driver knows.
///
/// It reaches every operation as an argument, so that a simulator can be the clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogicalTime(u64);

impl LogicalTime {
    /// The epoch itself.
    pub const ZERO: Self = Self(0);
    /// The end of time, which saturated deadlines reach.
    pub const MAX: Self = Self(u64::MAX);

    /// Wraps a number of milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The number of milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time `millis` later, if there is one.
    #[must_use]
    pub const fn checked_add(self, millis: u64) -> Option<Self> {
        match self.0.checked_add(millis) {
            Some(later) => Some(Self(later)),
            None => None,
        }
    }

    /// The time `millis` later, or the end of time.
    #[must_use]
    pub const fn saturating_add(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// How many milliseconds lie between `earlier` and this time; zero if it is not earlier.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for LogicalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogicalTime({} ms)", self.0)
    }
}

impl fmt::Display for LogicalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

impl CanonicalBytes for LogicalTime {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u64(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_is_exact_until_it_cannot_be() {
        let start = LogicalTime::from_millis(40);
        assert_eq!(start.checked_add(2), Some(LogicalTime::from_millis(42)));
        assert_eq!(start.saturating_add(2).as_millis(), 42);
        assert_eq!(LogicalTime::MAX.checked_add(1), None);
        assert_eq!(LogicalTime::MAX.saturating_add(1), LogicalTime::MAX);
    }

    #[test]
    fn a_span_never_goes_below_zero() {
        let (early, late) = (LogicalTime::from_millis(10), LogicalTime::from_millis(25));
        assert_eq!(late.millis_since(early), 15);
        assert_eq!(early.millis_since(late), 0);
    }
}
