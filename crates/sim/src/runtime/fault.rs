//! Faults between processes and the store, by name.

use crate::fault::faults;

faults! {
    /// A fault around the store.
    StoreFault {
        CommitLost = "commit lost before it was applied",
        CommitLate = "commit applied after its sender had given up",
        CommitDuplicated = "commit delivered again later",
        ReplyLost = "reply lost after the commit was applied",
        ConnectionReset = "connection reset with unknown outcome",
        NotApplied = "commit refused as not applied",
        Overtaken = "commit overtaken by a later one",
        ReadFailed = "read failed",
        ReadStale = "read of an older state",
        ScanMoved = "scan of a compacted state",
        WatchDelayed = "watch delayed",
        WatchBroken = "watch broken with a gap",
        WatchCompacted = "watch behind a compaction",
        SessionEndedEarly = "session ended before its TTL",
        SessionOutlived = "session outlived its TTL",
        KeepAliveLost = "keep-alive lost",
        Compacted = "history compacted",
        DiskFull = "commit refused by a full disk",
        ConflictStorm = "storm of conflicting writes",
        Partitioned = "process cut off from the store",
        RepliesCut = "process cut off from the store's replies",
        ProcessCrashed = "process crashed, its session left behind",
        ProcessPaused = "process paused",
        PausedBeyondLease = "process paused for longer than its leases",
        ClockJumped = "wall clock of a process set forward",
        ClockSetBack = "wall clock of a process set back",
        CallAbandoned = "call abandoned by its caller",
        RecordDamaged = "record damaged",
        Retried = "unknown outcome retried with the same op id",
        GaveUp = "unknown outcome never resolved",
        Misuse = "request that must be refused",
    }
}

/// The faults around a store that can occur in any kind of world.
pub(crate) const OF_ANY_PROCESS: &[StoreFault] = &[
    StoreFault::CommitLost,
    StoreFault::CommitLate,
    StoreFault::CommitDuplicated,
    StoreFault::ReplyLost,
    StoreFault::ConnectionReset,
    StoreFault::NotApplied,
    StoreFault::Overtaken,
    StoreFault::ReadFailed,
    StoreFault::ReadStale,
    StoreFault::ScanMoved,
    StoreFault::WatchDelayed,
    StoreFault::WatchBroken,
    StoreFault::WatchCompacted,
    StoreFault::SessionEndedEarly,
    StoreFault::SessionOutlived,
    StoreFault::KeepAliveLost,
    StoreFault::Compacted,
    StoreFault::DiskFull,
    StoreFault::Partitioned,
    StoreFault::RepliesCut,
    StoreFault::ProcessCrashed,
    StoreFault::ProcessPaused,
    StoreFault::ClockJumped,
    StoreFault::ClockSetBack,
];
