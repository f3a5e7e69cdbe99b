//! The rules, which must always hold, and the situations, which must occur, as sentences.

use crate::listed::sentences;

sentences! {
    /// What must hold in every step from every state.
    Rule,
    /// A set of rules.
    Rules(u32) {
        OneWriter = "a fence has one accepted writer: the worker it was granted to",
        ZombiesRefused = "a worker with a stale fence or without a live lease changes nothing",
        FencesRise = "every grant and every unpark raises the fence; no other operation changes it",
        TerminalStays = "only complete, split and park make a shard terminal; it stays so, unless \
                         a parked shard is unparked",
        LeavesTile = "a split is atomic, and the live leaves tile the manifest exactly",
        CursorsAdvance = "a cursor moves only to the key that its holder names, never goes back \
                          and stays in its range",
        OneEffect = "an operation has one effect while its id is in the log: a retry is replayed, \
                     another request with that id is a conflict",
        EndedStays = "an ended run and its shards do not change",
        PauseHolds = "a paused run grants no lease",
        LeaseHolds = "a shard with a live lease is not granted",
        ParksWhenExhausted = "a shard parks itself exactly when it could be granted and has no \
                              attempts left, with that reason",
        ChangesTakeEffect = "a change of the run has its effect and no other",
        DoneMeansDone = "a run ends as done only if each of its leaves is done",
        RefusalsChangeNothing = "refusals and replays change no record",
        TenantsApart = "a foreign tenant is refused",
        RefusalsHaveReasons = "every refusal has a reason that is true in the world",
        RecordsSound = "every record satisfies its invariants",
    }
}

sentences! {
    /// What must occur in some step. Otherwise a rule could hold vacuously.
    Situation,
    /// A set of situations.
    Situations(u64) {
        Acquired = "a shard is acquired",
        Renewed = "a renewal extends a lease",
        Checkpointed = "a cursor moves",
        Completed = "a shard is completed",
        CompletedEmpty = "an empty shard is completed",
        Parked = "a shard is parked",
        SelfParked = "a shard parks itself after too many acquires without progress",
        Unparked = "a shard is unparked",
        Released = "a lease is released",
        Replaced = "a shard is replaced by children",
        ReplacedMidway = "a shard is replaced by children, and the first inherits its cursor",
        Residual = "a residual split gives the right part of a shard to a new one",
        SplitAgain = "a derived shard is split",
        Paused = "a run is paused",
        Resumed = "a run is resumed",
        RunCompleted = "a run ends as done",
        RunFailed = "a run ends as failed",
        RunCancelled = "a run ends as cancelled",
        CancelledWhileHeld = "a run is cancelled while a worker holds a shard",
        TenantMismatch = "a foreign tenant is refused",
        OpIdConflict = "an operation id reused for another request is refused",
        RunNotActive = "a worker is refused because the run has ended",
        RunTerminal = "an operator is refused because the run has ended",
        RunUnfinished = "a run with unfinished shards cannot be completed",
        RunPaused = "an acquire is refused because the run is paused",
        ShardTerminal = "a worker is refused because the shard is done, split or parked",
        NotParked = "an unpark is refused because the shard is not parked",
        StaleFence = "a stale fence is refused",
        LeaseExpired = "an expired lease is refused",
        ExpiredAtDeadline = "a lease is refused exactly at its deadline",
        AlreadyLeased = "an acquire is refused because the shard has a holder",
        CheckpointMissingKey = "a checkpoint without a key is refused",
        CursorRegression = "a cursor that goes back is refused",
        CursorOutOfBounds = "a cursor outside the range is refused",
        SplitInvalid = "a split planned for another state of the shard is refused",
        NoRoom = "a split passes every check, but the bounds allow no more shards",
        Replayed = "a retry is replayed",
        ReplayedWithoutLease = "a retry is replayed after the lease has ended",
        ReplayedAfterEnd = "a retry is replayed after the run has ended",
        Evicted = "the log evicts an operation that may still be retried",
        RefusedAfterEviction = "a retry of an evicted operation is refused",
        AcceptedAfterEviction = "a retry of an evicted operation is accepted again",
        ResidualOutlivesLog = "a residual split is replayed after the log evicted it",
        ConflictOutlivesLog = "another residual split with its id conflicts after the eviction",
        TakenOver = "a shard is acquired after the lease of another worker expired",
        ZombieRefused = "a worker is refused because another has taken over the shard",
        ReleasedThenAcquired = "a released shard is acquired by another worker",
        WorksWhilePaused = "a holder continues while the run is paused",
        TwoHolders = "two workers hold a shard each",
        RunOpReplayed = "an operator's retry is replayed",
    }
}
