//! Leading a cluster.

use std::collections::BTreeSet;

use shardwright_coordination::InfraError;
use shardwright_placement::ops::{LeadRefused, check_leader};
use shardwright_placement::{
    Holder, MoveReason, NodeAddress, Plan, PlanInput, TargetHeader, TargetUpdate, TargetVersion,
    plan,
};
use shardwright_store::Commit;

use super::attempt::Tried;
use super::error::{LeadError, StepError};
use super::membership::NodeMembership;
use super::planted;
use super::session::Serving;
use super::targets::{Basis, Written};
use crate::fault;
use crate::keyspace::ClusterKey;
use crate::operate::back_off;

const LEAD: &str = "cluster.lead";
const RESIGN: &str = "cluster.resign";
const STEP: &str = "cluster.step";

/// What a leader did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderStep {
    /// What it decided, with the reasons.
    pub plan: Plan,
    /// How many shards got another target.
    pub moved: usize,
    /// The version of targets from then on.
    pub version: TargetVersion,
}

impl NodeMembership {
    /// Becomes the leader, unless another member leads.
    pub async fn try_lead(&self) -> Result<(), LeadError> {
        let mut is_fresh = false;
        for tries in 0..=self.core.options.conflict_retries {
            back_off(&self.core.env, tries).await;
            if self.lease.serving() == Serving::Ended {
                return Err(LeadError::Over);
            }
            let draft = self.core.lock().draft_lead(&self.holder);
            let commit = match draft {
                Ok(commit) => commit,
                Err(_) if !is_fresh => {
                    self.reload_leader().await?;
                    is_fresh = true;
                    continue;
                }
                Err(LeadError::Refused(LeadRefused::AlreadyLeading)) => return Ok(()),
                Err(error) => return Err(error),
            };
            match self.core.commit(LEAD, commit).await? {
                Tried::Stored(_) => {
                    self.core.publish();
                    return Ok(());
                }
                Tried::Conflict | Tried::Overtaken | Tried::SessionGone => {
                    self.reload_leader().await?;
                    is_fresh = true;
                }
            }
        }
        Err(fault::contention(LEAD).into())
    }

    /// Leads no more. Tells whether it did before.
    pub async fn resign(&self) -> Result<bool, InfraError> {
        for tries in 0..=self.core.options.conflict_retries {
            back_off(&self.core.env, tries).await;
            let key = self.core.keys.key(&ClusterKey::Leader);
            let commit = {
                let state = self.core.lock();
                if state.leader().as_ref() != Some(&self.holder) {
                    return Ok(false);
                }
                Commit::builder().expect(key.clone(), state.expect(&ClusterKey::Leader)).delete(key)
            };
            match self.core.commit(RESIGN, commit).await? {
                Tried::Stored(_) | Tried::Overtaken => {
                    self.core.publish();
                    return Ok(true);
                }
                Tried::Conflict | Tried::SessionGone => {
                    self.core.reload(RESIGN, [ClusterKey::Leader]).await?;
                }
            }
        }
        Err(fault::contention(RESIGN))
    }

    /// Decides where shards should be, and writes it. Only the leader may.
    ///
    /// `loads` says what each shard bears, by its number; without, shards count alike.
    pub async fn lead_step(&self, loads: Option<&[u64]>) -> Result<LeaderStep, StepError> {
        let mut is_fresh = false;
        for tries in 0..=self.core.options.conflict_retries {
            back_off(&self.core.env, tries).await;
            let basis = self.core.lock().basis(true, Some(&self.holder.address));
            let (plan, update) = match self.decide(&basis, loads) {
                Ok(decided) => decided,
                // What is known may be out of date: decide again on what is stored.
                Err(_) if !is_fresh => {
                    self.reload_targets().await?;
                    is_fresh = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            // One that came lately, and whom somebody else means already, must not be taken for
            // gone because its coming is heard of later than that.
            if !is_fresh && plan.moves.iter().any(|one| one.reason == MoveReason::NodeGone) {
                self.reload_targets().await?;
                is_fresh = true;
                continue;
            }
            let before = basis.map.header().version;
            let Some(update) = update else {
                return Ok(LeaderStep { plan, moved: 0, version: before });
            };
            let written = self.core.write_targets(&basis, &update).await;
            self.core.publish();
            match written? {
                Written::All(version, moved) => {
                    let (config, now) = (&self.core.options.config, self.core.now());
                    self.core.lock().saw_plan(&plan, config, now);
                    return Ok(LeaderStep { plan, moved, version });
                }
                Written::Moved | Written::Overtaken => {
                    self.reload_targets().await?;
                    is_fresh = true;
                }
            }
        }
        Err(fault::contention(STEP).into())
    }

    /// What the leader decides, and what it writes for it if that is anything.
    fn decide(
        &self,
        basis: &Basis,
        loads: Option<&[u64]>,
    ) -> Result<(Plan, Option<TargetUpdate>), StepError> {
        let is_over = self.lease.serving() == Serving::Ended;
        if is_over || !basis.members.is_live(self.holder.borrowed()) {
            return Err(StepError::Over);
        }
        if basis.is_unreadable() {
            return Err(StepError::Unreadable);
        }
        let config = &*planted::plans_by(&self.core.options.config);
        let (map, now) = (&*basis.map, self.core.now());
        let header = map.header();
        let leader = basis.leader.as_ref().map(Holder::borrowed);
        // Whether it leads does not depend on what it would write.
        let next = TargetUpdate { header: next_version(header), changes: Vec::new() };
        check_leader(leader, &self.holder, header.version, &next)?;
        let (members, witness) = (&*basis.members, &basis.witness);
        let plan = plan(&PlanInput { map, members, loads, config, now, witness });
        let update = plan.update(map, now);
        Ok((plan, update))
    }

    /// Reads anew what was written, and whether the nodes are there that others meant: one that
    /// came lately, and is not known here yet, would be taken for gone.
    async fn reload_targets(&self) -> Result<(), InfraError> {
        let own = ClusterKey::Member(self.holder.address.clone());
        self.core.reload(STEP, [ClusterKey::Leader, ClusterKey::TargetHead, own]).await?;
        let strangers: BTreeSet<NodeAddress> = {
            let state = self.core.lock();
            let members = state.shared_members();
            let meant = state.map().iter().filter_map(|info| info.target);
            meant.filter(|node| members.get(node.as_str()).is_none()).cloned().collect()
        };
        if strangers.is_empty() {
            return Ok(());
        }
        let keys = strangers.into_iter().flat_map(|node| {
            let marks = [ClusterKey::Leaving(node.clone()), ClusterKey::Drain(node.clone())];
            marks.into_iter().chain([ClusterKey::Member(node)])
        });
        self.core.reload(STEP, keys).await
    }

    async fn reload_leader(&self) -> Result<(), InfraError> {
        let leader = self.core.lock().leader();
        let keys = [
            Some(ClusterKey::Leader),
            Some(ClusterKey::Member(self.holder.address.clone())),
            leader.map(|leader| ClusterKey::Member(leader.address)),
        ];
        self.core.reload(LEAD, keys.into_iter().flatten()).await
    }
}

const fn next_version(header: TargetHeader) -> TargetHeader {
    TargetHeader { version: header.version.next(), ..header }
}
