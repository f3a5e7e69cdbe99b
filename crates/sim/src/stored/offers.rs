//! What a process offers, compared with its own commits.
//!
//! A process's view of a run may lag behind the store, so a claim may find nothing although a shard
//! is free. But the view includes the process's own commits. So a shard claimed and released
//! through a process, and still free, is offered to its next claim.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_coordination::{IdempotentOutcome, RunStatus, ShardStatus};
use shardwright_store::Revision;

use super::answers::Case;
use super::call_log::{CallLog, CallRecord, Version};
use super::record_checks::Address;
use crate::request::operation::Release;
use crate::request::{Answer, Reply, Request};

/// A process from its start to its end.
pub(crate) type Life = (usize, u32);

/// The shards that processes granted, and those that were released through them.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    claimed: BTreeSet<(Life, Address, ShardId, FenceEpoch)>,
    released: BTreeMap<(Address, ShardId), Released>,
}

#[derive(Clone, Copy, Debug)]
struct Released {
    by: Life,
    at: Revision,
    at_ms: u64,
}

impl Offers {
    /// Records an answer.
    pub(super) fn note(
        &mut self,
        address: Address,
        call: &CallRecord,
        outcome: &Answer,
        (at, at_ms): (Revision, u64),
    ) {
        let by = call.life;
        match (call.sent.request(), outcome) {
            (Some(Request::Claim(_)), Ok(Reply::Granted(granted))) => {
                let (shard, fence) = (granted.lease.key().shard, granted.lease.fence());
                self.claimed.insert((by, address, shard, fence));
            }
            (
                Some(Request::Release(Release { lease, .. })),
                Ok(Reply::Applied(IdempotentOutcome::Executed(()))),
            ) => {
                let shard = lease.key().shard;
                if self.claimed.contains(&(by, address, shard, lease.fence())) {
                    self.released.insert((address, shard), Released { by, at, at_ms });
                }
            }
            _ => {}
        }
    }
}

impl CallLog {
    /// Whether a process may have had nothing to offer. Where reads may be stale, it may have tried
    /// the free shards and found them held.
    pub(super) fn may_offer_nothing(&self, case: &Case<'_>) -> bool {
        let is_offered = |shard: ShardId, released: &Released| {
            released.by == case.call.life
                && released.at_ms < case.call.sent_ms
                && !self.harmed.contains(&(case.address, shard))
                && self.versions_since(case.address, released.at).iter().all(is_free(shard))
                && !self.is_tried_by_others(case, released.at_ms)
        };
        let mut of_run = self.offers.released.iter().filter(|((run, _), _)| *run == case.address);
        case.serves_stale() || !of_run.any(|((_, shard), released)| is_offered(*shard, released))
    }

    /// Whether another claim of the same process was in flight at some time since.
    fn is_tried_by_others(&self, case: &Case<'_>, since_ms: u64) -> bool {
        let (tenant, run) = case.address;
        let tries = |call: &CallRecord| {
            let request = call.sent.request();
            matches!(request, Some(Request::Claim(_) | Request::CollectClaimCandidates(_)))
                && call.sent.is_of(tenant, run)
        };
        self.calls.values().any(|call| {
            let is_over = call.ended_ms.is_some_and(|ended_ms| ended_ms < since_ms);
            let is_another = !std::ptr::eq(call, case.call) && call.life == case.call.life;
            is_another && !is_over && tries(call)
        })
    }
}

/// Whether a shard is free by every clock.
fn is_free(id: ShardId) -> impl Fn(&Version) -> bool {
    move |version| {
        let Some(run) = &version.run else { return false };
        let max = run.config.max_shard_retries.map_or(u32::MAX, NonZeroU32::get);
        let is_open = run.status == RunStatus::Active && !run.paused;
        is_open
            && run.shards.get(&id).is_some_and(|shard| {
                shard.status == ShardStatus::Active
                    && shard.lease.is_none()
                    && shard.without_progress < max
            })
    }
}
