//! Leading a cluster.

use std::collections::BTreeSet;

use shardwright_contracts::InfraError;
use shardwright_engine::transact::{Decided, Decision, Driver, Read, Settled, Transaction};
use shardwright_engine::{Operation, operation};
use shardwright_placement::ops::{LeadRefused, check_leader};
use shardwright_placement::{
    MoveReason, NodeAddress, NodeInstance, Plan, PlanInput, TargetHeader, TargetUpdate,
    TargetVersion, plan,
};
use shardwright_store::{Commit, Revision};

use super::error::{LeadError, LeaderStepError};
use super::membership::NodeMembership;
use super::session::Serving;
use super::targets::{Basis, Writing};
use crate::keys::ClusterKey;

const LEAD: Operation = operation!("cluster.lead");
const RESIGN: Operation = operation!("cluster.resign");
const STEP: Operation = operation!("cluster.step");

/// Result of a leader's step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderStep {
    /// The plan, with its reasons.
    pub plan: Plan,
    /// Number of shards with a new target.
    pub moved: usize,
    /// Version of the targets after the step.
    pub version: TargetVersion,
}

impl NodeMembership {
    /// Becomes the leader, unless another member leads.
    pub async fn try_lead(&self) -> Result<(), LeadError> {
        if self.lease.serving() == Serving::Ended {
            return Err(LeadError::Over);
        }
        self.core.driver.transact(&mut Candidacy { node: self, is_fresh: false }).await
    }

    /// Resigns as leader. Returns whether the node was the leader.
    pub async fn resign(&self) -> Result<bool, InfraError> {
        self.core.driver.transact(&mut Resignation { node: self, is_overtaken: false }).await
    }

    /// Plans where shards should be, and writes the targets. Only the leader may.
    ///
    /// `loads` has the load of each shard, by number. Without it, shards count alike.
    pub async fn lead_step(&self, loads: Option<&[u64]>) -> Result<LeaderStep, LeaderStepError> {
        let mut step = Step { node: self, loads, is_fresh: false, writing: None };
        self.core.driver.transact(&mut step).await
    }

    /// Returns the leader's plan, and the targets to write if any change.
    fn decide(
        &self,
        basis: &Basis,
        loads: Option<&[u64]>,
    ) -> Result<(Plan, Option<TargetUpdate>), LeaderStepError> {
        let is_over = self.lease.serving() == Serving::Ended;
        if is_over || !basis.members.is_live(self.holder.borrowed()) {
            return Err(LeaderStepError::Over);
        }
        if basis.is_unreadable() {
            return Err(LeaderStepError::Unreadable);
        }
        let config = &self.core.options.config;
        let (map, now) = (&*basis.map, self.core.now());
        let header = map.header();
        let leader = basis.leader.as_ref().map(NodeInstance::borrowed);
        // The check does not depend on the changes.
        let next = TargetUpdate { header: next_version(header), changes: Vec::new() };
        check_leader(leader, &self.holder, header.version, &next)?;
        let (members, observations) = (&*basis.members, &basis.observations);
        let plan = plan(&PlanInput { map, members, loads, config, now, observations });
        let update = plan.update(map, now);
        Ok((plan, update))
    }

    /// Reloads the targets, and the membership of unknown target nodes. A node that joined recently
    /// may be missing from the view, and must not count as gone.
    async fn reload_targets(&self) -> Result<(), InfraError> {
        let own = ClusterKey::Member(self.holder.address.clone());
        self.core.reload(STEP, [ClusterKey::Leader, ClusterKey::TargetHead, own]).await?;
        let strangers: BTreeSet<NodeAddress> = {
            let state = self.core.lock();
            let members = state.shared_members();
            let targets = state.map().iter().filter_map(|info| info.target);
            targets.filter(|node| members.get(node.as_str()).is_none()).cloned().collect()
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

/// Makes a node the leader.
struct Candidacy<'n> {
    node: &'n NodeMembership,
    is_fresh: bool,
}

impl Transaction for Candidacy<'_> {
    type Basis = ();
    type Answer = ();
    type Output = ();
    type Error = LeadError;

    fn operation(&self) -> Operation {
        LEAD
    }

    fn first_read(&self) -> Read {
        Read::Cached
    }

    async fn load(&mut self, read: Read) -> Result<((), Read), InfraError> {
        self.is_fresh = read == Read::Fresh;
        if self.is_fresh {
            self.node.reload_leader().await?;
        }
        Ok(((), read))
    }

    async fn decide(&mut self, (): &()) -> Decided<(), LeadError> {
        if self.node.lease.serving() == Serving::Ended {
            return Ok(Decision::Refuse(LeadError::Over));
        }
        let draft = self.node.core.lock().draft_lead(&self.node.holder);
        Ok(match draft {
            Ok(commit) => Decision::Commit(commit, ()),
            Err(LeadError::Refused(LeadRefused::AlreadyLeading)) if self.is_fresh => {
                Decision::Answer(())
            }
            Err(refusal) => Decision::Refuse(refusal),
        })
    }

    fn finish(&mut self, (): (), (): (), stored: Option<(&Commit, Revision)>) {
        if stored.is_some() {
            self.node.core.note_stored(stored);
            self.node.core.publish();
        }
    }
}

/// Resigns the leadership.
struct Resignation<'n> {
    node: &'n NodeMembership,
    is_overtaken: bool,
}

impl Transaction for Resignation<'_> {
    type Basis = ();
    type Answer = bool;
    type Output = bool;
    type Error = InfraError;

    fn operation(&self) -> Operation {
        RESIGN
    }

    fn first_read(&self) -> Read {
        Read::Cached
    }

    async fn load(&mut self, read: Read) -> Result<((), Read), InfraError> {
        if read == Read::Fresh && !self.is_overtaken {
            self.node.core.reload(RESIGN, [ClusterKey::Leader]).await?;
        }
        Ok(((), read))
    }

    async fn decide(&mut self, (): &()) -> Decided<bool, InfraError> {
        if self.is_overtaken {
            // The current leadership is a later one than the one that was given up.
            return Ok(Decision::Answer(true));
        }
        let key = self.node.core.keys.key(&ClusterKey::Leader);
        let state = self.node.core.lock();
        if state.leader().as_ref() != Some(&self.node.holder) {
            return Ok(Decision::Answer(false));
        }
        let expected = state.expect(&ClusterKey::Leader);
        Ok(Decision::Commit(Commit::builder().expect(key.clone(), expected).delete(key), true))
    }

    fn not_stored(&mut self, _: bool, settled: &Settled) {
        self.is_overtaken |= matches!(settled, Settled::Overtaken(_));
    }

    fn finish(&mut self, (): (), did: bool, stored: Option<(&Commit, Revision)>) -> bool {
        self.node.core.note_stored(stored);
        if did {
            self.node.core.publish();
        }
        did
    }
}

/// One step of a leader.
struct Step<'n> {
    node: &'n NodeMembership,
    loads: Option<&'n [u64]>,
    is_fresh: bool,
    writing: Option<Writing>,
}

impl Transaction for Step<'_> {
    type Basis = Basis;
    type Answer = (Plan, TargetVersion);
    type Output = LeaderStep;
    type Error = LeaderStepError;

    fn operation(&self) -> Operation {
        STEP
    }

    fn first_read(&self) -> Read {
        Read::Cached
    }

    async fn load(&mut self, read: Read) -> Result<(Basis, Read), InfraError> {
        self.is_fresh = read == Read::Fresh;
        if self.is_fresh {
            self.node.reload_targets().await?;
        }
        let NodeMembership { core, holder, .. } = self.node;
        let basis = core.lock().leader_basis(&holder.address);
        Ok((basis, read))
    }

    async fn decide(&mut self, basis: &Basis) -> Decided<(Plan, TargetVersion), LeaderStepError> {
        let (plan, update) = match self.node.decide(basis, self.loads) {
            Ok(decided) => decided,
            Err(refusal) => return Ok(Decision::Refuse(refusal)),
        };
        // A node that joined recently may be the target of another leader's decision, and its join
        // may become known here later. So a cached view must not treat it as gone.
        if !self.is_fresh && plan.moves.iter().any(|one| one.reason == MoveReason::NodeGone) {
            return Ok(Decision::Reload);
        }
        let before = basis.map.header().version;
        let Some(update) = update else { return Ok(Decision::Answer((plan, before))) };
        let (commit, writing) = self.node.core.begin_targets(basis, update)?;
        self.writing = Some(writing);
        Ok(Decision::Commit(commit, (plan, before)))
    }

    async fn commit(&mut self, _: &Driver, commit: &Commit) -> Result<Settled, InfraError> {
        let core = &self.node.core;
        let written = core.write_targets(self.writing.as_mut(), commit).await;
        core.publish();
        written
    }

    fn finish(
        &mut self,
        _: Basis,
        (plan, before): (Plan, TargetVersion),
        stored: Option<(&Commit, Revision)>,
    ) -> LeaderStep {
        let Some(writing) = self.writing.take().filter(|_| stored.is_some()) else {
            return LeaderStep { plan, moved: 0, version: before };
        };
        let core = &self.node.core;
        let (config, now) = (&core.options.config, core.now());
        core.lock().saw_plan(&plan, config, now);
        LeaderStep { plan, moved: writing.moved, version: writing.version }
    }
}

const fn next_version(header: TargetHeader) -> TargetHeader {
    TargetHeader { version: header.version.next(), ..header }
}
