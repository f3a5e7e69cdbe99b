//! The duties of a node: which shards it claims and releases, how it hands one over, and how far a
//! drain is.

use std::fmt;

use shardwright_contracts::{FenceEpoch, ShardId};

use crate::address::NodeAddress;
use crate::member::{Membership, NodeInstance};
use crate::ops;
use crate::shard_map::ShardInfo;
use crate::shard_map::ShardMap;

/// The state of a shard on the node that may hand it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Whether the node still admits calls to the shard.
    pub admitting: bool,
    /// Running calls. While the shard drains, only nested calls of these are admitted.
    pub calls: u64,
    /// Objects of the shard on the node.
    pub objects: u64,
    /// Whether there is a release with unknown outcome.
    pub in_doubt: bool,
}

/// The history of a handover on its node.
///
/// While running calls are awaited, new calls are held, and each has its own deadline. So a long
/// call must not block the others. The node stops admitting calls for a short time. If the running
/// calls have not ended by then, it admits calls again and retries later, with growing pauses and
/// growing hold times. After `force_ms` it waits for the running calls to their end, even if held
/// calls time out. A node that leaves the cluster has less time.
///
/// A store without room may refuse the release. No other node can get the shard then, so the node
/// keeps serving and retries with growing pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoverAttempts {
    /// How long the handover has been due.
    pub since_ms: u64,
    /// Time since the node last started or stopped admitting calls.
    pub as_it_is_ms: u64,
    /// How often the node has stopped admitting calls and resumed.
    pub tries: u32,
    /// How often the store has rejected the release without applying it.
    pub refusals: u32,
    /// Whether the release was rejected since the node stopped admitting calls.
    pub is_refused: bool,
    /// Whether the node is leaving the cluster.
    pub leaves: bool,
    /// The timeouts.
    pub timeouts: HandoverTimeouts,
}

/// The timeouts of a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandoverTimeouts {
    /// How long other calls are held on the first attempt. It doubles with each attempt.
    pub hold_ms: u64,
    /// Maximum hold time. It should be less than the timeout of calls.
    pub hold_max_ms: u64,
    /// How long the node serves after the first attempt. It doubles with each attempt.
    pub pause_ms: u64,
    /// Maximum time between attempts.
    pub pause_max_ms: u64,
    /// After this time running calls are awaited to their end.
    pub force_ms: u64,
    /// The same for a leaving node. The shorter of the two applies.
    pub force_leaving_ms: u64,
}

impl Default for HandoverTimeouts {
    fn default() -> Self {
        Self {
            hold_ms: 200,
            hold_max_ms: 1_000,
            pause_ms: 200,
            pause_max_ms: 5_000,
            force_ms: 40_000,
            force_leaving_ms: 10_000,
        }
    }
}

impl HandoverAttempts {
    /// Remaining time before running calls are awaited to their end.
    fn left_ms(self) -> u64 {
        let HandoverTimeouts { force_ms, force_leaving_ms, .. } = self.timeouts;
        let force_ms = if self.leaves { force_ms.min(force_leaving_ms) } else { force_ms };
        force_ms.saturating_sub(self.since_ms)
    }

    /// Remaining time to wait for running calls. [`None`] means to their end.
    fn hold_left_ms(self, forced: bool) -> Option<u64> {
        let HandoverTimeouts { hold_ms, hold_max_ms, .. } = self.timeouts;
        let hold = doubled(hold_ms, self.tries).min(hold_max_ms);
        (!forced).then(|| hold.saturating_sub(self.as_it_is_ms))
    }

    /// Remaining time until the next attempt, because of running calls.
    fn pause_left_ms(self) -> u64 {
        self.pause_ms(self.tries).min(self.left_ms())
    }

    /// Remaining pause after the store refused the release.
    fn refusal_left_ms(self) -> u64 {
        self.pause_ms(self.refusals)
    }

    /// The rest of the pause after the attempt number `times`.
    fn pause_ms(self, times: u32) -> u64 {
        let HandoverTimeouts { pause_ms, pause_max_ms, .. } = self.timeouts;
        let Some(times) = times.checked_sub(1) else { return 0 };
        // A minimum pause, or retries would leave no time to serve.
        let pause = doubled(pause_ms, times).min(pause_max_ms).max(1);
        pause.saturating_sub(self.as_it_is_ms)
    }
}

fn doubled(ms: u64, times: u32) -> u64 {
    ms.saturating_mul(1 << times.min(32))
}

/// The next action of the node for a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverStep {
    /// None: the node does not hold the shard.
    Nothing,
    /// Keep the shard and serve it.
    Serve,
    /// Write the claim again, so that a release with unknown outcome cannot apply later. The node
    /// must not serve before that, because it would miss the claim of another node.
    Keep,
    /// Admit calls again: the target changed back, running calls take too long, or the store
    /// rejects the release.
    AdmitAgain,
    /// Serve for a while and retry. If running calls are the reason, retry as soon as none runs.
    ServeOn {
        /// Maximum time.
        at_most_ms: u64,
    },
    /// Stop admitting calls, except nested calls of running ones.
    StopAdmitting,
    /// Wait for running calls to end.
    AwaitCalls {
        /// Maximum time. [`None`] means to their end.
        at_most_ms: Option<u64>,
    },
    /// Evict the objects.
    Evict,
    /// Release the shard.
    Release,
}

impl Handover {
    /// The next step of `holder` for a shard. A shard is released only after its objects are
    /// evicted, and no object is evicted during a call.
    #[must_use]
    pub fn next_step(
        self,
        info: ShardInfo<'_>,
        holder: &NodeInstance,
        leaving: bool,
        attempts: HandoverAttempts,
    ) -> HandoverStep {
        if info.current != Some(holder.borrowed()) {
            return HandoverStep::Nothing;
        }
        if !must_go(info, holder, leaving) {
            return match self {
                Self { in_doubt: true, .. } => HandoverStep::Keep,
                Self { admitting: true, .. } => HandoverStep::Serve,
                Self { .. } => HandoverStep::AdmitAgain,
            };
        }
        // A node that leaves at once has no time to retry. If the store rejects the release,
        // holding calls helps no caller.
        let forced = leaving || (attempts.left_ms() == 0 && attempts.refusals == 0);
        // No call runs now, so stop admitting at once.
        let for_calls = if self.calls > 0 && !forced { attempts.pause_left_ms() } else { 0 };
        let for_the_store = if leaving { 0 } else { attempts.refusal_left_ms() };
        match self {
            Self { admitting: true, .. } => match for_calls.max(for_the_store) {
                0 => HandoverStep::StopAdmitting,
                at_most_ms => HandoverStep::ServeOn { at_most_ms },
            },
            Self { in_doubt: false, .. } if attempts.is_refused && !leaving => {
                HandoverStep::AdmitAgain
            }
            Self { calls: 1.., .. } => match attempts.hold_left_ms(forced) {
                Some(0) => HandoverStep::AdmitAgain,
                at_most_ms => HandoverStep::AwaitCalls { at_most_ms },
            },
            Self { objects: 1.., .. } => HandoverStep::Evict,
            Self { .. } => HandoverStep::Release,
        }
    }
}

/// Whether a node has to release a shard that it holds. Without a target it keeps the shard.
fn must_go(info: ShardInfo<'_>, holder: &NodeInstance, leaving: bool) -> bool {
    leaving || info.target.is_some_and(|target| *target != holder.address)
}

/// The shards that a node has to claim or release, in ascending order. Their locks are taken in
/// this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardDuties {
    /// Shards to claim.
    pub claim: Vec<ShardId>,
    /// Shards to release.
    pub give_up: Vec<ShardId>,
}

impl ShardDuties {
    /// The duties of `holder`. A leaving node claims nothing.
    #[must_use]
    pub fn of(
        map: &ShardMap,
        holder: &NodeInstance,
        members: &Membership,
        floor: FenceEpoch,
        leaving: bool,
    ) -> Self {
        let mut duties = Self::default();
        for info in map.iter() {
            if info.current == Some(holder.borrowed()) && must_go(info, holder, leaving) {
                duties.give_up.push(info.shard);
            } else if !leaving && ops::claim(info, holder, members, floor).is_ok() {
                duties.claim.push(info.shard);
            }
        }
        duties
    }
}

/// The progress of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainProgress {
    /// Shards that it holds.
    pub held: u32,
    /// Shards whose target it still is.
    pub targeted: u32,
    /// Pinned shards among them. They leave only if the pin policy allows it.
    pub pinned: u32,
}

impl DrainProgress {
    /// Counts the shards of a node.
    #[must_use]
    pub fn of(map: &ShardMap, node: &NodeAddress, members: &Membership) -> Self {
        let mut progress = Self::default();
        for info in map.iter() {
            let held = info.owner(members).is_some_and(|one| one.address == node);
            progress.held += u32::from(held);
            if info.target == Some(node) {
                progress.targeted += 1;
                progress.pinned += u32::from(info.flags.is_pinned());
            }
        }
        progress
    }

    /// Whether the node can stop without affecting calls.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.held == 0 && self.targeted == 0
    }
}

/// Whether every shard is on its target node, and what is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Shards without a target.
    pub without_target: u32,
    /// Shards with a target that no member holds. Their holders may be gone.
    pub unclaimed: u32,
    /// Shards held by another node than their target.
    pub elsewhere: u32,
    /// The first shard that is not on its target node.
    pub first: Option<ShardId>,
}

impl Readiness {
    /// Counts the shards that are not on their target nodes. Only members count as holders.
    #[must_use]
    pub fn of(map: &ShardMap, members: &Membership) -> Self {
        let mut found = Self::default();
        for info in map.iter().filter(|info| !info.is_settled(members)) {
            found.first = found.first.or(Some(info.shard));
            match (info.target, info.owner(members)) {
                (None, _) => found.without_target += 1,
                (Some(_), None) => found.unclaimed += 1,
                (Some(_), Some(_)) => found.elsewhere += 1,
            }
        }
        found
    }

    /// Whether every shard is held by its target, and that is a member.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.first.is_none()
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { without_target, unclaimed, elsewhere, first } = self;
        let Some(first) = first else { return f.write_str("every shard is on its target node") };
        write!(
            f,
            "{without_target} shards have no target, {unclaimed} are not claimed and {elsewhere} \
             are on another node; the first is shard {}",
            first.as_raw()
        )
    }
}
