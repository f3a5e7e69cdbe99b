//! What a process knows of a cluster, updated by listings, watches and its own commits.
//!
//! Every key has the revision at which it was written, and older changes are ignored. So changes
//! may arrive in any order, and the state never goes back.

mod apply;
mod drafts;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use shardwright_contracts::{FenceEpoch, LogicalTime, ShardId};
use shardwright_placement::{
    ClusterConfig, Incarnation, LeaderObservations, Member, Membership, NodeAddress, NodeInstance,
    Plan, ShardCount, ShardMap, TargetChunks,
};
use shardwright_store::{Expect, Key, Revision, Versioned};

pub(crate) use self::drafts::ClaimDraft;
use super::format::{Format, LeaderName, Quarantined, Unreadable, incarnation_at};
use super::view::{Changed, ClusterView};
use crate::keys::{ClusterKey, ClusterKeys};

/// New state of a key.
#[derive(Clone, Debug)]
pub(super) struct KeyChange {
    pub(super) key: ClusterKey,
    /// The value and its revision; none if the key is deleted.
    pub(super) value: Option<(Bytes, Revision)>,
}

pub(super) struct State {
    keys: ClusterKeys,
    format: Format,
    floor: FenceEpoch,
    chunks: TargetChunks,
    /// Every existing key, with its revision.
    known: BTreeMap<ClusterKey, Revision>,
    /// Keys whose deletion the watch has not delivered yet.
    gone: BTreeMap<ClusterKey, Revision>,
    /// Revision up to which everything is known, per range of keys.
    reached: Vec<Revision>,
    map: Arc<ShardMap>,
    nodes: BTreeMap<NodeAddress, NonZeroU32>,
    leaving: BTreeSet<NodeAddress>,
    drained: Arc<BTreeSet<NodeAddress>>,
    gates: Arc<BTreeSet<NodeAddress>>,
    leader: Option<LeaderName>,
    members: Arc<Membership>,
    /// Whether `members` must be rebuilt from `nodes`, `leaving` and `drained`.
    members_lag: bool,
    unreadable: BTreeMap<ClusterKey, Unreadable>,
    observations: LeaderObservations,
    touched: Touched,
    view: Arc<ClusterView>,
}

/// Parts that changed since the last view.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    map: bool,
    members: bool,
    gates: bool,
    leader: bool,
    notes: bool,
}

impl State {
    pub(super) fn new(
        keys: ClusterKeys,
        num_shards: ShardCount,
        floor: FenceEpoch,
        members: Membership,
    ) -> Self {
        let reached = vec![Revision::ZERO; keys.ranges().len()];
        let observations = LeaderObservations::since(members.changed_at());
        let (map, members) = (Arc::new(ShardMap::new(num_shards)), Arc::new(members));
        let (gates, drained) = (Arc::default(), Arc::default());
        let view = ClusterView {
            generation: 0,
            revision: Revision::ZERO,
            map: Arc::clone(&map),
            members: Arc::clone(&members),
            gates: Arc::clone(&gates),
            leader: None,
            drained: Arc::clone(&drained),
            quarantine: Arc::default(),
            changed: Changed::default(),
        };
        // In text, the revision is the fence, and only the store can raise it.
        let (format, floor) = match keys.is_text() {
            true => (Format::Text, FenceEpoch::INITIAL),
            false => (Format::Records, floor),
        };
        Self {
            format,
            keys,
            floor,
            chunks: TargetChunks::of(num_shards),
            known: BTreeMap::new(),
            gone: BTreeMap::new(),
            reached,
            map,
            nodes: BTreeMap::new(),
            leaving: BTreeSet::new(),
            drained,
            gates,
            leader: None,
            members,
            members_lag: false,
            unreadable: BTreeMap::new(),
            observations,
            touched: Touched::default(),
            view: Arc::new(view),
        }
    }

    /// The lowest valid fence.
    pub(super) const fn floor(&self) -> FenceEpoch {
        self.floor
    }

    /// Applies the state of some keys at a revision. Ignores changes that are older than the known
    /// state.
    pub(super) fn learn(&mut self, changes: Vec<KeyChange>, as_of: Revision, now: LogicalTime) {
        let mut shards = Vec::new();
        for change in changes {
            if !self.is_new(&change, as_of) {
                continue;
            }
            match &change.value {
                Some((_, at)) => {
                    self.gone.remove(&change.key);
                    self.known.insert(change.key.clone(), *at);
                }
                None => {
                    self.known.remove(&change.key);
                    self.gone.insert(change.key.clone(), as_of);
                }
            }
            // The holder of a shard depends on the members, so members are applied first.
            match change {
                KeyChange { key: ClusterKey::Shard(shard), value } => shards.push((shard, value)),
                KeyChange { key, value } => self.apply(key, value, now),
            }
        }
        self.update_members(now);
        for (shard, value) in shards {
            self.apply_shard(shard, value, now);
        }
    }

    fn is_new(&self, change: &KeyChange, as_of: Revision) -> bool {
        let reached =
            self.reached.get(self.keys.range_of(&change.key)).copied().unwrap_or_default();
        // The watch has delivered everything up to here, including deletions that are forgotten.
        if as_of < reached {
            return false;
        }
        let known = self.known.get(&change.key).copied();
        let gone = self.gone.get(&change.key).copied();
        match change.value {
            Some((_, at)) => {
                known.is_none_or(|known| known < at) && gone.is_none_or(|gone| gone < at)
            }
            None => known.is_some_and(|known| known <= as_of),
        }
    }

    /// Records that everything of a range is known up to a revision.
    pub(super) fn reach(&mut self, range: usize, revision: Revision) {
        if let Some(reached) = self.reached.get_mut(range) {
            *reached = revision.max(*reached);
        }
        let reached = self.reached.iter().min().copied().unwrap_or_default();
        self.gone.retain(|_, at| *at > reached);
    }

    /// Applies a listing of a whole range.
    pub(super) fn replace(
        &mut self,
        range: usize,
        mut changes: Vec<KeyChange>,
        revision: Revision,
        now: LogicalTime,
    ) {
        let listed: BTreeSet<&ClusterKey> = changes.iter().map(|change| &change.key).collect();
        let is_missing =
            |key: &&ClusterKey| self.keys.range_of(key) == range && !listed.contains(key);
        let missing: Vec<_> = self.known.keys().filter(is_missing).cloned().collect();
        changes.extend(missing.into_iter().map(|key| KeyChange { key, value: None }));
        self.learn(changes, revision, now);
        self.reach(range, revision);
    }

    /// Revision up to which everything of a range is known.
    pub(super) fn reached(&self, range: usize) -> Revision {
        self.reached.get(range).copied().unwrap_or_default()
    }

    /// The next view, if anything changed since the last one.
    pub(super) fn publish(&mut self) -> Option<Arc<ClusterView>> {
        let Touched { map, members, gates, leader, notes } = std::mem::take(&mut self.touched);
        if !(map || members || gates || leader || notes) {
            return None;
        }
        let before = &self.view;
        let generation = before.generation + 1;
        let since = |touched, before| if touched { generation } else { before };
        let quarantine = if notes {
            let quarantined = self.unreadable.iter();
            let note = |(key, why): (&ClusterKey, &Unreadable)| Quarantined {
                key: key.clone(),
                why: why.clone(),
            };
            Arc::new(quarantined.map(note).collect())
        } else {
            Arc::clone(&before.quarantine)
        };
        self.view = Arc::new(ClusterView {
            generation,
            revision: self.reached.last().copied().unwrap_or_default(),
            map: Arc::clone(&self.map),
            members: Arc::clone(&self.members),
            gates: Arc::clone(&self.gates),
            leader: self.leader(),
            drained: Arc::clone(&self.drained),
            quarantine,
            changed: Changed {
                map: since(map, before.changed.map),
                members: since(members, before.changed.members),
                gates: since(gates, before.changed.gates),
                leader: since(leader, before.changed.leader),
            },
        });
        Some(Arc::clone(&self.view))
    }

    pub(super) fn map(&self) -> &ShardMap {
        &self.map
    }

    pub(super) fn shared_map(&self) -> Arc<ShardMap> {
        Arc::clone(&self.map)
    }

    pub(super) fn shared_members(&self) -> Arc<Membership> {
        Arc::clone(&self.members)
    }

    /// The last view.
    pub(super) fn view(&self) -> Arc<ClusterView> {
        Arc::clone(&self.view)
    }

    pub(super) fn unreadable_keys(&self) -> BTreeSet<ClusterKey> {
        self.unreadable.keys().cloned().collect()
    }

    pub(super) const fn chunks(&self) -> TargetChunks {
        self.chunks
    }

    /// Returns what a commit based on this state must expect of a key.
    pub(super) fn expect(&self, key: &ClusterKey) -> Expect {
        self.known.get(key).map_or(Expect::Absent, |at| Expect::At(*at))
    }

    pub(super) fn is_unreadable(&self, key: &ClusterKey) -> bool {
        self.unreadable.contains_key(key)
    }

    /// Whether the target or the claim of a shard cannot be read.
    pub(super) fn is_quarantined(&self, shard: ShardId) -> bool {
        keys_about(self.chunks, shard).any(|key| self.is_unreadable(&key))
    }

    /// Observations of this process.
    pub(super) fn observations(&self) -> LeaderObservations {
        self.observations.clone().without(quarantined(self.chunks, self.unreadable.keys()))
    }

    /// Records a plan that was stored.
    pub(super) fn saw_plan(&mut self, plan: &Plan, config: &ClusterConfig, now: LogicalTime) {
        self.observations.saw_plan(plan, &self.members, config, now);
    }

    /// The stored leader.
    pub(super) fn leader(&self) -> Option<NodeInstance> {
        Some(match self.leader.as_ref()? {
            LeaderName::Instance(holder) => holder.clone(),
            LeaderName::At(address, at) => {
                let incarnation = incarnation_at(self.incarnation(address), *at);
                NodeInstance { address: address.clone(), incarnation }
            }
        })
    }

    /// The incarnation in which a node is currently a member.
    fn incarnation(&self, address: &NodeAddress) -> Option<Incarnation> {
        self.members.get(address.as_str()).map(|member| member.holder.incarnation)
    }

    /// Rebuilds the members from the known nodes and marks.
    fn update_members(&mut self, now: LogicalTime) {
        if !std::mem::take(&mut self.members_lag) {
            return;
        }
        self.touched.members = true;
        let members = self.nodes.iter().filter_map(|(address, weight)| {
            // A node writes its key once per incarnation.
            let at = self.known.get(&ClusterKey::Member(address.clone()))?;
            let incarnation = Incarnation::from_raw(at.get());
            let draining = self.leaving.contains(address) || self.drained.contains(address);
            let holder = NodeInstance { address: address.clone(), incarnation };
            Some(Member { holder, weight: *weight, draining })
        });
        // Addresses are the keys of a map, so they are unique.
        if let Ok(members) = self.members.updated(members.collect::<Vec<_>>(), now) {
            self.members = Arc::new(members);
        }
        if self.format == Format::Text {
            self.touched.leader = true;
            self.update_incarnations();
        }
    }
}

/// The keys of a shard's target and claim.
pub(super) fn keys_about(chunks: TargetChunks, shard: ShardId) -> impl Iterator<Item = ClusterKey> {
    let chunk = chunks.chunk_of(shard).ok().map(ClusterKey::TargetChunk);
    chunk.into_iter().chain([ClusterKey::Shard(shard)])
}

/// The shards whose target or claim cannot be read.
pub(super) fn quarantined<'k>(
    chunks: TargetChunks,
    unreadable: impl IntoIterator<Item = &'k ClusterKey>,
) -> BTreeSet<ShardId> {
    let mut shards = BTreeSet::new();
    for key in unreadable {
        match key {
            ClusterKey::Shard(shard) => drop(shards.insert(*shard)),
            ClusterKey::TargetChunk(chunk) => {
                let of_chunk = chunks.shards(*chunk);
                shards.extend(of_chunk.map(|shard| ShardId::from_raw(shard.into())));
            }
            _ => {}
        }
    }
    shards
}

/// Converts an entry of the store.
pub(super) fn key_change(
    keys: &ClusterKeys,
    key: &Key,
    now: Option<&Versioned>,
) -> Option<KeyChange> {
    let key = keys.parse(key)?;
    let value = now.map(|found| (found.value.clone(), found.revision));
    Some(KeyChange { key, value })
}
