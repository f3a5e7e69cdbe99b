//! What must always hold, and what must sometimes happen, as sentences.

use crate::listed::sentences;

sentences! {
    /// What holds of every step from every state.
    Rule,
    /// Some rules.
    Rules(u32) {
        OneWriter = "a fence has one accepted writer: the worker it was granted to",
        ZombiesRefused = "a worker with an old fence, a lease that is over or none changes nothing",
        FencesRise = "a fence rises with every grant and every unpark, and never else changes",
        TerminalStays = "a shard becomes done, split or parked by what says so and nothing else, \
                         and stays so, unless it is unparked",
        LeavesTile = "a split happens as a whole, and the live leaves tile the manifest exactly",
        CursorsAdvance = "a cursor moves to the key that its holder names and else stands still, \
                          never goes back and stays in its range",
        OneEffect = "an operation has one effect while its id is remembered: a retry is answered, \
                     anything else under that id is a conflict",
        EndedStays = "nothing of a run that has ended changes",
        PauseHolds = "a run that is paused hands out nothing",
        LeaseHolds = "a shard is not handed out while a lease of it lasts",
        ParksInNeed = "a shard parks itself just when it was acquired as often without progress as \
                       its run allows and could be handed out, and says so",
        ChangesTakeEffect = "a change of the run does to it what it says, and nothing else",
        DoneMeansDone = "a run ends as done only if every leaf of it is",
        RefusalsChangeNothing = "what is refused or answered again changes no record",
        TenantsApart = "a foreign tenant is refused",
        RefusalsHaveReasons = "nothing is refused for a reason that this world does not give",
        RecordsSound = "every record satisfies its invariants",
    }
}

sentences! {
    /// What must happen somewhere, or else a rule above may be empty.
    Sight,
    /// Some sights.
    Sights(u64) {
        Acquired = "a shard is acquired",
        Renewed = "a lease is renewed and lasts longer",
        Checkpointed = "a cursor moves",
        Completed = "a shard is completed",
        CompletedEmpty = "a shard in which nothing was found is completed",
        Parked = "a shard is parked",
        ParkedItself = "a shard parks itself after too many fruitless acquires",
        Unparked = "a shard is unparked",
        Released = "a lease is given back",
        Replaced = "a shard is replaced by children",
        ReplacedMidway = "a shard is replaced by children, and the first carries its cursor on",
        Residual = "a shard gives its right part away",
        SplitAgain = "a shard that a split made is split",
        Paused = "a run is paused",
        Resumed = "a run goes on",
        RunCompleted = "a run ends as done",
        RunFailed = "a run ends as failed",
        RunCancelled = "a run ends as cancelled",
        CancelledUnderWay = "a run is cancelled while a worker holds a shard",
        TenantMismatch = "a foreign tenant is refused",
        OpIdConflict = "an id that is used for something else is refused",
        RunNotActive = "a worker is refused because the run has ended",
        RunTerminal = "an operator is refused because the run has ended",
        RunUnfinished = "a run is not done while shards are not",
        RunPaused = "an acquire is refused because the run is paused",
        ShardTerminal = "a worker is refused because the shard is done, split or parked",
        NotParked = "an unpark is refused because the shard is not parked",
        StaleFence = "an old fence is refused",
        LeaseExpired = "a lease that is over is refused",
        ExpiredAtDeadline = "a lease is refused at its very deadline",
        AlreadyLeased = "an acquire is refused because somebody holds the shard",
        CheckpointMissingKey = "a checkpoint without a key is refused",
        CursorRegression = "a cursor that goes back is refused",
        CursorOutOfBounds = "a cursor outside the range is refused",
        SplitInvalid = "a split that was planned for another state is refused",
        NoRoom = "a split passes every check and finds no room",
        Replayed = "a retry is answered again",
        ReplayedWithoutLease = "a retry is answered again after the lease is gone",
        ReplayedAfterEnd = "a retry is answered again after the run has ended",
        Evicted = "an operation that may still be retried is forgotten",
        JudgedAnew = "a retry of a forgotten operation is judged anew, and refused",
        AcceptedAnew = "a retry of a forgotten operation is accepted anew",
        ResidualOutlivesLog = "a residual split is answered again after the log forgot it",
        ConflictOutlivesLog = "another residual under its id is refused after the log forgot it",
        TakenOver = "a shard is acquired after the lease of another worker ran out",
        ZombieRefused = "a worker is refused because another has taken over",
        ReleasedThenAcquired = "a shard that was given back is acquired by another worker",
        WorksWhilePaused = "a holder goes on while the run is paused",
        TwoHolders = "two workers hold a shard each",
        RunOpReplayed = "an operator's retry is answered again",
    }
}
