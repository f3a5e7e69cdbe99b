//! Writing targets: where shards should be.
//!
//! As records, a write consists of the header and every changed chunk, in one commit that compares
//! the header. So versions follow each other whichever process writes. A write that is too large
//! for one commit becomes several versions, each a part of the decision.
//!
//! As text, every shard is a separate commit that compares the shard's key, because claims write
//! the same key. The header is written first, so that writes follow each other here too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use shardwright_contracts::{InfraError, ShardId};
use shardwright_engine::codec::Record;
use shardwright_engine::fault;
use shardwright_engine::transact::{self, Decided, Decision, Read, Settled, Transaction, Tries};
use shardwright_engine::{Operation, operation};
use shardwright_placement::seed_format::SeedShard;
use shardwright_placement::{
    LeaderObservations, Membership, NodeAddress, NodeInstance, ShardMap, Target, TargetChange,
    TargetChunks, TargetHeader, TargetUpdate, TargetVersion,
};
use shardwright_store::{Commit, CommitBuilder, Expect, Revision, Store, StoreLimits};

use super::existence::Existence;
use super::shared::Core;
use super::state::{State, keys_about};
use crate::keys::ClusterKey;
use crate::records::{TargetChunkRecord, TargetHeadRecord};

const WRITE: Operation = operation!("cluster.targets");

/// State that targets are decided on, all at one revision.
pub(super) struct Basis {
    pub(super) map: Arc<ShardMap>,
    pub(super) members: Arc<Membership>,
    pub(super) leader: Option<NodeInstance>,
    pub(super) observations: LeaderObservations,
    head: Expect,
    guards: Guards,
    unreadable: BTreeSet<ClusterKey>,
    chunks: TargetChunks,
}

/// Targets that are being written.
pub(super) struct Writing {
    update: TargetUpdate,
    guards: Guards,
    /// The previous targets.
    map: Arc<ShardMap>,
    /// The parts that do not fit into the first commit. Each is a version of its own.
    rest: VecDeque<Stage>,
    /// Version of the last write.
    pub(super) version: TargetVersion,
    /// Number of shards with a new target.
    pub(super) moved: usize,
}

type Stage = Vec<(ClusterKey, Bytes)>;

/// What must be unchanged when targets are written.
#[derive(Clone)]
struct Guards {
    keys: Vec<(ClusterKey, Expect)>,
    /// The cluster. None for a leader: a cluster with a leader is not deleted.
    existence: Option<Existence>,
}

impl State {
    /// State for a leader to decide targets on. It must still lead when they are written.
    pub(super) fn leader_basis(&self, leader: &NodeAddress) -> Basis {
        self.basis([ClusterKey::Leader, ClusterKey::Member(leader.clone())], None)
    }

    /// State for an operator to decide targets on. When they are written, the cluster must still
    /// exist, and a node named by the operator must still be a member.
    pub(super) fn operator_basis(
        &self,
        existence: Existence,
        member: Option<&NodeAddress>,
    ) -> Basis {
        self.basis(member.map(|node| ClusterKey::Member(node.clone())), Some(existence))
    }

    fn basis(
        &self,
        guards: impl IntoIterator<Item = ClusterKey>,
        existence: Option<Existence>,
    ) -> Basis {
        let keys = guards.into_iter().map(|key| (key.clone(), self.expect(&key))).collect();
        Basis {
            map: self.shared_map(),
            members: self.shared_members(),
            leader: self.leader(),
            observations: self.observations(),
            head: self.expect(&ClusterKey::TargetHead),
            guards: Guards { keys, existence },
            unreadable: self.unreadable_keys(),
            chunks: self.chunks(),
        }
    }
}

impl Basis {
    /// Whether the header cannot be read, so that nothing can be written.
    pub(super) fn is_unreadable(&self) -> bool {
        self.unreadable.contains(&ClusterKey::TargetHead)
    }

    /// Whether the target or the claim of a shard cannot be read.
    pub(super) fn is_quarantined(&self, shard: ShardId) -> bool {
        keys_about(self.chunks, shard).any(|key| self.unreadable.contains(&key))
    }

    /// All targets of a chunk, with the changes applied.
    fn chunk(&self, chunk: u32, changes: &BTreeMap<ShardId, &Target>) -> TargetChunkRecord {
        let shards = self.chunks.shards(chunk).map(|shard| ShardId::from_raw(shard.into()));
        let target = |shard| match (changes.get(&shard), self.map.info(shard)) {
            (Some(target), _) => Target::clone(target),
            (None, Ok(info)) => {
                let (node, flags) = (info.target.cloned(), info.flags.clone());
                Target { node, flags, since: info.since }
            }
            (None, Err(_)) => Target::default(),
        };
        TargetChunkRecord { targets: shards.map(target).collect() }
    }
}

impl Core {
    /// Returns the first commit of decided targets, and the state of the remaining ones.
    pub(super) fn begin_targets(
        &self,
        basis: &Basis,
        update: TargetUpdate,
    ) -> Result<(CommitBuilder, Writing), InfraError> {
        let version = basis.map.header().version.next();
        let header = TargetHeader { version, ..update.header };
        let mut commit = self.head_commit(&basis.guards, basis.head, header);
        let mut rest = VecDeque::new();
        if !self.keys.is_text() {
            rest = self.stages(basis, &update, &commit)?;
            for (key, value) in rest.pop_front().into_iter().flatten() {
                commit = commit.put(self.keys.key(&key), value);
            }
        }
        let (guards, map) = (basis.guards.clone(), Arc::clone(&basis.map));
        let moved = update.changes.len();
        Ok((commit, Writing { update, guards, map, rest, version, moved }))
    }

    /// Writes targets, beginning with their first commit. A partial write counts as overtaken.
    pub(super) async fn write_targets(
        &self,
        writing: Option<&mut Writing>,
        first: &Commit,
    ) -> Result<Settled, InfraError> {
        let settled = self.driver.settle(WRITE, first, Tries::UntilKnown).await?;
        let (Settled::Stored(revision), Some(writing)) = (&settled, writing) else {
            return Ok(settled);
        };
        self.note(first, *revision);
        if self.keys.is_text() {
            self.write_texts(writing, *revision).await
        } else {
            self.write_rest(writing, *revision).await
        }
    }

    async fn write_rest(
        &self,
        writing: &mut Writing,
        mut stored: Revision,
    ) -> Result<Settled, InfraError> {
        while let Some(stage) = writing.rest.pop_front() {
            writing.version = writing.version.next();
            let header = TargetHeader { version: writing.version, ..writing.update.header };
            let mut commit = self.head_commit(&writing.guards, Expect::At(stored), header);
            for (key, value) in stage {
                commit = commit.put(self.keys.key(&key), value);
            }
            match self.commit(WRITE, commit).await? {
                Settled::Stored(revision) => stored = revision,
                Settled::Overtaken(error) | Settled::Full(error) => {
                    return Ok(Settled::Overtaken(error));
                }
                Settled::Conflict(_) | Settled::SessionGone(_) => {
                    return Ok(Settled::Overtaken(partly()));
                }
            }
        }
        Ok(Settled::Stored(stored))
    }

    /// A commit of the header that compares the guards.
    fn head_commit(&self, guards: &Guards, head: Expect, header: TargetHeader) -> CommitBuilder {
        let key = self.keys.key(&ClusterKey::TargetHead);
        let commit = self.guarded(guards).expect(key.clone(), head);
        commit.put(key, TargetHeadRecord { header }.encode())
    }

    fn guarded(&self, guards: &Guards) -> CommitBuilder {
        let commit = guards.keys.iter().fold(Commit::builder(), |commit, (key, expected)| {
            commit.expect(self.keys.key(key), *expected)
        });
        match &guards.existence {
            Some(existence) => existence.compare_in(&self.keys, commit),
            None => commit,
        }
    }

    /// Divides the changed chunks into parts that each fit into a commit with the header. There is
    /// at least one part.
    fn stages(
        &self,
        basis: &Basis,
        update: &TargetUpdate,
        head: &CommitBuilder,
    ) -> Result<VecDeque<Stage>, InfraError> {
        let changed = basis.chunks.changed_by(update);
        let changed = changed.map_err(|error| fault::corrupt(WRITE, error.to_string()))?;
        let changes: BTreeMap<ShardId, &Target> =
            update.changes.iter().map(|change| (change.shard, &change.target)).collect();
        let chunks = changed.into_iter().map(|chunk| {
            let value = basis.chunk(chunk, &changes).encode();
            (ClusterKey::TargetChunk(chunk), value)
        });
        let empty = transact::build(WRITE, head.clone())?;
        let StoreLimits { writes, bytes, .. } = self.store.limits();
        let mut stages = VecDeque::from([Vec::new()]);
        let (mut count, mut size) = (empty.writes().len(), empty.bytes());
        for (key, value) in chunks {
            let more = self.keys.key(&key).as_bytes().len() + value.len();
            let is_full = count + 1 > writes || size + more > bytes;
            if is_full && stages.back().is_some_and(|stage| !stage.is_empty()) {
                stages.push_back(Vec::new());
                (count, size) = (empty.writes().len(), empty.bytes());
            }
            (count, size) = (count + 1, size + more);
            if let Some(stage) = stages.back_mut() {
                stage.push((key, value));
            }
        }
        Ok(stages)
    }

    async fn write_texts(
        &self,
        writing: &mut Writing,
        stored: Revision,
    ) -> Result<Settled, InfraError> {
        let changes = writing.update.changes.clone();
        let wanted = changes.len();
        let shared = &*writing;
        let written = self.each(changes, |change| self.write_text(shared, change)).await;
        let mut moved = 0;
        for written in written {
            moved += usize::from(written?);
        }
        writing.moved = moved;
        if moved == 0 && wanted > 0 {
            return Ok(Settled::Overtaken(partly()));
        }
        Ok(Settled::Stored(stored))
    }

    /// Writes the target of a shard, unless another process has written a different one since.
    async fn write_text(
        &self,
        writing: &Writing,
        change: TargetChange,
    ) -> Result<bool, InfraError> {
        let mut target = TextTarget { core: self, writing, change, is_gone: false };
        self.driver.transact(&mut target).await
    }
}

/// Writes the target of one shard as text. Claims and releases write the same key.
struct TextTarget<'c> {
    core: &'c Core,
    writing: &'c Writing,
    change: TargetChange,
    /// Whether the cluster was deleted meanwhile.
    is_gone: bool,
}

impl Transaction for TextTarget<'_> {
    type Basis = ();
    type Answer = bool;
    type Output = bool;
    type Error = InfraError;

    fn operation(&self) -> Operation {
        WRITE
    }

    fn first_read(&self) -> Read {
        Read::Cached
    }

    async fn load(&mut self, read: Read) -> Result<((), Read), InfraError> {
        if read == Read::Fresh {
            let guards = self.writing.guards.keys.iter().map(|(key, _)| key.clone());
            let keys = guards.chain([ClusterKey::Shard(self.change.shard)]);
            self.core.reload(WRITE, keys).await?;
        }
        Ok(((), read))
    }

    async fn decide(&mut self, (): &()) -> Decided<bool, InfraError> {
        let Writing { guards, map, .. } = self.writing;
        let (core, shard) = (self.core, self.change.shard);
        let key = ClusterKey::Shard(shard);
        let state = core.lock();
        let (Ok(before), Ok(now)) = (map.info(shard), state.map().info(shard)) else {
            return Ok(Decision::Answer(false));
        };
        let is_other = (before.target, before.flags) != (now.target, now.flags);
        let has_changed = |(key, expected): &_| state.expect(key) != *expected;
        if self.is_gone || is_other || guards.keys.iter().any(has_changed) {
            return Ok(Decision::Answer(false));
        }
        let Target { node, flags, .. } = self.change.target.clone();
        let text = SeedShard { target: node, flags, ..SeedShard::of(now) };
        let commit = core
            .guarded(guards)
            .expect(core.keys.key(&key), state.expect(&key))
            .put(core.keys.key(&key), text.to_string());
        Ok(Decision::Commit(commit, true))
    }

    fn not_stored(&mut self, _: bool, settled: &Settled) {
        if let (Settled::Conflict(conflict), Some(ours)) = (settled, self.writing.guards.existence)
        {
            self.is_gone = Existence::in_conflict(&self.core.keys, conflict) != Ok(ours);
        }
    }

    fn finish(&mut self, (): (), is_written: bool, stored: Option<(&Commit, Revision)>) -> bool {
        self.core.note_stored(stored);
        is_written
    }
}

/// The error to report if only a part of the targets was stored.
fn partly() -> InfraError {
    let message =
        "another process wrote targets after an answer was lost, or between two parts".into();
    InfraError::Unknown { operation: WRITE.commit, message }
}
