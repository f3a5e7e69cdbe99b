//! What a bug changes around the stored engine's backend: requests and answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use shardwright_contracts::{LogicalTime, RunId, ShardId, TenantId};
use shardwright_coordination::error::reason::{NoneAvailable, SplitAlreadyRequested};
use shardwright_coordination::{CoordError, HolderNotice, InfraError, SplitRequest};

use super::stored::StoredBug;
use crate::request::{HolderAct, Request};
use crate::system::{Answer, Outcome};

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

    /// Changes a request on its way; returns an answer if it is swallowed.
    pub(crate) fn asked(
        &self,
        process: usize,
        tenant: TenantId,
        request: &mut Request,
        now_ms: u64,
    ) -> Option<Outcome> {
        let address = (tenant, request.run());
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let now = LogicalTime::from_millis(now_ms);
        match (self.bug, request) {
            (StoredBug::LimitIgnored, Request::Candidates { limit, .. }) => *limit = usize::MAX,
            (StoredBug::PatienceLost, Request::RequestSplit { expires_at, .. }) => {
                *expires_at = now;
            }
            (
                StoredBug::DeclineStretched,
                Request::Holder { act: HolderAct::Decline { not_before }, .. },
            ) => *not_before = not_before.saturating_add(not_before.millis_since(now)),
            (StoredBug::QuarantineSpreads, Request::Claim { .. }) => {
                return memory.damaged.get(&address).cloned().map(Err);
            }
            (StoredBug::OwnReleaseUnseen, Request::Claim { .. }) => {
                let left = memory.hidden.get_mut(&(process, address)).filter(|left| **left > 0)?;
                *left -= 1;
                return Some(Err(NoneAvailable { earliest_deadline: None }.into()));
            }
            _ => {}
        }
        None
    }

    /// Changes an answer on its way back.
    pub(crate) fn answered(
        &self,
        process: usize,
        tenant: TenantId,
        request: &Request,
        outcome: &mut Outcome,
    ) {
        let address = (tenant, request.run());
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match (self.bug, &mut *outcome) {
            (StoredBug::ListHidesParks, Ok(Answer::Shards(shards))) => {
                shards.iter_mut().for_each(|shard| shard.park_reason = None);
            }
            (StoredBug::RootsHidden, Ok(Answer::Run(run))) => run.root_shards.clear(),
            (StoredBug::LeasesUncounted, Ok(Answer::Progress(progress))) => progress.leased = 0,
            (StoredBug::HintsOverdue, Ok(answer)) => {
                let hint = match answer {
                    Answer::Granted(granted) => &mut granted.capacity,
                    Answer::Renewed(renewed) => &mut renewed.capacity,
                    _ => return,
                };
                hint.earliest_deadline = Some(LogicalTime::from_millis(1));
            }
            (StoredBug::PauseMadeUp | StoredBug::RequestMisdirected, Ok(answer)) => {
                self.change_notice(address, request, answer, &mut memory);
            }
            (StoredBug::ReplayTells, Ok(Answer::Noticed { replayed: true, notice })) => {
                *notice = Some(HolderNotice { paused: false, split_request: None });
            }
            (StoredBug::AskedEverywhere, Ok(Answer::Noted)) => {
                if let Request::RequestSplit { key, .. } = request {
                    *outcome = Err(SplitAlreadyRequested { shard: key.shard }.into());
                }
            }
            (
                StoredBug::QuarantineSpreads,
                Err(error @ CoordError::BackendError(InfraError::Corrupt { .. })),
            ) if request.shard().is_some() => {
                memory.damaged.insert(address, error.clone());
            }
            (StoredBug::OwnReleaseUnseen, Ok(Answer::Applied { replayed: false })) => {
                if let Request::Holder { act: HolderAct::Release { .. }, .. } = request {
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
        answer: &mut Answer,
        memory: &mut Memory,
    ) {
        let notice = match answer {
            Answer::Renewed(renewed) => &mut renewed.notice,
            Answer::Noticed { replayed: false, notice } => notice,
            _ => return,
        };
        let (Some(notice), Some(shard)) = (notice, request.shard()) else { return };
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
