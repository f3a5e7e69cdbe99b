//! Bugs planted around the stored engine: in what it stores, reads, answers and publishes.

use super::bugs;
use crate::oracle::Finding;
use crate::stored;

bugs! {
    /// A bug in the stored engine.
    StoredBug, within 500 seeds, in worlds of live {
        ProgressUncompared: Store, 1, "every commit was requested" =
            "a commit does not compare the shard's progress";
        GateUncompared: Store, 2, "run gate" = "a commit does not compare the run's gate";
        BindingUncompared: Store, 1, "only the holder writes" =
            "a commit does not compare the owner's binding";
        SplitUncompared: Store, 2, "agreement" =
            "a split publishes children without comparing the parent";
        UnknownReturnedAsDone: Store, 0, "acknowledged means stored" =
            "an unknown outcome is returned as done";
        UnknownReturnedAsNotApplied: Store, 1, "refused means no effect" =
            "an unknown outcome is returned as not applied";
        CachedRefusalReturned: Store, 3, "refusals are true" =
            "a refusal is decided on an old state";
        LiveOwnerOverthrown: Store, 2, "refusals are true" =
            "a shard is taken from an owner whose lease and session are live";
        SkewIgnored: Config, 0, "grants" =
            "a lease is taken over at its deadline without skew allowance";
        EndedSessionIgnored: Store, 0, "only the holder writes" =
            "a lease whose session has ended still counts";
        BindingOutlivesSession: Store, 0, "session bindings" =
            "a binding is not bound to its session";
        ChildStartsLate: Store, 0, "tiling" = "a split's child is stored without its first key";
        CursorUnread: Store, 124, "cursors" = "a load omits the cursor of a held shard";
        WatermarkAhead: Store, 0, "watermark" = "a watermark is stored behind an unfinished key";
        UnfinishedReadAsDone: Store, 70, "every key processed" =
            "a list reads active shards as done";
        EndedReadAsActive: Store, 81, "terminal stays terminal" =
            "a load reads an ended run as active";
        DamageSpreads: Store, 0, "quarantine" =
            "after one damaged record, every record of progress is read as damaged";
        GrantDropped: Store, 0, "events follow commits" =
            "the commit of a new owner is dropped and answered as done";
        UnparkKeepsFence: Store, 0, "fences rise" = "unparking stores no new fence";
        SplitUncounted: Store, 0, "counts equal a recount" = "a split does not count its children";
        QuotaUncompared: Store, 13, "counts equal a recount" =
            "counters are written without a comparison";
        ReservationKept: Store, 0, "counts equal a recount" = "a deleted run keeps its reservation";
        StageKept: Store, 0, "records are consistent" = "a run that begins or ends keeps its stage";
        LimitsHalved: Config, 4, "refusals are true" =
            "shards are refused at half of the limit";
        StartedBeforeStaged: Store, 0, "counts equal a recount" =
            "a run starts before all its shards are staged";
        RunDeletedFirst: Store, 0, "deletion" = "a run is deleted before its shards";
        ActiveCollected: Store, 0, "shown state existed" = "an active run is collected";
        WatermarkGoesBack: Store, 3, "shown state existed" =
            "a lower watermark is stored over a higher one";
        RelistSkipped: Store, 1206, "liveness" = "a view that missed a change is not listed again";
        ClockGoesBack: Store, 0, "clock mark" = "a restart ignores the stored clock mark";
        MarkRunsAhead: Store, 0, "clock mark" = "a clock mark is an interval too far ahead";
        DefinitionAlone: Store, 0, "records are consistent" =
            "a definition is written without its progress";
        RequestOutlivesRequester: Store, 0, "session bindings" =
            "a split request is not bound to its requester's session";
        QuarantineSpreads: Answer, 0, "quarantine" =
            "a damaged shard fails every claim in its run";
        OpenKeyKept: Store, 0, "records are consistent" = "a shard that has ended is still offered";
        GateNotWritten: Store, 0, "records are consistent" = "a pause does not reach the gate";
        PublishedBeforeStored: Events, 0, "events follow commits" =
            "an event is published before its commit";
        PublishedTwice: Events, 0, "events follow commits" = "an event is published twice";
        WaitingGarbled: Store, 0, "records decode" =
            "the record of a waiting worker cannot be decoded";
        DeclineDeletes: Store, 1, "every commit was requested" =
            "a decline deletes the request instead of emptying it";
        WaitRepeats: Store, 8, "no commit applies twice" =
            "a waiting worker is stored by a commit that applies twice";
        HolderParked: Store, 8, "parking and leases" =
            "a shard that failed too often is parked under its holder";
        ListHidesParks: Answer, 0, "shown state existed" =
            "a list omits why shards are parked";
        RootsHidden: Answer, 0, "shown state existed" =
            "a run is shown without its root shards";
        EndedLeasesListed: Answer, 1, "shown state existed" =
            "a list shows leases that have ended";
        LeasesUncounted: Answer, 0, "shown state existed" = "progress counts no leases";
        LimitIgnored: Backend, 0, "shown state existed" =
            "more candidates are offered than requested";
        LeasesReadAsLonger: Store, 1, "shown state existed" =
            "a view reads leases as an hour longer than they are";
        PauseMadeUp: Answer, 0, "shown state existed" =
            "holders are notified of a pause that did not happen";
        RequestMisdirected: Answer, 0, "shown state existed" =
            "a holder gets another holder's split request";
        ReplayNotifies: Answer, 0, "shown state existed" = "a replay returns a notice";
        PatienceLost: Backend, 0, "refusals are true" = "a split is requested with a wait of zero";
        RequestForestalled: Backend, 0, "refusals are true" =
            "a split request meets an earlier one that no worker made";
        OwnReleaseUnseen: Answer, 0, "refusals are true" =
            "a process does not offer a shard that it has just released";
        DeclineStretched: Backend, 89, "refusals are true" =
            "a decline lasts longer than the holder requested";
    }
}

fn live(bug: StoredBug, seed: u64) -> Vec<Finding> {
    stored::live_with(seed, stored::ACTS, false, Some(bug)).findings
}
