//! The stored state of the cluster, read from the history of the store commit by commit.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_cluster::keys::{ClusterKey, ClusterKeys};
use shardwright_cluster::records::{
    ClusterLeaderRecord, ShardClaimRecord, TargetChunkRecord, TargetHeadRecord,
};
use shardwright_contracts::ShardId;
use shardwright_engine::codec::Record;
use shardwright_placement::{
    Claim, Incarnation, NodeAddress, NodeInstance, ShardCount, Target, TargetChunks, TargetHeader,
    TargetSince,
};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{ChangeSet, Revision, SessionId, StoreRange};

use crate::runtime::faults::{Author, Faults};

/// Time within which a leader that can write learns of a change.
pub(super) const LAG_US: u64 = 3_000_000;

/// A current member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemberState {
    pub(super) life: Incarnation,
    pub(super) session: Option<SessionId>,
    /// When it joined, or its drain marks last changed.
    pub(super) since_us: u64,
}

/// The target of a shard, and the progress of its move.
#[derive(Clone, Debug, Default)]
pub(super) struct Assignment {
    pub(super) target: Target,
    /// When the target node was written.
    pub(super) at_us: u64,
    /// Whether the target has claimed the shard since.
    pub(super) arrived: bool,
    /// The previous target node.
    pub(super) before: Option<NodeAddress>,
}

/// A changed target.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) shard: ShardId,
    pub(super) after: Target,
}

/// A step of a commit.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Claim { shard: ShardId, after: Claim },
    Targets { after: TargetHeader, changes: Vec<Change> },
    Leader { after: Option<NodeInstance> },
    Member,
}

/// An incarnation of a node, and its session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) number: Incarnation,
    session: Option<SessionId>,
}

/// A decoded commit.
#[derive(Clone, Debug)]
pub(super) struct DecodedCommit {
    pub(super) revision: Revision,
    pub(super) author: Option<Author>,
    pub(super) steps: Vec<Step>,
    pub(super) members: Vec<(NodeAddress, Option<Life>)>,
    /// Drain and leaving marks, and whether each is set.
    pub(super) marks: Vec<(ClusterKey, bool)>,
}

/// The stored state.
pub(super) struct StoredState {
    pub(super) keys: ClusterKeys,
    everything: StoreRange,
    /// The last revision that was read.
    pub(super) seen: Revision,
    chunks: TargetChunks,
    pub(super) header: TargetHeader,
    pub(super) assignments: BTreeMap<ShardId, Assignment>,
    pub(super) claims: BTreeMap<ShardId, Claim>,
    /// When each claim was written.
    claimed_us: BTreeMap<ShardId, u64>,
    /// The last holder of each shard that released it or ended, and when.
    former_holders: BTreeMap<ShardId, (NodeAddress, u64)>,
    pub(super) members: BTreeMap<NodeAddress, MemberState>,
    leaving: BTreeSet<NodeAddress>,
    pub(super) drained: BTreeSet<NodeAddress>,
    pub(super) leader: Option<NodeInstance>,
}

impl StoredState {
    pub(super) fn new(keys: ClusterKeys, everything: StoreRange, num_shards: ShardCount) -> Self {
        Self {
            keys,
            everything,
            seen: Revision::ZERO,
            chunks: TargetChunks::of(num_shards),
            header: TargetHeader::default(),
            assignments: num_shards.shards().map(|shard| (shard, Assignment::default())).collect(),
            claims: BTreeMap::new(),
            claimed_us: BTreeMap::new(),
            former_holders: BTreeMap::new(),
            members: BTreeMap::new(),
            leaving: BTreeSet::new(),
            drained: BTreeSet::new(),
            leader: None,
        }
    }

    /// Decodes the commits since the last call. They are not applied yet.
    pub(super) fn new_commits(
        &mut self,
        store: &MemoryStore,
        faults: &Faults,
    ) -> Result<Vec<DecodedCommit>, String> {
        let now = store.revision();
        if now == self.seen {
            return Ok(Vec::new());
        }
        let sets = store.inspect(|state| state.changes(&self.everything, self.seen, now));
        let sets = sets.map_err(|_| "the history was compacted before it was read".to_owned())?;
        self.seen = now;
        let authors = std::mem::take(&mut faults.lock().authors);
        sets.iter().map(|set| self.decode(set, authors.get(&set.revision).copied())).collect()
    }

    fn decode(&self, set: &ChangeSet, author: Option<Author>) -> Result<DecodedCommit, String> {
        let mut commit = DecodedCommit {
            revision: set.revision,
            author,
            steps: Vec::new(),
            members: Vec::new(),
            marks: Vec::new(),
        };
        let (mut header, mut changes) = (None, Vec::new());
        for change in &set.changes {
            let Some(key) = self.keys.parse(&change.key) else { continue };
            let now = change.now.as_ref();
            let value = now.map(|found| &found.value[..]);
            match (key, value) {
                (ClusterKey::Shard(shard), Some(value)) => {
                    let after = ShardClaimRecord::decode(value).map_err(undecodable)?.claim;
                    commit.steps.push(Step::Claim { shard, after });
                }
                (ClusterKey::TargetHead, Some(value)) => {
                    header = Some(TargetHeadRecord::decode(value).map_err(undecodable)?.header);
                }
                (ClusterKey::TargetChunk(chunk), Some(value)) => {
                    let targets = TargetChunkRecord::decode(value).map_err(undecodable)?.targets;
                    changes.extend(self.changes(chunk, targets));
                }
                (ClusterKey::Leader, value) => {
                    let leader = value.map(ClusterLeaderRecord::decode).transpose();
                    let after = leader.map_err(undecodable)?.map(|leader| leader.holder);
                    commit.steps.push(Step::Leader { after });
                }
                (ClusterKey::Member(node), _) => {
                    let life = now.map(|found| Life {
                        number: Incarnation::from_raw(set.revision.get()),
                        session: found.session,
                    });
                    commit.members.push((node, life));
                    commit.steps.push(Step::Member);
                }
                (key @ (ClusterKey::Leaving(_) | ClusterKey::Drain(_)), value) => {
                    commit.steps.push(Step::Member);
                    commit.marks.push((key, value.is_some()));
                }
                (ClusterKey::Plan | ClusterKey::Deletion | ClusterKey::Gate(_), _) => {}
                (key, None) => return Err(format!("{key:?} was deleted")),
            }
        }
        if header.is_some() || !changes.is_empty() {
            let after = header.unwrap_or(self.header);
            commit.steps.push(Step::Targets { after, changes });
        }
        Ok(commit)
    }

    fn changes(&self, chunk: u32, targets: Vec<Target>) -> Vec<Change> {
        let shards = self.chunks.shards(chunk).map(|shard| ShardId::from_raw(shard.into()));
        let all = shards.zip(targets).map(|(shard, after)| Change { shard, after });
        all.filter(|change| {
            self.assignments
                .get(&change.shard)
                .is_none_or(|assignment| assignment.target != change.after)
        })
        .collect()
    }

    /// Applies a commit.
    pub(super) fn apply(&mut self, commit: &DecodedCommit, now_us: u64) {
        for (node, member) in &commit.members {
            let ended = match member {
                Some(Life { number, session }) => {
                    let (life, session) = (*number, *session);
                    let member = MemberState { life, session, since_us: now_us };
                    self.members.insert(node.clone(), member)
                }
                None => self.members.remove(node),
            };
            if let Some(ended) = ended {
                self.note_ended(node, ended.life, now_us);
            }
        }
        for (key, is_set) in &commit.marks {
            let (marks, node) = match key {
                ClusterKey::Leaving(node) => (&mut self.leaving, node),
                ClusterKey::Drain(node) => (&mut self.drained, node),
                _ => continue,
            };
            if *is_set {
                marks.insert(node.clone());
            } else {
                marks.remove(node);
            }
            if let Some(member) = self.members.get_mut(node) {
                member.since_us = now_us;
            }
        }
        for step in &commit.steps {
            match step {
                Step::Claim { shard, after } => self.apply_claim(*shard, after, now_us),
                Step::Targets { after, changes } => {
                    self.header = *after;
                    for change in changes {
                        self.retarget(change, now_us);
                    }
                }
                Step::Leader { after } => self.leader.clone_from(after),
                Step::Member => {}
            }
        }
    }

    fn apply_claim(&mut self, shard: ShardId, after: &Claim, now_us: u64) {
        let holder = after.holder.as_ref().map(|holder| &holder.address);
        if let Some(assignment) = self.assignments.get_mut(&shard)
            && holder.is_some()
            && holder == assignment.target.node.as_ref()
        {
            assignment.arrived = true;
        }
        let before = self.claims.insert(shard, after.clone()).and_then(|before| before.holder);
        if let (Some(before), None) = (before, holder) {
            self.former_holders.insert(shard, (before.address, now_us));
        }
        self.claimed_us.insert(shard, now_us);
    }

    fn note_ended(&mut self, node: &NodeAddress, life: Incarnation, now_us: u64) {
        for (shard, claim) in &self.claims {
            let holder = claim.holder.as_ref();
            if holder.is_some_and(|it| it.address == *node && it.incarnation == life) {
                self.former_holders.insert(*shard, (node.clone(), now_us));
            }
        }
    }

    /// Whether a node holds a shard, or held it at some time since `since_us`. A leader that does
    /// not know that it released the shard or ended counts the shard as served by that node.
    pub(super) fn seems_served(&self, shard: ShardId, node: &NodeAddress, since_us: u64) -> bool {
        let held_by = self.holder(shard).map(|holder| &holder.address);
        let former = self.former_holders.get(&shard).filter(|(_, at_us)| *at_us >= since_us);
        held_by == Some(node) || former.is_some_and(|(before, _)| before == node)
    }

    /// The node that has held a shard since `since_us` or before.
    pub(super) fn holder_since(&self, shard: ShardId, since_us: u64) -> Option<&NodeAddress> {
        let is_old = self.claimed_us.get(&shard).is_some_and(|at_us| *at_us <= since_us);
        self.holder(shard).filter(|_| is_old).map(|holder| &holder.address)
    }

    fn retarget(&mut self, change: &Change, now_us: u64) {
        let since_us = now_us.saturating_sub(LAG_US);
        let after = change.after.node.as_ref();
        let is_there = after.is_some_and(|node| self.seems_served(change.shard, node, since_us));
        let Some(assignment) = self.assignments.get_mut(&change.shard) else { return };
        if assignment.target.node != change.after.node {
            assignment.before = assignment.target.node.take();
            assignment.at_us = now_us;
            assignment.arrived = is_there;
        }
        assignment.target = change.after.clone();
    }

    /// The holder of a shard, if it is a member.
    pub(super) fn holder(&self, shard: ShardId) -> Option<&NodeInstance> {
        self.claims.get(&shard)?.holder.as_ref().filter(|holder| self.is_live(holder))
    }

    pub(super) fn is_live(&self, holder: &NodeInstance) -> bool {
        self.members.get(&holder.address).is_some_and(|member| member.life == holder.incarnation)
    }

    pub(super) fn is_draining(&self, node: &NodeAddress) -> bool {
        self.leaving.contains(node) || self.drained.contains(node)
    }

    /// Since when a node has been a member that does not drain, if it is one.
    pub(super) fn open_since(&self, node: &NodeAddress) -> Option<u64> {
        let member = self.members.get(node).filter(|_| !self.is_draining(node))?;
        Some(member.since_us)
    }
}

impl Assignment {
    pub(super) const fn is_moved(&self) -> bool {
        matches!(self.target.since, TargetSince::Moved(_))
    }
}

fn undecodable(error: shardwright_engine::codec::DecodeError) -> String {
    format!("a stored record cannot be decoded: {error}")
}
