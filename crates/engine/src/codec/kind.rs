use std::fmt;

/// Declares the kinds with their bytes and their names for people.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $byte:literal, $name:literal;)+) => {
        /// What a stored value is. The first byte of each says so.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $kind = $byte,)+
        }

        impl Kind {
            /// Every kind, in the order of their bytes.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The kind that a byte stands for. Zero stands for none, so that a value of zeros is
            /// no record.
            #[must_use]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$kind),)+
                    _ => None,
                }
            }

            /// What people call it.
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
    /// What a shard is.
    Definition = 1, "shard definition";
    /// Where a shard stands.
    Progress = 2, "shard progress";
    /// A run, apart from its manifest.
    Run = 3, "run";
    /// The root shards of a run.
    Manifest = 4, "manifest";
    /// What operations on a run's shards need to know of the run.
    Gate = 5, "gate";
    /// Who owns a shard.
    Binding = 6, "owner binding";
    /// A worker that found nothing to do.
    Waiting = 7, "waiting worker";
    /// What has been asked of a shard's holder.
    SplitAsk = 8, "split request";
    /// Of which shard a worker has asked a part.
    Asker = 9, "asker";
    /// How many shards a run has, and how many it may have.
    Count = 10, "shard count";
    /// How many shards are reserved, by a tenant or by all.
    Quota = 11, "quota";
    /// A registration that is under way.
    Stage = 12, "stage";
    /// Up to where the clock may have been read.
    ClockMark = 13, "clock mark";
    /// How often the store was set up or restored.
    Incarnation = 14, "incarnation";
    /// How the store is laid out.
    Format = 15, "format";
    /// A shard that could be claimed.
    OpenShard = 16, "open shard";
    /// Up to where a run was told to be done.
    Watermark = 17, "watermark";
    /// What a holder thinks of the work that it has left.
    Estimate = 18, "estimate";
    /// To which run a name points.
    Named = 19, "named run";
    /// What a run is for.
    Purpose = 20, "purpose of a run";
    /// How a cluster maps ids to shards, and how it is stored.
    ClusterPlan = 21, "cluster";
    /// A node that is a member of a cluster.
    NodeMember = 22, "cluster member";
    /// A gate of a cluster.
    ClusterGate = 23, "cluster gate";
    /// Who leads a cluster.
    ClusterLeader = 24, "cluster leader";
    /// What holds for all targets of a cluster together.
    TargetHead = 25, "target header";
    /// Where some shards of a cluster should be.
    TargetChunk = 26, "target chunk";
    /// Who has claimed a shard of a cluster.
    ShardClaim = 27, "shard claim";
    /// A node that an operator wants empty.
    DrainMark = 28, "drain mark";
    /// A node that is about to leave.
    Leaving = 29, "leaving node";
}

impl Kind {
    /// The byte that stands for it.
    #[must_use]
    pub const fn as_byte(self) -> u8 {
        self as u8
    }

    /// What a stored value says that it is.
    #[must_use]
    pub fn of(value: &[u8]) -> Option<Self> {
        value.first().copied().and_then(Self::from_byte)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_byte_and_a_name_of_its_own() {
        for (index, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(kind.as_byte() as usize, index + 1);
            assert_eq!(Kind::from_byte(kind.as_byte()), Some(*kind));
            assert!(Kind::ALL.iter().all(|other| other == kind || other.name() != kind.name()));
        }
        assert_eq!((Kind::from_byte(0), Kind::from_byte(30)), (None, None));
        assert_eq!((Kind::of(&[]), Kind::of(&[15, 9])), (None, Some(Kind::Format)));
        assert_eq!(Kind::SplitAsk.to_string(), "split request");
    }
}
