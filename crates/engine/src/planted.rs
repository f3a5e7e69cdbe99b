//! Bugs planted on purpose, to show that the simulator's oracles can fail.
//!
//! Each [`Defect`] leaves out one of the things by which the engine stays correct on a store that
//! fails. With the feature `planted-bugs` at most one is active in a process; without it the
//! question is a constant `false`.

use shardwright_contracts::OpId;

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
    OpIdChanged = "a second attempt uses another op id",
    RequestOutlivesAsker = "a split request is not bound to its asker's session",
    QuarantineSpreads = "a damaged shard fails whoever claims any",
    OpenKeyKept = "a shard that is over is still offered",
    GateNotWritten = "a pause does not reach the gate",
}

/// The id under which an attempt is made, which only a defect makes another than the first one's.
pub(crate) fn op_of_attempt(op: OpId, attempt: u32) -> OpId {
    if attempt > 1 && is_active(Defect::OpIdChanged) {
        return OpId::from_raw(op.as_raw() | 1 << 40);
    }
    op
}
