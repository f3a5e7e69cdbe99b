//! Writing where shards should be.
//!
//! As records, a write is the header and every chunk that changes, in one commit that compares the
//! header: so one version follows the other, whoever writes. What is too large for one commit is
//! written as several versions, each of them a part of what was decided.
//!
//! As text, every shard is a commit of its own that compares the shard's key, because whoever
//! claims it writes the same key. The header goes first, so that one write follows the other there
//! too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use shardwright_contracts::ShardId;
use shardwright_coordination::InfraError;
use shardwright_placement::seed_format::SeedShard;
use shardwright_placement::{
    Holder, Membership, NodeAddress, ShardMap, Target, TargetChange, TargetChunks, TargetHeader,
    TargetUpdate, TargetVersion, Witness,
};
use shardwright_store::{Commit, CommitBuilder, Expect, Store, StoreLimits};

use super::attempt::Tried;
use super::core::Core;
use super::planted::{self, Defect};
use super::state::{State, told_by};
use crate::codec::{Record, TargetChunk, TargetHead};
use crate::fault;
use crate::keyspace::ClusterKey;

const WRITE: &str = "cluster.targets";

/// What targets are decided on, all of one moment.
pub(super) struct Basis {
    pub(super) map: Arc<ShardMap>,
    pub(super) members: Arc<Membership>,
    pub(super) leader: Option<Holder>,
    pub(super) witness: Witness,
    head: Expect,
    /// What else must still be so when they are written.
    guards: Vec<(ClusterKey, Expect)>,
    unreadable: BTreeSet<ClusterKey>,
    chunks: TargetChunks,
}

/// What came of writing targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// They are stored: this version, and so many shards.
    All(TargetVersion, usize),
    /// Something else was stored in between: decide anew.
    Moved,
    /// The same, and something of it may have been stored before.
    Overtaken,
}

impl State {
    /// What to decide targets on. A leader must still lead when they are written, and a node that
    /// somebody named must still be a member.
    pub(super) fn basis(&self, by_leader: bool, member: Option<&NodeAddress>) -> Basis {
        let is_guarded = by_leader && !planted::is_active(Defect::LeaderUncompared);
        let leader = is_guarded.then_some(ClusterKey::Leader);
        let member = member.map(|node| ClusterKey::Member(node.clone()));
        let guards = leader.into_iter().chain(member);
        Basis {
            map: self.shared_map(),
            members: self.shared_members(),
            leader: self.leader(),
            witness: self.witness(),
            head: self.expect(&ClusterKey::TargetHead),
            guards: guards.map(|key| (key.clone(), self.expect(&key))).collect(),
            unreadable: self.unreadable_keys(),
            chunks: self.chunks(),
        }
    }
}

impl Basis {
    /// Whether nothing can be written, because it is not known what was before.
    pub(super) fn is_unreadable(&self) -> bool {
        self.unreadable.contains(&ClusterKey::TargetHead)
    }

    /// Whether it is not known where a shard should be, or who has it.
    pub(super) fn is_quarantined(&self, shard: ShardId) -> bool {
        told_by(self.chunks, shard).any(|key| self.unreadable.contains(&key))
    }

    /// Every target of a chunk, with what changes.
    fn chunk(&self, chunk: u32, changes: &BTreeMap<ShardId, &Target>) -> TargetChunk {
        let shards = self.chunks.shards(chunk).map(|shard| ShardId::from_raw(shard.into()));
        let target = |shard| match (changes.get(&shard), self.map.info(shard)) {
            (Some(target), _) => Target::clone(target),
            (None, Ok(info)) => {
                let (node, flags) = (info.target.cloned(), info.flags.clone());
                Target { node, flags, since: info.since }
            }
            (None, Err(_)) => Target::default(),
        };
        TargetChunk { targets: shards.map(target).collect() }
    }
}

impl Core {
    /// Writes targets that were decided on something, if that is still so.
    pub(super) async fn write_targets(
        &self,
        basis: &Basis,
        update: &TargetUpdate,
    ) -> Result<Written, InfraError> {
        if self.keys.is_text() {
            self.write_text(basis, update).await
        } else {
            self.write_chunks(basis, update).await
        }
    }

    async fn write_chunks(
        &self,
        basis: &Basis,
        update: &TargetUpdate,
    ) -> Result<Written, InfraError> {
        let changed = basis.chunks.changed_by(update);
        let changed = changed.map_err(|error| fault::corrupt(WRITE, error.to_string()))?;
        let changes: BTreeMap<ShardId, &Target> =
            update.changes.iter().map(|change| (change.shard, &change.target)).collect();
        let chunks = changed.into_iter().map(|chunk| {
            let value = basis.chunk(chunk, &changes).encode();
            (ClusterKey::TargetChunk(chunk), value)
        });
        let empty = self.head_commit(basis, basis.head, update.header).build();
        let empty = empty.map_err(|error| fault::corrupt(WRITE, error.to_string()))?;
        let stages = self.stages(chunks.collect(), &empty);
        let (mut head, mut version) = (basis.head, basis.map.header().version);
        let mut stored = false;
        for stage in stages {
            version = version.next();
            let header = TargetHeader { version, ..update.header };
            let mut commit = self.head_commit(basis, head, header);
            for (key, value) in stage {
                commit = commit.put(self.keys.key(&key), value);
            }
            match self.commit(WRITE, commit).await? {
                Tried::Stored(revision) => (head, stored) = (Expect::At(revision), true),
                Tried::Overtaken => return Ok(Written::Overtaken),
                Tried::Conflict | Tried::SessionGone if stored => return Ok(Written::Overtaken),
                Tried::Conflict | Tried::SessionGone => return Ok(Written::Moved),
            }
        }
        Ok(Written::All(version, update.changes.len()))
    }

    /// A commit of the header that needs all that must still be so.
    fn head_commit(&self, basis: &Basis, head: Expect, header: TargetHeader) -> CommitBuilder {
        let key = self.keys.key(&ClusterKey::TargetHead);
        let commit = self.guarded(basis).expect(key.clone(), head);
        commit.put(key, TargetHead { header }.encode())
    }

    fn guarded(&self, basis: &Basis) -> CommitBuilder {
        basis.guards.iter().fold(Commit::builder(), |commit, (key, expected)| {
            commit.expect(self.keys.key(key), *expected)
        })
    }

    /// Divides chunks so that each part fits into a commit beside what every one of them has. There
    /// is at least one part.
    fn stages(
        &self,
        chunks: Vec<(ClusterKey, Bytes)>,
        empty: &Commit,
    ) -> Vec<Vec<(ClusterKey, Bytes)>> {
        let StoreLimits { writes, bytes, .. } = self.store.limits();
        let mut stages = vec![Vec::new()];
        let (mut count, mut size) = (empty.writes().len(), empty.bytes());
        for (key, value) in chunks {
            let more = self.keys.key(&key).as_bytes().len() + value.len();
            let is_full = count + 1 > writes || size + more > bytes;
            if is_full && stages.last().is_some_and(|stage| !stage.is_empty()) {
                stages.push(Vec::new());
                (count, size) = (empty.writes().len(), empty.bytes());
            }
            (count, size) = (count + 1, size + more);
            if let Some(stage) = stages.last_mut() {
                stage.push((key, value));
            }
        }
        stages
    }

    async fn write_text(
        &self,
        basis: &Basis,
        update: &TargetUpdate,
    ) -> Result<Written, InfraError> {
        let version = basis.map.header().version.next();
        let header = TargetHeader { version, ..update.header };
        match self.commit(WRITE, self.head_commit(basis, basis.head, header)).await? {
            Tried::Stored(_) => {}
            Tried::Overtaken => return Ok(Written::Overtaken),
            Tried::Conflict | Tried::SessionGone => return Ok(Written::Moved),
        }
        let changes = update.changes.clone();
        let written = self.each(changes, |change| self.write_shard_text(basis, change)).await;
        let mut stored = 0;
        for written in written {
            stored += usize::from(written?);
        }
        if stored == 0 && !update.changes.is_empty() {
            return Ok(Written::Overtaken);
        }
        Ok(Written::All(version, stored))
    }

    /// Writes the target of a shard, unless somebody else has written another one since.
    async fn write_shard_text(
        &self,
        basis: &Basis,
        change: TargetChange,
    ) -> Result<bool, InfraError> {
        let key = ClusterKey::Shard(change.shard);
        for _ in 0..=self.options.conflict_retries {
            let commit = {
                let state = self.lock();
                let infos = (basis.map.info(change.shard), state.map().info(change.shard));
                let (Ok(before), Ok(now)) = infos else { return Ok(false) };
                if (before.target, before.flags) != (now.target, now.flags) {
                    return Ok(false);
                }
                let Target { node, flags, .. } = change.target.clone();
                let text = SeedShard { target: node, flags, ..SeedShard::of(now) };
                self.guarded(basis)
                    .expect(self.keys.key(&key), state.expect(&key))
                    .put(self.keys.key(&key), text.to_string())
            };
            match self.commit(WRITE, commit).await? {
                Tried::Stored(_) => return Ok(true),
                // Claims and releases write the same key.
                Tried::Conflict | Tried::Overtaken | Tried::SessionGone => {
                    let leader = basis.guards.iter().map(|(key, _)| key.clone());
                    self.reload(WRITE, leader.chain([key.clone()])).await?;
                    let state = self.lock();
                    if basis.guards.iter().any(|(key, expected)| state.expect(key) != *expected) {
                        return Ok(false);
                    }
                }
            }
        }
        Err(fault::contention(WRITE))
    }
}
