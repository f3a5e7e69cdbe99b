//! Bugs planted around the in-memory backend: in requests, answers, views and events.

use shardwright_contracts::FenceEpoch;

use super::bugs;
use crate::memory::{self, Settings};
use crate::oracle::Finding;

bugs! {
    /// A bug in the run protocol.
    ProtocolBug, within 200 seeds, in worlds of live {
        FenceUnchecked: Backend, 0, "refusals are true" = "a stale fence is accepted";
        DeadlineInclusive: Backend, 0, "only the holder writes" =
            "a lease still counts at its deadline";
        OpLogAfterFence: Answer, 0, "one effect per op id" =
            "the op log is consulted after the fence";
        AcquireKeepsFence: Answer, 0, "fences rise" = "acquiring gives no new fence";
        RunGateSkipped: Answer, 0, "run gate" = "shards of an ended run can be changed";
        PauseIgnored: Backend, 0, "run gate" = "a paused run grants shards";
        ResidualStartsLate: Answer, 0, "tiling" = "a residual shard misses its first key";
        LastChildLost: Answer, 0, "counters equal a recount" =
            "the last of a split's children is lost";
        ParentNotNarrowed: Answer, 0, "tiling" =
            "a residual split leaves the parent as wide as it was";
        LeaseTenantUnchecked: Backend, 0, "tenants" = "a lease of another tenant is accepted";
        LookupIgnoresTenant: Backend, 0, "tenants" = "a run of another tenant is found";
        NewestEvicted: Backend, 4, "one effect per op id" = "a full op log evicts the newest entry";
        OpNotRecorded: Backend, 0, "one effect per op id" =
            "operations are not recorded in the op log";
        PayloadIgnored: Answer, 0, "one effect per op id" =
            "an op id with another payload counts as a replay";
        CursorRegressionAccepted: Answer, 0, "cursors" = "a cursor may move back";
        CursorBoundsUnchecked: Answer, 0, "cursors" = "a cursor may leave its shard";
        TerminalUnchecked: Answer, 0, "grants" = "a finished shard can be acquired";
        OwnerUnchecked: Backend, 2, "one writer per fence" =
            "the right fence is accepted from the wrong worker";
        LeaseKeptOnComplete: Answer, 0, "counters equal a recount" =
            "completing leaves the lease in place";
        ExpiredLeaseRenewed: Backend, 0, "only the holder writes" =
            "an expired lease can be renewed";
        ReleaseDoesNotFree: Backend, 0, "agreement" = "releasing leaves the lease in place";
        UnparkNotIndexed: Answer, 0, "capacity hints" =
            "an unparked shard is not offered to claimers";
        ShardLimitUnchecked: Config, 32, "limits" = "the number of shards is not limited";
        WatermarkGoesBack: Answer, 0, "watermark" = "the watermark is not kept";
        ChildCursorAhead: Answer, 0, "agreement" =
            "a split's children start with their first key done";
        CompleteRunUnchecked: Answer, 1, "every key processed" =
            "a run with unfinished shards can be completed";
        RetriesNeverPark: Answer, 0, "grants" = "a shard without progress is never parked";
        RetriesNotReset: Answer, 0, "agreement" = "progress does not reset the attempts";
        CheckpointSilent: Events, 0, "events" = "a checkpoint emits no event";
        CapacityStale: Answer, 0, "capacity hints" =
            "a renewal returns the capacity of an earlier time, when expired leases were valid";
        CandidateSkipped: Answer, 0, "capacity hints" = "the first candidate is never offered";
        RefusedParkFrees: Backend, 0, "refusals are inert" =
            "a park that is refused for its detail releases the lease";
        ExpiredCountedAsLeased: Answer, 0, "counters equal a recount" =
            "progress counts expired leases as leases";
        PauseSpreads: Backend, 1, "isolation" = "pausing a run pauses the tenant's other runs";
        NoticeOmitsPause: Answer, 0, "split requests" = "holders are not notified of a pause";
        CooldownIgnored: Config, 2, "grants" = "a worker may claim without a cooldown";
        AnythingUnparks: Answer, 0, "events" = "a shard that is not parked can be unparked";
        RunEndsTwice: Answer, 0, "terminal stays terminal" = "an ended run can be ended again";
        WaitingForever: Backend, 0, "capacity hints" =
            "a worker that found nothing is counted as waiting again and again";
        WaitingKept: Backend, 0, "capacity hints" =
            "a worker waits under another id, which its next grant does not end";
        RequestOverwritten: Answer, 0, "split requests" =
            "a second split request replaces an open one";
        TwoHoldersRequested: Answer, 0, "split requests" =
            "a worker may request splits of two holders at a time";
        DeclineForgotten: Answer, 0, "split requests" =
            "a holder that declined gets another request at once";
        FloorIgnored: Backend, 3, "only the holder writes" =
            "the backend ignores a risen fence floor";
        FloorNotReached: Config, 1, "fences rise" = "a fence below the floor is granted";
        RotationStuck: Backend, 0, "claim rotation" =
            "every worker is offered the same shard first";
        OutlookSilent: Answer, 0, "capacity hints" =
            "a query for candidates omits the first deadline";
        ParkDetailLost: Backend, 0, "agreement" = "the detail of a park is not kept";
        SemanticsLost: Answer, 0, "agreement" = "a split's children lose their cursor semantics";
        EndUntimed: Answer, 0, "agreement" = "the time at which a run ends is not kept";
        ParkedUnderHolder: Backend, 0, "parking and leases" =
            "a shard that failed too often is parked under its holder";
        ParkedInPause: Backend, 2, "parking" =
            "a shard that failed too often is parked although its run is paused";
        ParkedTooSoon: Backend, 0, "parking" = "a shard is parked one attempt too early";
        ParkedForNothing: Events, 0, "parking" =
            "a shard that failed too often is parked for another reason";
        ReplayNotifies: Answer, 0, "split requests" = "a replay returns a notice";
        ExpiredRequestAccepted: Answer, 1, "split requests" =
            "an expired split request is accepted";
        LateRenewalShortens: Answer, 0, "only the holder writes" =
            "a late renewal shortens the lease";
        ParkPublishedTwice: Events, 0, "events" =
            "a shard that failed too often emits two park events";
        UnparkPublishesAnother: Events, 0, "events" =
            "unparking emits another fence than the new one";
        AttemptsUnreported: Answer, 0, "agreement" =
            "a new holder does not get the number of earlier attempts";
        FenceLeaps: Config, 0, "liveness" = "fences begin so high that too few are left";
        ExpiryMistimed: Answer, 0, "refusals are true" =
            "the refusal of an expired lease contains a wrong time";
        RefusalPanics: Answer, 0, "assertions" =
            "a backend panics instead of refusing a stale fence";
    }
}

fn live(bug: ProtocolBug, seed: u64) -> Vec<Finding> {
    memory::live_with(seed, memory::ACTS, false, Some(bug)).findings
}

/// The settings of the backend. The oracles judge by the settings of the world.
pub(crate) fn configured(bug: Option<ProtocolBug>, judged: &Settings) -> Settings {
    // No world has room for so many.
    const ANY_NUMBER: usize = 2_000;
    const NEARLY_LAST: u64 = u64::MAX - 3;
    let mut used = judged.clone();
    match bug {
        Some(ProtocolBug::ShardLimitUnchecked) => {
            used.runtime.max_shards_per_tenant = ANY_NUMBER;
            used.runtime.max_total_shards = ANY_NUMBER;
        }
        Some(ProtocolBug::CooldownIgnored) => used.runtime.claim_cooldown_interval_ms = 0,
        Some(ProtocolBug::FloorNotReached) => used.runtime.fence_floor = FenceEpoch::INITIAL,
        Some(ProtocolBug::FenceLeaps) => {
            let floor = FenceEpoch::from_raw(NEARLY_LAST);
            used.runtime.fence_floor = floor.unwrap_or(used.runtime.fence_floor);
        }
        _ => {}
    }
    used
}
