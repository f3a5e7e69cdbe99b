//! Bugs planted on purpose, to show that the simulator's oracles can fail.
//!
//! Each [`Defect`] leaves out one of the things by which the engine stays correct on a store that
//! fails. With the feature `planted-bugs` at most one is active in a process; without it the
//! question is a constant `false`.

use bytes::Bytes;

shardwright_coordination::defects! {
    ProgressUncompared = "a commit does not compare the shard's progress",
    GateUncompared = "a commit does not compare the run's gate",
    BindingUncompared = "a commit does not compare the owner's binding",
    SplitUncompared = "a split publishes children without comparing the parent",
    UnknownToldAsDone = "an unknown outcome is told as done",
    UnknownToldAsNotApplied = "an unknown outcome is told as not applied",
    CachedRefusalTold = "a refusal decided on a remembered record is told",
    LiveOwnerOverthrown = "a shard is taken from an owner who is alive and in time",
    SkewIgnored = "a lease is taken over at its deadline, whatever clocks may differ by",
    EndedSessionIgnored = "a lease whose session has ended still counts",
    BindingOutlivesSession = "a binding is not bound to its session",
    SplitUncounted = "a split does not count its children",
    QuotaUncompared = "counters are written without being compared",
    ReservationKept = "a run that is taken away keeps its room",
    StartedBeforeStaged = "a run starts before all its shards are staged",
    RunDeletedFirst = "a run is deleted before its shards",
    ActiveCollected = "a run that is active is taken away",
    WatermarkGoesBack = "a lower watermark is stored over a higher one",
    RelistSkipped = "a view that missed something is not listed anew",
    ClockGoesBack = "a restart forgets what time it was",
    MarkRunsAhead = "a mark reaches an interval beyond the time that is told",
    DefinitionAlone = "a definition is written without its progress",
    RequestOutlivesAsker = "a split request is not bound to its asker's session",
    QuarantineSpreads = "a damaged shard fails whoever claims any",
    OpenKeyKept = "a shard that is over is still offered",
    GateNotWritten = "a pause does not reach the gate",
    ToldBeforeStored = "what happens is told before it is stored",
    ToldTwice = "what happened is told twice",
    WaitingGarbled = "what is stored of a worker that waits cannot be read again",
    DeclineDeletes = "a decline deletes what was asked instead of emptying it",
    WaitRepeats = "that a worker waits is stored by what can be applied twice",
    HolderParked = "a shard that failed too often is parked although somebody holds it",
    ListHidesParks = "a list does not tell why shards are parked",
    RootsHidden = "a run is shown without its root shards",
    LeasesUncounted = "progress counts no leases",
    LimitIgnored = "more candidates are offered than were asked for",
    HintsOverdue = "a hint tells of leases that are over",
    PauseMadeUp = "holders are told of a pause that never was",
    RequestMisdirected = "a holder is told what was asked of another",
    ReplayTells = "a replay tells what only a holder is told",
    PatienceLost = "a split is asked for without patience",
    AskedEverywhere = "a worker that asked nobody counts as having asked another holder",
    OwnReleaseUnseen = "a process does not know what was released there before it is told",
    DeclineStretched = "a decline counts for longer than the holder said",
}

/// What is stored of a worker that waits, of which only a defect leaves something out.
pub(crate) fn waiting_as_stored(encoded: Bytes) -> Bytes {
    if is_active(Defect::WaitingGarbled) {
        return encoded.slice(..encoded.len() / 2);
    }
    encoded
}
