//! What can go wrong between processes and the store, by name.

use crate::fault::faults;

faults! {
    /// Something that goes wrong around the store.
    StoreFault {
        CommitLost = "commit lost before it was applied",
        CommitLate = "commit applied after its sender had given up",
        CommitDuplicated = "commit delivered again later",
        ReplyLost = "reply lost after the commit was applied",
        ConnectionReset = "connection reset, the outcome unknown",
        NotApplied = "commit refused as not applied",
        Overtaken = "commit overtaken by a later one",
        ReadFailed = "read failed",
        ReadStale = "read of an older state",
        ScanMoved = "scan whose state was compacted away",
        WatchDelayed = "watch delayed",
        WatchBroken = "watch broken with a gap",
        WatchCompacted = "watch behind a compaction",
        SessionEndedEarly = "session ended before its time",
        SessionOutlived = "session outlived its time",
        KeepAliveLost = "sign of life lost",
        Compacted = "history compacted",
        DiskFull = "commit refused by a full disk",
        ConflictStorm = "storm of conflicting writes",
        Partitioned = "process cut off from the store",
        RepliesCut = "process cut off from the store's replies",
        ProcessCrashed = "process crashed, its session left behind",
        ProcessPaused = "process paused",
        PausedBeyondLease = "process paused for longer than its leases",
        ClockJumped = "calendar of a process set forward",
        ClockSetBack = "calendar of a process set back",
        CallAbandoned = "caller went away in the middle of a call",
        RecordDamaged = "record damaged",
        Retried = "unknown outcome retried with the same op id",
        GaveUp = "unknown outcome never resolved",
        Misuse = "request that must be refused",
    }
}

/// The faults around a store that can meet any process.
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
