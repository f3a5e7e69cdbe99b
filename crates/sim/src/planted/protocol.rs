//! Bugs planted around the in-memory backend: in requests, answers, views and events.

use super::bugs;
use crate::memory::{self, Settings};
use crate::oracle::Finding;

bugs! {
    /// A bug in what the run protocol does.
    ProtocolBug, within 200 seeds, in worlds of live {
        FenceUnchecked: Backend, 0, "refusals are true" = "a stale fence is accepted";
        DeadlineInclusive: Backend, 0, "only the holder writes" =
            "a lease still counts at its deadline";
        OpLogAfterFence: Backend, 0, "one effect per op id" =
            "the op log is consulted after the fence";
        UnparkKeepsFence: Events, 0, "fences rise" = "unparking gives no new fence";
        AcquireKeepsFence: Backend, 0, "fences rise" = "acquiring gives no new fence";
        RunGateSkipped: Backend, 0, "run gate" = "shards of an ended run can be changed";
        PauseIgnored: Backend, 0, "run gate" = "a paused run hands out shards";
        ResidualStartsLate: Backend, 0, "tiling" = "a residual shard misses its first key";
        LastChildLost: Backend, 0, "counters equal a recount" =
            "the last of a split's children is lost";
        ParentNotNarrowed: Backend, 0, "tiling" =
            "a residual split leaves the parent as wide as it was";
        LeaseTenantUnchecked: Backend, 0, "tenants" = "a lease of another tenant is accepted";
        LookupIgnoresTenant: Backend, 0, "tenants" = "a run of another tenant is found";
        NewestEvicted: Backend, 4, "one effect per op id" = "a full op log evicts the newest entry";
        OpNotRecorded: Backend, 0, "one effect per op id" =
            "operations are not recorded in the op log";
        PayloadIgnored: Backend, 0, "one effect per op id" =
            "an op id with another payload counts as a replay";
        CursorRegressionAccepted: Backend, 0, "cursors" = "a cursor may move back";
        CursorBoundsUnchecked: Backend, 0, "cursors" = "a cursor may leave its shard";
        TerminalUnchecked: Backend, 0, "handing out" = "a finished shard can be acquired";
        OwnerUnchecked: Backend, 2, "one writer per fence" =
            "the right fence is accepted from the wrong worker";
        LeaseKeptOnComplete: Backend, 0, "counters equal a recount" =
            "completing leaves the lease in place";
        ExpiredLeaseRenewed: Backend, 0, "only the holder writes" =
            "an expired lease can be renewed";
        ReleaseDoesNotFree: Backend, 0, "agreement" = "releasing leaves the lease in place";
        UnparkNotIndexed: Backend, 7, "claim rotation" =
            "an unparked shard is not offered to claimers";
        ShardLimitUnchecked: Config, 32, "limits" = "the number of shards is not limited";
        WatermarkGoesBack: Backend, 0, "watermark" = "the watermark is not kept";
        ChildCursorAhead: Backend, 0, "agreement" =
            "a split's children claim their first key as done";
        CompleteRunUnchecked: Backend, 1, "every key processed" =
            "a run with unfinished shards can be completed";
        RetriesNeverPark: Backend, 0, "handing out" = "a shard never parks for want of progress";
        RetriesNotReset: Backend, 0, "agreement" = "progress does not reset the attempts";
        CheckpointSilent: Events, 0, "events" = "a checkpoint emits no event";
        CapacityStale: Backend, 0, "capacity hints" = "expired leases are not counted as available";
        CandidateSkipped: Backend, 0, "capacity hints" = "the first candidate is never offered";
        RefusedParkFrees: Backend, 0, "refusals are inert" =
            "a park that is refused for its detail releases the lease";
        ExpiredCountedAsLeased: Backend, 0, "counters equal a recount" =
            "progress counts expired leases as leases";
        PauseSpreads: Backend, 1, "isolation" = "pausing a run pauses the tenant's other runs";
        NoticeOmitsPause: Backend, 0, "split requests" = "holders are not notified of a pause";
        CooldownIgnored: Config, 2, "handing out" = "a worker may claim without a cooldown";
        AnythingUnparks: Backend, 0, "events" = "a shard that is not parked can be unparked";
        RunEndsTwice: Backend, 0, "terminal stays terminal" = "an ended run can be ended again";
        WaitingForever: Backend, 0, "capacity hints" =
            "a worker that found nothing counts as waiting for ever";
        WaitingKept: Backend, 0, "capacity hints" =
            "a worker that got a shard still counts as waiting";
        RequestOverwritten: Backend, 0, "split requests" =
            "a second split request replaces an open one";
        AskerAsksTwice: Backend, 0, "split requests" =
            "a worker may request splits of two holders at a time";
        DeclineForgotten: Backend, 0, "split requests" =
            "a holder that declined may be asked again at once";
        FloorUnchecked: Backend, 1, "only the holder writes" =
            "a lease below the fence floor is accepted";
        FloorNotReached: Backend, 0, "fences rise" = "a fence below the floor is granted";
        StaleLeaseBlocks: Backend, 2, "refusals are true" =
            "a lease below the fence floor blocks the shard";
        RotationStuck: Backend, 0, "claim rotation" =
            "every worker is offered the same shard first";
        OutlookSilent: Backend, 0, "capacity hints" =
            "a look for candidates omits when the first lease ends";
        ParkDetailLost: Backend, 0, "agreement" = "the detail of a park is not kept";
        SemanticsLost: Backend, 0, "agreement" = "a split's children lose their cursor semantics";
        EndUntimed: Backend, 0, "agreement" = "the time at which a run ends is not kept";
        ParkedUnderHolder: Backend, 0, "parking and leases" =
            "a shard that failed too often is parked under its holder";
        ParkedInPause: Backend, 2, "parking" =
            "a shard that failed too often is parked although its run is paused";
        ParkedTooSoon: Backend, 0, "parking" = "a shard is parked one attempt too early";
        ParkedForNothing: Events, 0, "parking" =
            "a shard that failed too often is parked for another reason";
        ReplayTells: Backend, 0, "split requests" = "a replay returns a notice";
        AskedTooLate: Backend, 1, "split requests" = "an expired split request is accepted";
        LateRenewalShortens: Backend, 0, "only the holder writes" =
            "a late renewal shortens the lease";
        ParkToldTwice: Events, 0, "events" = "a shard that failed too often emits two park events";
        UnparkTellsAnother: Events, 0, "events" = "unparking emits another fence than the new one";
        AttemptsUntold: Backend, 0, "agreement" = "a new holder does not learn of earlier attempts";
        FenceLeaps: Config, 0, "liveness" = "fences rise so far that none are left";
        ExpiryMistimed: Backend, 0, "refusals are true" =
            "the refusal of an expired lease contains a wrong time";
        RefusalPanics: Backend, 0, "assertions" =
            "a backend panics instead of refusing a stale fence";
    }
}

fn live(bug: ProtocolBug, seed: u64) -> Vec<Finding> {
    memory::live_with(seed, memory::ACTS, false, Some(bug)).findings
}

/// The settings that the system gets; those that the oracles judge by may change as well.
pub(crate) fn configured(bug: Option<ProtocolBug>, judged: &mut Settings) -> Settings {
    // No world has room for so many.
    const ANY_NUMBER: usize = 2_000;
    const NEARLY_LAST: u64 = u64::MAX - 3;
    if bug == Some(ProtocolBug::FenceLeaps) {
        judged.scarce = None;
        let floor = shardwright_contracts::FenceEpoch::from_raw(NEARLY_LAST);
        judged.runtime.fence_floor = floor.unwrap_or(judged.runtime.fence_floor);
    }
    let mut used = judged.clone();
    match bug {
        Some(ProtocolBug::ShardLimitUnchecked) => {
            used.runtime.max_shards_per_tenant = ANY_NUMBER;
            used.runtime.max_total_shards = ANY_NUMBER;
        }
        Some(ProtocolBug::CooldownIgnored) => used.runtime.claim_cooldown_interval_ms = 0,
        _ => {}
    }
    used
}
