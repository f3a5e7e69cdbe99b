//! What can go wrong around the system, by name, so that a sweep can say what it has seen.

/// Declares the faults, each with the words by which tables name it.
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

            /// The words by which tables name it.
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
    /// Something that goes wrong around the system.
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
        WorkerCrashed = "worker crashed and forgot everything",
        ClockJumped = "clock jumped forward",
        DeadlineHit = "something was asked at the very moment of a deadline",
        ClockSetBack = "a caller's clock was set back",
        Retried = "an unknown outcome was retried with the same op id",
        GaveUp = "an unknown outcome was never resolved",
        Zombie = "a lease was used after its worker had lost it",
        Resent = "an old request was sent again",
        OpIdReused = "an op id was used again for something else",
        CursorRegressed = "a cursor was sent back",
        CursorOutOfRange = "a cursor was sent out of its shard",
        CursorOversized = "a key or token longer than allowed was sent",
        CursorMalformed = "a cursor without a key was sent",
        DetailOversized = "a park detail longer than allowed was sent",
        PlanStale = "a split was planned on progress that was never accepted",
        TenantForged = "a lease was shown in another tenant's name",
        TenantForeign = "another tenant's shards were asked for",
        OwnerForged = "another worker's fence was shown",
        FenceForged = "a fence that was never granted was shown",
        ShardUnknown = "a shard or run that does not exist was asked for",
        ManifestInvalid = "a manifest that is none was registered",
        EndedRunTouched = "something was asked of a run that has ended",
        BytesScarce = "the backend had few bytes",
        ShardsScarce = "the backend allowed few shards",
        FencesScarce = "fences were about to run out",
        FloorRaised = "a backup was restored and the fence floor rose",
        ResidualChanged = "a forgotten residual split was sent again with another plan",
        PlanForeign = "a split was planned on another shard's range",
        InfraNotApplied = "the machinery below failed and nothing was applied",
        InfraUnknownApplied = "the machinery below failed after it had applied the request",
        InfraUnknownNotApplied = "the machinery below failed unheard, and nothing was applied",
        InfraCorrupt = "the machinery below met corrupt data",
    }
}

/// Complaints about faults that never came.
pub(crate) fn never<'n>(unseen: impl Iterator<Item = &'n str>) -> Vec<String> {
    unseen.map(|words| format!("there was never this fault: {words}")).collect()
}
