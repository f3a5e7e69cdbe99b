//! Bugs planted on purpose, to show that the simulator's oracles can fail.
//!
//! Each [`Defect`] leaves out one of the things by which no call is lost and no two nodes serve one
//! shard. With the feature `planted-bugs` at most one is active in a process; without it the
//! question is a constant `false`.

shardwright_coordination::defects! {
    OwnershipNotRechecked = "ownership is looked at before the lock and not again under it",
    FixedShardUnlocked = "an object that its id puts into a shard takes no lock",
    NestedNotAdmitted = "a draining shard refuses parts of calls that run in it",
    CallsNotAwaited = "a shard is handed over while calls run in it",
    ReleasedBeforeEvicted = "a shard is released before its objects are gone",
    FenceNotPassed = "objects do not get the fence of the claim",
    SessionIgnored = "a node serves on when its session may be over",
    SecondPlace = "an object that answers a call gets a second place for the next one",
    DeadlineForgotten = "a call that is held waits for longer than it has time",
    LossPanics = "a node panics when it finds that it has lost a shard",
    UnknownRetried = "a call whose outcome is unknown is made again",
}
