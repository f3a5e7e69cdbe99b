use std::fmt;

use crate::canonical::{CanonicalBytes, CanonicalSink};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Wraps a raw number; every number is a valid id.
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
    /// One finite job. A run id is used once: a store refuses it while it keeps the run, and
    /// whoever chooses ids takes care of the time after.
    RunId
}
id! {
    /// One unit of ownership, in a run or in a cluster.
    ///
    /// In a run the highest bit tells where the shard came from: clear for a shard of the initial
    /// manifest, set for one that a split derived.
    ShardId
}
id! {
    /// One worker process.
    WorkerId
}
id! {
    /// Idempotency key of one intended mutation; a retry carries the same one.
    OpId
}

impl ShardId {
    /// The only shard of an unsharded system.
    pub const SINGLE: Self = Self(0);

    const DERIVED_BIT: u64 = 1 << 63;

    /// The id with the mark of a split's offspring set.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_values_survive_unchanged_at_both_ends() {
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
}
