//! Bugs around the stored engine's backend: changed requests and answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use shardwright_contracts::{LogicalTime, RunId, ShardId, TenantId, WorkerId};
use shardwright_coordination::error::reason::NoneAvailable;
use shardwright_coordination::{
    Backend, CoordError, HolderNotice, IdempotentOutcome, InfraError, SplitRequest,
};

use super::stored::StoredBug;
use crate::request::operation::{CollectClaimCandidates, DeclineSplit, RequestSplit};
use crate::request::{Answer, Reply, Request, RequestExt};

/// Number of claims in a row that find nothing after a hidden release.
const HIDDEN_CLAIMS: u32 = 3;
/// Offset between a requester's id and the id of the earlier requester that a bug invents. No world
/// has so many workers.
const ANOTHER_WORKER: u64 = 1 << 20;

type Address = (TenantId, RunId);

/// A bug around the backends of all processes of a world.
pub(crate) struct StoredDoctor {
    bug: StoredBug,
    memory: Mutex<Memory>,
}

/// Earlier answers that a bug uses.
#[derive(Default)]
struct Memory {
    /// The failure of a damaged shard, by run.
    damaged: BTreeMap<Address, CoordError>,
    /// The last split request to a holder, by run.
    requested: BTreeMap<Address, (ShardId, SplitRequest)>,
    /// The leases that lists have shown, with the shard's number of acquires.
    leases: BTreeMap<(Address, ShardId), (u32, LogicalTime)>,
    /// Number of further claims for which a process hides its own release.
    hidden: BTreeMap<(usize, Address), u32>,
}

impl StoredDoctor {
    pub(crate) fn new(bug: StoredBug) -> Self {
        Self { bug, memory: Mutex::default() }
    }

    /// Calls a process's backend with the bug.
    pub(crate) async fn call(
        &self,
        backend: &impl Backend,
        process: usize,
        tenant: TenantId,
        mut request: Request,
    ) -> Answer {
        if let Some(answer) = self.change_request(process, tenant, &mut request) {
            return answer;
        }
        if let (StoredBug::RequestForestalled, Request::RequestSplit(split)) = (self.bug, &request)
        {
            let requester = WorkerId::from_raw(split.requester.as_raw() + ANOTHER_WORKER);
            let earlier = Request::RequestSplit(RequestSplit { requester, ..*split });
            // The earlier request may fail.
            let _answer = backend.call(tenant, earlier.as_ref()).await;
        }
        let mut answer = backend.call(tenant, request.as_ref()).await;
        self.change_answer(process, tenant, &request, &mut answer);
        answer
    }

    /// Changes a request before the backend gets it. Returns an answer if the request is dropped.
    fn change_request(
        &self,
        process: usize,
        tenant: TenantId,
        request: &mut Request,
    ) -> Option<Answer> {
        let address = (tenant, request.run_id());
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match (self.bug, request) {
            (
                StoredBug::LimitIgnored,
                Request::CollectClaimCandidates(CollectClaimCandidates { limit, .. }),
            ) => *limit = usize::MAX,
            (StoredBug::PatienceLost, Request::RequestSplit(RequestSplit { patience_ms, .. })) => {
                *patience_ms = 0
            }
            (StoredBug::DeclineStretched, Request::DeclineSplit(DeclineSplit { pause_ms, .. })) => {
                *pause_ms *= 2
            }
            (StoredBug::QuarantineSpreads, Request::Claim(_)) => {
                return memory.damaged.get(&address).cloned().map(Err);
            }
            (StoredBug::OwnReleaseUnseen, Request::Claim(_)) => {
                let left = memory.hidden.get_mut(&(process, address)).filter(|left| **left > 0)?;
                *left -= 1;
                return Some(Err(NoneAvailable { earliest_deadline: None }.into()));
            }
            _ => {}
        }
        None
    }

    /// Changes the answer of the backend.
    fn change_answer(
        &self,
        process: usize,
        tenant: TenantId,
        request: &Request,
        outcome: &mut Answer,
    ) {
        let address = (tenant, request.run_id());
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match (self.bug, &mut *outcome) {
            (StoredBug::ListHidesParks, Ok(Reply::Shards(shards))) => {
                shards.iter_mut().for_each(|shard| shard.park_reason = None);
            }
            (StoredBug::EndedLeasesListed, Ok(Reply::Shards(shards))) => {
                for shard in shards.iter_mut() {
                    let key = (address, shard.shard);
                    if let Some(deadline) = shard.lease_deadline {
                        memory.leases.insert(key, (shard.acquire_count, deadline));
                    } else if let Some((count, deadline)) = memory.leases.get(&key)
                        && *count == shard.acquire_count
                    {
                        shard.lease_deadline = Some(*deadline);
                    }
                }
            }
            (StoredBug::RootsHidden, Ok(Reply::Run(run))) => run.root_shards.clear(),
            (StoredBug::LeasesUncounted, Ok(Reply::Progress(progress))) => progress.leased = 0,
            (StoredBug::PauseMadeUp | StoredBug::RequestMisdirected, Ok(answer)) => {
                self.change_notice(address, request, answer, &mut memory);
            }
            (
                StoredBug::ReplayNotifies,
                Ok(Reply::Noticed(IdempotentOutcome::Replayed(notice))),
            ) => {
                *notice = Some(HolderNotice { paused: false, split_request: None });
            }
            (
                StoredBug::QuarantineSpreads,
                Err(error @ CoordError::BackendError(InfraError::Corrupt { .. })),
            ) if request.shard().is_some() => {
                memory.damaged.insert(address, error.clone());
            }
            (StoredBug::OwnReleaseUnseen, Ok(Reply::Applied(IdempotentOutcome::Executed(())))) => {
                if let Request::Release(_) = request {
                    memory.hidden.insert((process, address), HIDDEN_CLAIMS);
                }
            }
            _ => {}
        }
    }

    fn change_notice(
        &self,
        address: Address,
        request: &Request,
        reply: &mut Reply,
        memory: &mut Memory,
    ) {
        let notice = match reply {
            Reply::Renewed(renewed) => &mut renewed.notice,
            Reply::Noticed(IdempotentOutcome::Executed(notice)) => notice,
            _ => return,
        };
        let (Some(notice), Some(shard)) = (notice, request.shard_id()) else { return };
        if self.bug == StoredBug::PauseMadeUp {
            notice.paused = true;
            return;
        }
        if let Some(requested) = notice.split_request {
            memory.requested.insert(address, (shard, requested));
        }
        let other = memory.requested.get(&address).filter(|(of, _)| *of != shard);
        notice.split_request = other.map_or(notice.split_request, |(_, request)| Some(*request));
    }
}
