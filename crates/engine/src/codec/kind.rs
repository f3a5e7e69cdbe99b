use std::fmt;

/// Declares the kinds with their bytes and display names.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $byte:literal, $name:literal;)+) => {
        /// Kind of a record: its first byte.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum RecordKind {
            $($(#[$doc])* $kind = $byte,)+
        }

        impl RecordKind {
            /// Every kind, in the order of their bytes.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Returns the kind of a byte. Zero is not a kind, so zeroed bytes are not a record.
            #[must_use]
            pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$kind),)+
                    _ => None,
                }
            }

            /// Returns the display name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

kinds! {
    /// Definition of a shard.
    Definition = 1, "shard definition";
    /// Progress of a shard.
    Progress = 2, "shard progress";
    /// A run without its manifest.
    RunHead = 3, "run";
    /// Root shards of a run.
    Manifest = 4, "manifest";
    /// State of a run that its shards' operations need.
    RunState = 5, "run state";
    /// Owner of a shard.
    Binding = 6, "owner binding";
    /// A worker that waits for a shard to claim.
    WaitingWorker = 7, "waiting worker";
    /// Split request to the holder of a shard.
    SplitRequest = 8, "split request";
    /// Shard whose split a worker has requested.
    Requester = 9, "requester";
    /// Shards of a run, existing and reserved.
    RunShards = 10, "shards of a run";
    /// Shards reserved by a tenant, or by all.
    ReservedShards = 11, "reserved shards";
    /// Registration in progress.
    Stage = 12, "stage";
    /// Upper bound of every time that the clock has returned.
    ClockMark = 13, "clock mark";
    /// Number of times the store was set up or restored.
    StoreGeneration = 14, "store generation";
    /// Layout of the store.
    Format = 15, "format";
    /// A claimable shard.
    Claimable = 16, "claimable shard";
    /// Watermark of a run.
    Watermark = 17, "watermark";
    /// A holder's estimate of its remaining work.
    Estimate = 18, "estimate";
    /// Run to which a name refers.
    RunName = 19, "run name";
    /// Label of a run.
    RunLabel = 20, "run label";
    /// Properties of a cluster that never change.
    ClusterPlan = 21, "cluster";
    /// A node that is a member of a cluster.
    NodeMember = 22, "cluster member";
    /// A gate of a cluster.
    ClusterGate = 23, "cluster gate";
    /// Leader of a cluster.
    ClusterLeader = 24, "cluster leader";
    /// State of all targets of a cluster.
    TargetHead = 25, "target header";
    /// Targets of some shards of a cluster.
    TargetChunk = 26, "target chunk";
    /// Holder of a shard of a cluster.
    ShardClaim = 27, "shard claim";
    /// An operator's order to empty a node.
    DrainMark = 28, "drain mark";
    /// A node that is about to leave.
    Leaving = 29, "leaving node";
    /// What a deletion leaves of a cluster.
    ClusterDeletion = 30, "cluster deletion";
}

impl RecordKind {
    /// Returns the byte of the kind.
    #[must_use]
    pub const fn as_byte(self) -> u8 {
        self as u8
    }

    /// Returns the kind that a stored value claims to be.
    #[must_use]
    pub fn of(value: &[u8]) -> Option<Self> {
        value.first().copied().and_then(Self::from_byte)
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_byte_and_a_name_of_its_own() {
        for (index, kind) in RecordKind::ALL.iter().enumerate() {
            assert_eq!(kind.as_byte() as usize, index + 1);
            assert_eq!(RecordKind::from_byte(kind.as_byte()), Some(*kind));
            assert!(
                RecordKind::ALL.iter().all(|other| other == kind || other.name() != kind.name())
            );
        }
        assert_eq!((RecordKind::from_byte(0), RecordKind::from_byte(31)), (None, None));
        assert_eq!(
            (RecordKind::of(&[]), RecordKind::of(&[15, 9])),
            (None, Some(RecordKind::Format))
        );
        assert_eq!(RecordKind::SplitRequest.to_string(), "split request");
    }
}
