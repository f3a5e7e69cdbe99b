//! The states of shards and runs, with their stored bytes.

use shardwright_contracts::{CanonicalBytes, CanonicalSink};

/// A stored byte without a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{byte} names no {kind}")]
pub struct UnknownByte {
    /// The kind of value that was expected.
    pub kind: &'static str,
    /// The byte.
    pub byte: u8,
}

/// Declares an enum that is stored as one byte. Compile-time assertions pin the bytes.
macro_rules! stored_enum {
    (
        $(#[$doc:meta])* $name:ident, $kind:literal {
            $($(#[$variant_doc:meta])* $variant:ident = $byte:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $byte,)+
        }

        impl $name {
            /// Every variant, in the order of their bytes.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The stored byte.
            #[must_use]
            pub const fn as_byte(self) -> u8 {
                self as u8
            }
        }

        impl TryFrom<u8> for $name {
            type Error = $crate::status::UnknownByte;

            fn try_from(byte: u8) -> Result<Self, $crate::status::UnknownByte> {
                match byte {
                    $($byte => Ok(Self::$variant),)+
                    byte => Err($crate::status::UnknownByte { kind: $kind, byte }),
                }
            }
        }

        impl CanonicalBytes for $name {
            fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
                sink.put_u8(self.as_byte());
            }
        }
    };
}

pub(crate) use stored_enum;

stored_enum! {
    /// The state of a shard. Every transition starts from `Active`. Only unparking leads back to
    /// it.
    ShardStatus, "shard status" {
        /// Held by a worker, or available.
        Active = 0,
        /// Fully processed.
        Done = 1,
        /// Replaced by its children.
        Split = 2,
        /// Stopped for a reason, until an operator unparks it.
        Parked = 3,
    }
}

stored_enum! {
    /// Why a shard is parked.
    ParkReason, "park reason" {
        /// Access was denied. An operator has to grant it.
        PermissionDenied = 0,
        /// The data to process no longer exists.
        NotFound = 1,
        /// Processing fails every time. An operator has to investigate.
        Poisoned = 2,
        /// Too many attempts in a row made no progress.
        TooManyErrors = 3,
        /// Another reason, described in the detail.
        Other = 4,
    }
}

stored_enum! {
    /// The state of a run.
    RunStatus, "run status" {
        /// Created, without registered shards.
        Initializing = 0,
        /// Its shards can be acquired.
        Active = 1,
        /// Ended: all shards are done or split.
        Done = 2,
        /// Ended: failed.
        Failed = 3,
        /// Ended: cancelled.
        Cancelled = 4,
    }
}

// Stored data depends on these bytes: a change must not compile.
const _: () = {
    assert!(ShardStatus::Active as u8 == 0 && ShardStatus::Done as u8 == 1);
    assert!(ShardStatus::Split as u8 == 2 && ShardStatus::Parked as u8 == 3);
    assert!(ParkReason::PermissionDenied as u8 == 0 && ParkReason::NotFound as u8 == 1);
    assert!(ParkReason::Poisoned as u8 == 2 && ParkReason::TooManyErrors as u8 == 3);
    assert!(ParkReason::Other as u8 == 4);
    assert!(RunStatus::Initializing as u8 == 0 && RunStatus::Active as u8 == 1);
    assert!(RunStatus::Done as u8 == 2 && RunStatus::Failed as u8 == 3);
    assert!(RunStatus::Cancelled as u8 == 4);
};

impl ShardStatus {
    /// Whether workers can no longer change the shard.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Active)
    }
}

impl RunStatus {
    /// Whether the run has ended.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_bytes_round_trip_and_unknown_ones_fail() {
        for status in ShardStatus::ALL {
            assert_eq!(ShardStatus::try_from(status.as_byte()), Ok(*status));
        }
        for reason in ParkReason::ALL {
            assert_eq!(ParkReason::try_from(reason.as_byte()), Ok(*reason));
        }
        for status in RunStatus::ALL {
            assert_eq!(RunStatus::try_from(status.as_byte()), Ok(*status));
        }
        let unknown = |kind, byte| UnknownByte { kind, byte };
        assert_eq!(ShardStatus::try_from(4), Err(unknown("shard status", 4)));
        assert_eq!(ParkReason::try_from(5), Err(unknown("park reason", 5)));
        assert_eq!(RunStatus::try_from(5), Err(unknown("run status", 5)));
    }

    #[test]
    fn only_active_shards_are_not_terminal() {
        let terminal: Vec<_> = ShardStatus::ALL.iter().filter(|s| s.is_terminal()).collect();
        assert_eq!(terminal, [&ShardStatus::Done, &ShardStatus::Split, &ShardStatus::Parked]);
    }

    #[test]
    fn runs_have_three_terminal_states() {
        let terminal: Vec<_> = RunStatus::ALL.iter().filter(|s| s.is_terminal()).collect();
        assert_eq!(terminal, [&RunStatus::Done, &RunStatus::Failed, &RunStatus::Cancelled]);
    }

    #[test]
    fn canonical_form_is_the_stored_byte() {
        let mut bytes = Vec::new();
        ShardStatus::Parked.write_canonical(&mut bytes);
        ParkReason::Other.write_canonical(&mut bytes);
        RunStatus::Failed.write_canonical(&mut bytes);
        assert_eq!(bytes, [3, 4, 3]);
    }
}
