//! Identifiers, the fence and the logical time.

use std::fmt;
use std::num::NonZeroU64;

use crate::canonical::{CanonicalBytes, CanonicalSink};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Wraps a raw number. Every number is a valid id.
            #[must_use]
            pub const fn from_raw(raw: u64) -> Self {
                Self(raw)
            }

            /// The raw number.
            #[must_use]
            pub const fn as_raw(self) -> u64 {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        /// Sixteen lower-case hex digits, the form that keys, logs and commands use.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl CanonicalBytes for $name {
            fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
                sink.put_u64(self.0);
            }
        }
    };
}

id! {
    /// One finite job. Run ids are never reused: a store refuses an id while it keeps the run, and
    /// the creator must not choose it again later.
    RunId
}
id! {
    /// One unit of ownership, in a run or in a cluster.
    ///
    /// In a run the highest bit states the origin of the shard: clear for a shard of the manifest,
    /// set for one that a split derived.
    ShardId
}
id! {
    /// One worker process.
    WorkerId
}
id! {
    /// Idempotency key of one intended mutation. A retry carries the same one.
    OpId
}

impl ShardId {
    /// The only shard of an unsharded system.
    pub const SINGLE: Self = Self(0);

    const DERIVED_BIT: u64 = 1 << 63;

    /// The id with the highest bit set, which marks derived shards.
    #[must_use]
    pub const fn into_derived(self) -> Self {
        Self(self.0 | Self::DERIVED_BIT)
    }

    /// Whether a split derived this shard, as opposed to the initial manifest.
    #[must_use]
    pub const fn is_derived(self) -> bool {
        self.0 & Self::DERIVED_BIT != 0
    }
}

/// A shard within a tenant: its run and its own id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardKey {
    /// The run that the shard belongs to.
    pub run: RunId,
    /// The shard within the run.
    pub shard: ShardId,
}

impl ShardKey {
    /// Names `shard` of `run`.
    #[must_use]
    pub const fn new(run: RunId, shard: ShardId) -> Self {
        Self { run, shard }
    }
}

impl CanonicalBytes for ShardKey {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.run.write_canonical(sink);
        self.shard.write_canonical(sink);
    }
}

/// The isolation scope of all data: 32 bytes, usually a hash of the tenant's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId([u8; Self::SIZE]);

impl TenantId {
    /// Width in bytes.
    pub const SIZE: usize = 32;

    /// Wraps the raw bytes. Every value is a valid id.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::SIZE] {
        &self.0
    }
}

/// Sixty-four lower-case hex digits.
impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenantId({self})")
    }
}

impl CanonicalBytes for TenantId {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_raw(&self.0);
    }
}

/// A number that rises with every owner of a shard. A write with a lower one is stale.
///
/// A fence is never zero: a new shard starts at [`FenceEpoch::INITIAL`]. Exhaustion is an error,
/// because a repeated fence would let two owners write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FenceEpoch(NonZeroU64);

/// Why a number is not a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FenceEpochError {
    /// The number is zero.
    #[error("a fence must be at least 1")]
    Zero,
    /// The fence is at its maximum.
    #[error("the fence cannot rise any further")]
    Exhausted,
}

impl FenceEpoch {
    /// The fence of a shard without an owner so far.
    pub const INITIAL: Self = Self(NonZeroU64::MIN);
    /// The last fence.
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

    /// The fence of the next owner, at least `floor`.
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

/// A point on the driver's clock, in milliseconds since an epoch that only the driver knows.
///
/// Every operation gets it as an argument, so a simulator can be the clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogicalTime(u64);

impl LogicalTime {
    /// The epoch itself.
    pub const ZERO: Self = Self(0);
    /// The end of time. Saturated deadlines reach it.
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

    /// The milliseconds from `earlier` to this time, or zero if it is not earlier.
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
    fn raw_values_round_trip() {
        for raw in [0, 1, u64::MAX] {
            assert_eq!(RunId::from_raw(raw).as_raw(), raw);
            assert_eq!(ShardId::from_raw(raw).as_raw(), raw);
            assert_eq!(WorkerId::from_raw(raw).as_raw(), raw);
            assert_eq!(OpId::from_raw(raw).as_raw(), raw);
        }
    }

    #[test]
    fn only_the_highest_bit_marks_a_derived_shard() {
        assert!(!ShardId::SINGLE.is_derived());
        assert!(!ShardId::from_raw(u64::MAX >> 1).is_derived());
        assert!(ShardId::from_raw(1 << 63).is_derived());
        let derived = ShardId::from_raw(7).into_derived();
        assert!(derived.is_derived());
        assert_eq!(derived.as_raw(), (1 << 63) | 7);
        assert_eq!(derived.into_derived(), derived);
    }

    #[test]
    fn text_forms_are_hex() {
        assert_eq!(ShardId::from_raw(0x2a).to_string(), "000000000000002a");
        assert_eq!(format!("{:?}", WorkerId::from_raw(0x2a)), "WorkerId(0x2a)");
    }

    #[test]
    fn shard_keys_order_by_run_then_shard() {
        let key = |run, shard| ShardKey::new(RunId::from_raw(run), ShardId::from_raw(shard));
        assert!(key(1, 9) < key(2, 0));
        assert!(key(2, 0) < key(2, 1));
    }

    #[test]
    fn text_form_is_the_hex_of_all_bytes() {
        let mut bytes = [0; TenantId::SIZE];
        bytes[0] = 0xab;
        bytes[31] = 0x01;
        let tenant = TenantId::from_bytes(bytes);
        assert_eq!(tenant.as_bytes(), &bytes);
        assert_eq!(tenant.to_string(), format!("ab{}01", "00".repeat(30)));
        assert_eq!(format!("{tenant:?}"), format!("TenantId({tenant})"));
    }

    #[test]
    fn fence_starts_at_one() {
        assert_eq!(FenceEpoch::INITIAL.as_raw(), 1);
        assert_eq!(FenceEpoch::from_raw(0), Err(FenceEpochError::Zero));
        assert_eq!(FenceEpoch::from_raw(1), Ok(FenceEpoch::INITIAL));
    }

    #[test]
    fn fence_rises_by_one_and_never_wraps() {
        assert_eq!(FenceEpoch::INITIAL.next().unwrap().as_raw(), 2);
        assert_eq!(FenceEpoch::MAX.next(), Err(FenceEpochError::Exhausted));
    }

    #[test]
    fn floor_raises_the_next_fence_only() {
        let fence = |raw| FenceEpoch::from_raw(raw).unwrap();
        assert_eq!(fence(4).next_at_least(fence(100)), Ok(fence(100)));
        assert_eq!(fence(100).next_at_least(fence(100)), Ok(fence(101)));
        assert_eq!(fence(400).next_at_least(fence(100)), Ok(fence(401)));
        assert_eq!(FenceEpoch::MAX.next_at_least(fence(1)), Err(FenceEpochError::Exhausted));
    }

    #[test]
    fn addition_saturates_at_the_end_of_time() {
        let start = LogicalTime::from_millis(40);
        assert_eq!(start.checked_add(2), Some(LogicalTime::from_millis(42)));
        assert_eq!(start.saturating_add(2).as_millis(), 42);
        assert_eq!(LogicalTime::MAX.checked_add(1), None);
        assert_eq!(LogicalTime::MAX.saturating_add(1), LogicalTime::MAX);
    }

    #[test]
    fn millis_since_is_never_negative() {
        let (early, late) = (LogicalTime::from_millis(10), LogicalTime::from_millis(25));
        assert_eq!(late.millis_since(early), 15);
        assert_eq!(early.millis_since(late), 0);
    }
}
