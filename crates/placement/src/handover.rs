//! What a node has to do about its shards, how it gives one away, and how far a node is that gives
//! all of them away.

use std::fmt;

use shardwright_contracts::{FenceEpoch, ShardId};

use crate::address::NodeAddress;
use crate::member::{Membership, NodeInstance};
use crate::ops;
use crate::shard_map::ShardInfo;
use crate::shard_map::ShardMap;

/// What a node knows of a shard that it may have to give away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Whether the node still admits calls to the shard.
    pub admitting: bool,
    /// Calls that run. While the shard drains, more may come, but only as part of one that runs.
    pub calls: u64,
    /// Objects of the shard that are on the node.
    pub objects: u64,
    /// Whether there is a release with unknown outcome.
    pub in_doubt: bool,
}

/// How a node has fared so far with giving a shard away.
///
/// While the calls that run are waited for, others are held, and each of those has a deadline of
/// its own. So a call that takes long must not be waited for at their cost: the node stops
/// admitting for a moment, and if the calls have not ended by then, it serves on for a while and
/// tries again, less and less often and each time for a longer moment. Only when that has gone on
/// for too long are the calls waited for to their end, whatever becomes of those that are held; and
/// a node that leaves with all its shards has less time for that than one that gives away some.
///
/// A store may refuse the release itself, for as long as it has no room. No other node can have the
/// shard then, so the node serves on, and tries again less and less often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoverAttempts {
    /// How long the shard has been to go.
    pub since_ms: u64,
    /// How long the node has been admitting calls, or has not, since that changed last.
    pub as_it_is_ms: u64,
    /// How often it has stopped admitting calls and taken that back.
    pub tries: u32,
    /// How often the store has refused the release, and surely has not done it.
    pub refusals: u32,
    /// Whether it has done so since the node stopped admitting calls.
    pub is_refused: bool,
    /// Whether the node is about to leave the cluster.
    pub leaves: bool,
    /// How patient it is.
    pub timeouts: HandoverTimeouts,
}

/// How patient a node is with calls that take long, in a shard that it gives away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandoverTimeouts {
    /// How long other calls are held at the first try; twice as long at each other one.
    pub hold_ms: u64,
    /// How long they are held at most, which should be less than calls have time.
    pub hold_max_ms: u64,
    /// How long the node serves on after the first try; twice as long after each other one.
    pub pause_ms: u64,
    /// How long it serves on at most.
    pub pause_max_ms: u64,
    /// After what time calls are waited for to their end.
    pub force_ms: u64,
    /// The same for a node that leaves, if that is less: its operator does not wait for
    /// long.
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
    /// How much longer the node tries to spare those that are held.
    fn left_ms(self) -> u64 {
        let HandoverTimeouts { force_ms, force_leaving_ms, .. } = self.timeouts;
        let force_ms = if self.leaves { force_ms.min(force_leaving_ms) } else { force_ms };
        force_ms.saturating_sub(self.since_ms)
    }

    /// How much longer calls are waited for; [`None`] stands for to their end.
    fn hold_left_ms(self, forced: bool) -> Option<u64> {
        let HandoverTimeouts { hold_ms, hold_max_ms, .. } = self.timeouts;
        let hold = doubled(hold_ms, self.tries).min(hold_max_ms);
        (!forced).then(|| hold.saturating_sub(self.as_it_is_ms))
    }

    /// How much longer the node serves on for the sake of calls before it tries again.
    fn pause_left_ms(self) -> u64 {
        self.pause_ms(self.tries).min(self.left_ms())
    }

    /// How much longer it serves on because the store has refused the release.
    fn refusal_left_ms(self) -> u64 {
        self.pause_ms(self.refusals)
    }

    /// How much is left of the pause after something has happened for the how manieth time.
    fn pause_ms(self, times: u32) -> u64 {
        let HandoverTimeouts { pause_ms, pause_max_ms, .. } = self.timeouts;
        let Some(times) = times.checked_sub(1) else { return 0 };
        // Without any pause it would do nothing else.
        let pause = doubled(pause_ms, times).min(pause_max_ms).max(1);
        pause.saturating_sub(self.as_it_is_ms)
    }
}

fn doubled(ms: u64, times: u32) -> u64 {
    ms.saturating_mul(1 << times.min(32))
}

/// What the node does next about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverStep {
    /// It does not hold the shard.
    Nothing,
    /// It keeps the shard and serves it.
    Serve,
    /// It writes its claim once more, so that a release that is still on its way comes too late.
    /// Until then it must not serve: it would not know when another node has the shard.
    Keep,
    /// It admits calls again: the leader changed its mind, the calls that run take too long for
    /// those that are held, or the store takes no release.
    AdmitAgain,
    /// It serves on for a while, and then tries again. If that is for the sake of calls, it tries
    /// again as soon as none runs.
    ServeOn {
        /// For how long at most.
        at_most_ms: u64,
    },
    /// It stops admitting calls that are not part of one that runs.
    StopAdmitting,
    /// It lets the calls end that run.
    AwaitCalls {
        /// For how long at most; [`None`] stands for to their end.
        at_most_ms: Option<u64>,
    },
    /// It evicts the objects.
    Evict,
    /// It releases the shard.
    Release,
}

impl Handover {
    /// The next step of `holder` with a shard. Nothing is released before everything is evicted,
    /// and nothing is evicted under a call.
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
        // A node that leaves at once has no time to retry. Where the store refuses the release,
        // holding calls to the end of others helps no caller.
        let forced = leaving || (attempts.left_ms() == 0 && attempts.refusals == 0);
        // If no call runs just now, the moment is used.
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

/// Whether a node has to give up a shard that it holds. Without a target, no node would
/// take it.
fn must_go(info: ShardInfo<'_>, holder: &NodeInstance, leaving: bool) -> bool {
    leaving || info.target.is_some_and(|target| *target != holder.address)
}

/// The shards that a node has to do something about, in ascending order, which is the order in
/// which their locks are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardDuties {
    /// Those that it should and may claim.
    pub claim: Vec<ShardId>,
    /// Those that it holds and should not.
    pub give_up: Vec<ShardId>,
}

impl ShardDuties {
    /// What `holder` has to do. One that is leaving claims nothing.
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

/// How far a node is with giving everything away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainProgress {
    /// Shards that it holds.
    pub held: u32,
    /// Shards that are still meant for it.
    pub targeted: u32,
    /// Those among them that are pinned to it, and go only if pins give way.
    pub pinned: u32,
}

impl DrainProgress {
    /// Counts what a node still has.
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

    /// Whether the node may go without a call noticing.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.held == 0 && self.targeted == 0
    }
}

/// Whether every shard is where it should be, and what is missing if not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Shards without a target.
    pub without_target: u32,
    /// Shards with a target that no member holds. Their holders may be gone.
    pub unclaimed: u32,
    /// Shards that another node holds than the one that should.
    pub elsewhere: u32,
    /// The first shard that is not where it should be.
    pub first: Option<ShardId>,
}

impl Readiness {
    /// Counts what a map lacks. A node that is no member holds nothing, whatever it had claimed.
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

    /// Whether every shard's current node is its target, and there.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.first.is_none()
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { without_target, unclaimed, elsewhere, first } = self;
        let Some(first) = first else { return f.write_str("every shard is where it should be") };
        write!(
            f,
            "{without_target} shards have no target, {unclaimed} are not claimed and {elsewhere} \
             are on another node; the first is shard {}",
            first.as_raw()
        )
    }
}
