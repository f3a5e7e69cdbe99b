//! Faults around the system, by name, so that a sweep can report which occurred.

/// Declares faults, each with its name in tables.
macro_rules! faults {
    ($(#[$about:meta])+ $kind:ident { $($name:ident = $words:literal,)+ }) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $kind {
            $(#[doc = $words] $name,)+
        }

        impl $kind {
            /// Every fault.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Name in tables.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)+
                }
            }
        }
    };
}

pub(crate) use faults;

faults! {
    /// A fault around the in-memory reference.
    Fault {
        RequestLost = "request lost",
        RequestDelayed = "request delayed",
        RequestDuplicated = "request duplicated",
        RequestLate = "request arrived after its sender had moved on",
        ReplyLost = "reply lost after the effect",
        ReplyDelayed = "reply delayed",
        ReplyDuplicated = "reply duplicated",
        ReplyLate = "reply arrived after its addressee had moved on",
        Reordered = "message overtook an earlier one",
        WorkerAsleep = "worker paused",
        WorkerAsleepBeyondLease = "worker paused for longer than its leases",
        WorkerCrashed = "worker crashed and lost its state",
        ClockJumped = "clock jumped forward",
        DeadlineHit = "a request was sent exactly at a deadline",
        ClockSetBack = "a caller's clock was set back",
        Retried = "an unknown outcome was retried with the same op id",
        GaveUp = "an unknown outcome was never resolved",
        Zombie = "a lease was used after its worker had lost it",
        Resent = "an old request was sent again",
        OpIdReused = "an op id was used again for another operation",
        CursorRegressed = "a cursor was sent back",
        CursorOutOfRange = "a cursor was sent out of its shard",
        CursorOversized = "a key or token longer than allowed was sent",
        CursorMalformed = "a cursor without a key was sent",
        DetailOversized = "a park detail longer than allowed was sent",
        PlanStale = "a split was planned on progress that was never accepted",
        TenantForged = "a lease was used in another tenant's name",
        TenantForeign = "another tenant's shards were requested",
        OwnerForged = "another worker's fence was used",
        FenceForged = "a fence that was never granted was used",
        ShardUnknown = "a missing shard or run was requested",
        ManifestInvalid = "an invalid manifest was registered",
        EndedRunTouched = "a request named an ended run",
        BytesScarce = "the backend had few bytes",
        ShardsScarce = "the backend allowed few shards",
        FencesScarce = "fences were about to run out",
        FloorRaised = "a backup was restored and the fence floor rose",
        ResidualChanged = "an evicted residual split was sent again with another plan",
        PlanForeign = "a split was planned on another shard's range",
        InfraNotApplied = "the infrastructure failed and nothing was applied",
        InfraUnknownApplied = "the infrastructure failed after it had applied the request",
        InfraUnknownNotApplied = "the infrastructure failed, outcome unknown, and applied nothing",
        InfraCorrupt = "the infrastructure found corrupt data",
    }
}

/// Complaints about faults that never occurred.
pub(crate) fn never<'n>(unseen: impl Iterator<Item = &'n str>) -> Vec<String> {
    unseen.map(|words| format!("this fault never occurred: {words}")).collect()
}
