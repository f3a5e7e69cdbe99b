//! Bugs planted around the stored engine: in what it stores, reads, answers and publishes.

use super::bugs;
use crate::oracle::Finding;
use crate::stored;

bugs! {
    /// A bug in what the stored engine does.
    StoredBug, within 500 seeds, in worlds of live {
        ProgressUncompared: Store, 1, "everything stored was asked for" =
            "a commit does not compare the shard's progress";
        GateUncompared: Store, 2, "run gate" = "a commit does not compare the run's gate";
        BindingUncompared: Store, 1, "only the holder writes" =
            "a commit does not compare the owner's binding";
        SplitUncompared: Store, 2, "agreement" =
            "a split publishes children without comparing the parent";
        UnknownToldAsDone: Store, 0, "what was acknowledged is done" =
            "an unknown outcome is returned as done";
        UnknownToldAsNotApplied: Store, 1, "what was refused is not done" =
            "an unknown outcome is returned as not applied";
        CachedRefusalTold: Store, 3, "refusals are true" = "a refusal is decided on an old state";
        LiveOwnerOverthrown: Store, 2, "refusals are true" =
            "a shard is taken from an owner whose lease and session are live";
        SkewIgnored: Config, 0, "handing out" =
            "a lease is taken over at its deadline without skew allowance";
        EndedSessionIgnored: Store, 0, "only the holder writes" =
            "a lease whose session has ended still counts";
        BindingOutlivesSession: Store, 0, "bound to sessions" =
            "a binding is not bound to its session";
        SplitUncounted: Store, 0, "counts equal a recount" = "a split does not count its children";
        QuotaUncompared: Store, 13, "counts equal a recount" =
            "counters are written without a comparison";
        ReservationKept: Store, 0, "counts equal a recount" = "a deleted run keeps its reservation";
        StartedBeforeStaged: Store, 0, "counts equal a recount" =
            "a run starts before all its shards are staged";
        RunDeletedFirst: Store, 0, "removal" = "a run is deleted before its shards";
        ActiveCollected: Store, 0, "what was shown was there" = "an active run is collected";
        WatermarkGoesBack: Store, 39, "what was shown was there" =
            "a lower watermark is stored over a higher one";
        RelistSkipped: Store, 109, "liveness" = "a view that missed a change is not listed again";
        ClockGoesBack: Store, 0, "the clock's mark" = "a restart ignores the stored clock mark";
        MarkRunsAhead: Store, 0, "the clock's mark" = "a clock mark is an interval too far ahead";
        DefinitionAlone: Store, 0, "records go together" =
            "a definition is written without its progress";
        RequestOutlivesAsker: Store, 0, "bound to sessions" =
            "a split request is not bound to its requester's session";
        QuarantineSpreads: Backend, 0, "quarantine" =
            "a damaged shard fails every claim in its run";
        OpenKeyKept: Store, 0, "records go together" = "a shard that has ended is still offered";
        GateNotWritten: Store, 0, "records go together" = "a pause does not reach the gate";
        ToldBeforeStored: Events, 0, "events of what is stored" =
            "an event is published before its commit";
        ToldTwice: Events, 0, "events of what is stored" = "an event is published twice";
        WaitingGarbled: Store, 0, "everything decodes" =
            "the record of a waiting worker cannot be decoded";
        DeclineDeletes: Store, 1, "everything stored was asked for" =
            "a decline deletes the request instead of emptying it";
        WaitRepeats: Store, 8, "no commit applies twice" =
            "a waiting worker is stored by a commit that applies twice";
        HolderParked: Store, 8, "parking and leases" =
            "a shard that failed too often is parked under its holder";
        ListHidesParks: Backend, 0, "what was shown was there" =
            "a list omits why shards are parked";
        RootsHidden: Backend, 0, "what was shown was there" =
            "a run is shown without its root shards";
        LeasesUncounted: Backend, 0, "what was shown was there" = "progress counts no leases";
        LimitIgnored: Backend, 0, "what was shown was there" =
            "more candidates are offered than requested";
        HintsOverdue: Backend, 0, "what was shown was there" =
            "a hint contains a deadline that has passed";
        PauseMadeUp: Backend, 0, "what was shown was there" =
            "holders are notified of a pause that never was";
        RequestMisdirected: Backend, 0, "what was shown was there" =
            "a holder gets another holder's split request";
        ReplayTells: Backend, 0, "what was shown was there" = "a replay returns a notice";
        PatienceLost: Backend, 0, "refusals are true" = "a split is requested without patience";
        AskedEverywhere: Backend, 0, "refusals are true" =
            "a worker without a request counts as having requested a split";
        OwnReleaseUnseen: Backend, 0, "refusals are true" =
            "a process does not offer what it has just released";
        DeclineStretched: Backend, 89, "refusals are true" =
            "a decline lasts longer than the holder said";
    }
}

fn live(bug: StoredBug, seed: u64) -> Vec<Finding> {
    stored::live_with(seed, stored::ACTS, false, Some(bug)).findings
}
