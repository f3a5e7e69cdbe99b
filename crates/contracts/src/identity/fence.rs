use std::fmt;
use std::num::NonZeroU64;

use crate::canonical::{CanonicalBytes, CanonicalSink};

/// Number that rises with every change of a shard's owner; a write below the current one is stale.
///
/// Zero does not exist: a new shard starts at [`FenceEpoch::INITIAL`]. Running out of numbers is
/// an error, because a repeated fence would let two owners write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FenceEpoch(NonZeroU64);

/// Why a number cannot be a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FenceEpochError {
    /// Zero was offered as a fence.
    #[error("a fence starts at 1, zero is none")]
    Zero,
    /// The fence stands at the largest number there is.
    #[error("the fence cannot rise any further")]
    Exhausted,
}

impl FenceEpoch {
    /// The fence of a shard that nobody has owned yet.
    pub const INITIAL: Self = Self(NonZeroU64::MIN);
    /// The last fence there is.
    pub const MAX: Self = Self(NonZeroU64::MAX);

    /// Reads a stored or transmitted fence.
    pub const fn from_raw(raw: u64) -> Result<Self, FenceEpochError> {
        match NonZeroU64::new(raw) {
            Some(fence) => Ok(Self(fence)),
            None => Err(FenceEpochError::Zero),
        }
    }

    /// The raw number, at least 1.
    #[must_use]
    pub const fn as_raw(self) -> u64 {
        self.0.get()
    }

    /// The fence of the next owner.
    pub const fn next(self) -> Result<Self, FenceEpochError> {
        match self.0.checked_add(1) {
            Some(fence) => Ok(Self(fence)),
            None => Err(FenceEpochError::Exhausted),
        }
    }

    /// The fence of the next owner where nothing below `floor` may be handed out any more.
    pub fn next_at_least(self, floor: Self) -> Result<Self, FenceEpochError> {
        self.next().map(|next| next.max(floor))
    }
}

impl fmt::Debug for FenceEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FenceEpoch({})", self.0)
    }
}

impl fmt::Display for FenceEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl CanonicalBytes for FenceEpoch {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u64(self.as_raw());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_at_one_and_knows_no_zero() {
        assert_eq!(FenceEpoch::INITIAL.as_raw(), 1);
        assert_eq!(FenceEpoch::from_raw(0), Err(FenceEpochError::Zero));
        assert_eq!(FenceEpoch::from_raw(1), Ok(FenceEpoch::INITIAL));
    }

    #[test]
    fn rises_by_one_and_refuses_to_wrap() {
        assert_eq!(FenceEpoch::INITIAL.next().unwrap().as_raw(), 2);
        assert_eq!(FenceEpoch::MAX.next(), Err(FenceEpochError::Exhausted));
    }

    #[test]
    fn a_floor_lifts_the_next_fence_but_never_lowers_it() {
        let fence = |raw| FenceEpoch::from_raw(raw).unwrap();
        assert_eq!(fence(4).next_at_least(fence(100)), Ok(fence(100)));
        assert_eq!(fence(100).next_at_least(fence(100)), Ok(fence(101)));
        assert_eq!(fence(400).next_at_least(fence(100)), Ok(fence(401)));
        assert_eq!(FenceEpoch::MAX.next_at_least(fence(1)), Err(FenceEpochError::Exhausted));
    }
}
