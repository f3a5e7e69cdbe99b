//! Bugs planted on purpose, to show that the simulator's oracles can fail.
//!
//! Each [`Defect`] breaks one rule at the place where the rule is written. With the feature
//! `planted-bugs` at most one is active in a process; without it the question is a constant
//! `false` and the rule is all that is compiled.

use shardwright_contracts::FenceEpoch;

/// Declares the defects of a crate, each with the sentence that says what is wrong, and the switch
/// by which one is activated. The crate has a feature `planted-bugs`.
#[macro_export]
#[doc(hidden)]
macro_rules! defects {
    ($($name:ident = $sentence:literal,)+) => {
        /// A rule that can be broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Defect {
            $(#[doc = $sentence] $name,)+
        }

        impl Defect {
            /// Every defect.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// What is wrong while it is active.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => $sentence,)+
                }
            }
        }

        #[cfg(feature = "planted-bugs")]
        static ACTIVE: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(u8::MAX);

        /// Activates one defect in the whole process, or none.
        #[cfg(feature = "planted-bugs")]
        pub fn activate(defect: Option<Defect>) {
            let chosen = defect.map_or(u8::MAX, |defect| defect as u8);
            ACTIVE.store(chosen, std::sync::atomic::Ordering::Relaxed);
        }

        /// Whether a defect is active.
        #[cfg(feature = "planted-bugs")]
        pub(crate) fn is_active(defect: Defect) -> bool {
            ACTIVE.load(std::sync::atomic::Ordering::Relaxed) == defect as u8
        }

        /// Whether a defect is active: never, in this build.
        #[cfg(not(feature = "planted-bugs"))]
        pub(crate) const fn is_active(_: Defect) -> bool {
            false
        }
    };
}

defects! {
    FenceUnchecked = "a stale fence is accepted",
    DeadlineInclusive = "a lease still counts at its deadline",
    OpLogAfterFence = "the op log is consulted after the fence",
    ReplayMutates = "a replayed checkpoint sets the cursor again",
    UnparkKeepsFence = "unparking gives no new fence",
    AcquireKeepsFence = "acquiring gives no new fence",
    RunGateSkipped = "shards of an ended run can be changed",
    PauseIgnored = "a paused run hands out shards",
    ResidualStartsLate = "a residual shard misses its first key",
    LastChildLost = "the last of a split's children is forgotten",
    ParentNotNarrowed = "a residual split leaves the parent as wide as it was",
    LeaseTenantUnchecked = "a lease of another tenant is accepted",
    LookupIgnoresTenant = "a run is looked up without regard to the tenant",
    NewestEvicted = "a full op log forgets the newest entry",
    OpNotRecorded = "operations are not recorded in the op log",
    PayloadIgnored = "an operation id used for something else counts as a replay",
    CursorRegressionAccepted = "a cursor may move back",
    CursorBoundsUnchecked = "a cursor may leave its shard",
    TerminalUnchecked = "a finished shard can be acquired",
    OwnerUnchecked = "the right fence is accepted from the wrong worker",
    LeaseKeptOnComplete = "completing leaves the lease in place",
    ExpiredLeaseRenewed = "a lease that is over can be renewed",
    ReleaseDoesNotFree = "releasing leaves the lease in place",
    UnparkNotIndexed = "an unparked shard is not offered to claimers",
    ShardLimitUnchecked = "there may be any number of shards",
    WatermarkGoesBack = "the watermark is not remembered",
    ChildCursorAhead = "a split's children claim their first key as done",
    CompleteRunUnchecked = "a run with unfinished shards can be completed",
    RetriesNeverPark = "a shard never parks for want of progress",
    RetriesNotReset = "progress does not forgive earlier attempts",
    CheckpointSilent = "a checkpoint emits no event",
    CapacityStale = "expired leases are not counted as available",
    CandidateSkipped = "the first candidate is never offered",
    RefusedParkFrees = "a park that is refused for its detail gives up the lease",
    ExpiredCountedAsLeased = "progress counts expired leases as leases",
    PauseSpreads = "pausing a run pauses the tenant's other runs",
    NoticeOmitsPause = "holders are not told that the run is paused",
    CooldownIgnored = "a worker may claim without pause",
    AnythingUnparks = "a shard that is not parked can be unparked",
    RunEndsTwice = "an ended run can be ended again",
    BytesLeak = "the bytes of an old cursor are never freed",
    WaitingForever = "a worker that found nothing counts as waiting for good",
    WaitingKept = "a worker that got a shard still counts as waiting",
    RequestOverwritten = "a second request takes the place of one that is open",
    AskerAsksTwice = "a worker may ask two holders at a time",
    DeclineForgotten = "a holder that declined is asked again at once",
    FloorUnchecked = "a lease below the fence floor is accepted",
    FloorNotReached = "a fence below the floor is granted",
    StaleLeaseBlocks = "a lease below the fence floor keeps others from the shard",
    RotationStuck = "every worker is offered the same shard first",
    OutlookSilent = "a look for candidates does not tell when the first lease ends",
    ParkDetailLost = "the explanation of a park is not kept",
    SemanticsLost = "a split's children forget when a key counts as processed",
    EndUntimed = "the time at which a run ends is not kept",
    ParkedUnderHolder = "a shard that failed too often is parked although somebody holds it",
    ParkedInPause = "a shard that failed too often is parked although its run is paused",
    ParkedTooSoon = "a shard is parked one attempt before it has failed too often",
    ParkedForNothing = "a shard that failed too often is parked for another reason",
    ReplayTells = "a replay tells what only a holder is told",
    AskedTooLate = "a request for a split that is over already is taken",
    LateRenewalShortens = "a renewal that comes late shortens the lease",
    UnparkKeepsRoom = "unparking keeps the room of what was said about the park",
    RefusedSplitKeepsRoom = "a split that is refused for want of room keeps some of it",
    ParkToldTwice = "a shard that failed too often tells twice that it is parked",
    UnparkTellsAnother = "unparking tells another fence than the new one",
    AttemptsUntold = "a new holder is not told of the attempts before",
    FenceLeaps = "fences rise so far that soon none is left",
    ExpiryMistimed = "a lease that is over is told to have been shown at its end",
}

/// The floor of the fence that an acquire grants, which only a defect makes another than the run's.
pub(crate) fn floor_of_grant(fence: FenceEpoch, floor: FenceEpoch) -> FenceEpoch {
    if is_active(Defect::FenceLeaps) {
        let far = FenceEpoch::from_raw(fence.as_raw().saturating_add(1 << 62));
        return far.unwrap_or(floor).max(floor);
    }
    floor
}

/// The spec that a residual shard gets, which only a defect makes another than the plan's.
pub(crate) fn residual_spec<'a>(
    plan: &shardwright_contracts::SplitResidualPlan<'a>,
) -> shardwright_contracts::ShardSpecRef<'a> {
    let spec = plan.residual();
    #[cfg(feature = "planted-bugs")]
    if is_active(Defect::ResidualStartsLate) {
        // Plans borrow their keys, so the late start has to outlive everybody.
        let late: &'static [u8] = Box::leak([spec.start(), &[0]].concat().into_boxed_slice());
        return shardwright_contracts::ShardSpecRef::new(late, spec.end(), spec.metadata());
    }
    spec
}
