//! What a bug changes around the stored engine's backend: requests and answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use shardwright_contracts::{LogicalTime, RunId, ShardId, TenantId};
use shardwright_coordination::error::reason::{NoneAvailable, SplitAlreadyRequested};
use shardwright_coordination::{
    Backend, CoordError, HolderNotice, IdempotentOutcome, InfraError, SplitRequest,
};

use super::stored::StoredBug;
use crate::request::operation::{CollectClaimCandidates, DeclineSplit, RequestSplit};
use crate::request::{Answer, Reply, Request, RequestExt};

/// How many claims in a row find nothing after a release that a bug hides.
const HIDDEN_CLAIMS: u32 = 3;

type Address = (TenantId, RunId);

/// A bug around the backends of all processes of a world.
pub(crate) struct StoredDoctor {
    bug: StoredBug,
    memory: Mutex<Memory>,
}

/// What a bug remembers of earlier answers.
#[derive(Default)]
struct Memory {
    /// How a damaged shard failed, by run.
    damaged: BTreeMap<Address, CoordError>,
    /// What was last requested of a holder, by run.
    requested: BTreeMap<Address, (ShardId, SplitRequest)>,
    /// For how many claims a process does not know of its own release.
    hidden: BTreeMap<(usize, Address), u32>,
}

impl StoredDoctor {
    pub(crate) fn new(bug: StoredBug) -> Self {
        Self { bug, memory: Mutex::default() }
    }

    /// Calls a process's backend past the bug.
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
        let mut answer = backend.call(tenant, request.as_ref()).await;
        self.change_answer(process, tenant, &request, &mut answer);
        answer
    }

    /// Changes a request on its way; returns an answer if it is swallowed.
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

    /// Changes an answer on its way back.
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
            (StoredBug::RootsHidden, Ok(Reply::Run(run))) => run.root_shards.clear(),
            (StoredBug::LeasesUncounted, Ok(Reply::Progress(progress))) => progress.leased = 0,
            (StoredBug::HintsOverdue, Ok(answer)) => {
                let hint = match answer {
                    Reply::Granted(granted) => &mut granted.capacity,
                    Reply::Renewed(renewed) => &mut renewed.capacity,
                    _ => return,
                };
                hint.earliest_deadline = Some(LogicalTime::from_millis(1));
            }
            (StoredBug::PauseMadeUp | StoredBug::RequestMisdirected, Ok(answer)) => {
                self.change_notice(address, request, answer, &mut memory);
            }
            (StoredBug::ReplayTells, Ok(Reply::Noticed(IdempotentOutcome::Replayed(notice)))) => {
                *notice = Some(HolderNotice { paused: false, split_request: None });
            }
            (StoredBug::AskedEverywhere, Ok(Reply::Done)) => {
                if let Request::RequestSplit(RequestSplit { key, .. }) = request {
                    *outcome = Err(SplitAlreadyRequested { shard: key.shard }.into());
                }
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
