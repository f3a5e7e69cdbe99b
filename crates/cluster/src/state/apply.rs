//! Applying the changes of keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use shardwright_contracts::{FenceEpoch, LogicalTime, ShardId};
use shardwright_engine::codec::Record;
use shardwright_placement::seed_format::SeedShard;
use shardwright_placement::{
    Claim, NodeAddress, NodeInstance, ShardInfo, ShardMap, ShardOutOfRange, Target, TargetHeader,
    TargetSince,
};
use shardwright_store::Revision;

use super::State;
use crate::format::{Format, Unreadable, incarnation_at, read_shard_text};
use crate::keys::ClusterKey;
use crate::records::{
    DrainMarkRecord, LeavingRecord, ShardClaimRecord, TargetChunkRecord, TargetHeadRecord,
};

type Value = Option<(Bytes, Revision)>;

impl State {
    /// Applies the value of a key other than a shard's.
    pub(super) fn apply(&mut self, key: ClusterKey, value: Value, now: LogicalTime) {
        let bytes = value.as_ref().map(|(bytes, _)| bytes.as_ref());
        let read = match &key {
            ClusterKey::Plan | ClusterKey::Deletion | ClusterKey::Shard(_) => Ok(()),
            ClusterKey::Member(node) => self.apply_member(node, bytes),
            ClusterKey::Leaving(node) => {
                self.members_lag = true;
                let read = read_mark::<LeavingRecord>(bytes);
                // A mark counts even if its value cannot be read.
                mark(&mut self.leaving, node, bytes.is_some());
                read
            }
            ClusterKey::Drain(node) => {
                self.members_lag = true;
                let read = read_mark::<DrainMarkRecord>(bytes);
                mark(Arc::make_mut(&mut self.drained), node, bytes.is_some());
                read
            }
            ClusterKey::Gate(gate) => {
                self.touched.gates = true;
                let read = bytes.map(|bytes| self.format.read_gate(gate, bytes)).transpose();
                let is_there = matches!(read, Ok(Some(())));
                mark(Arc::make_mut(&mut self.gates), gate, is_there);
                read.map(|_| ())
            }
            ClusterKey::Leader => {
                self.touched.leader = true;
                let read = value.as_ref().map(|(bytes, at)| self.format.read_leader(bytes, *at));
                self.leader = read.clone().and_then(Result::ok);
                read.transpose().map(|_| ())
            }
            ClusterKey::TargetHead => self.apply_header(bytes),
            ClusterKey::TargetChunk(chunk) => self.apply_chunk(*chunk, bytes, now),
        };
        self.note(key, value.is_some(), read);
    }

    /// Applies the value of a shard's key.
    pub(super) fn apply_shard(&mut self, shard: ShardId, value: Value, now: LogicalTime) {
        self.touched.map = true;
        let read = match (&value, self.format) {
            (None, Format::Records) => self.forget_claim(shard),
            (None, Format::Text) => self.apply_text(shard, &SeedShard::default(), None, now),
            (Some((bytes, _)), Format::Records) => ShardClaimRecord::decode(bytes)
                .map_err(Unreadable::from)
                .and_then(|record| self.observe_claim(shard, &record.claim, now)),
            (Some((bytes, at)), Format::Text) => read_shard_text(bytes)
                .and_then(|text| self.apply_text(shard, &text, Some(*at), now)),
        };
        if read.is_err() {
            // A shard that does not exist has no claim and no target.
            let _missing = self.forget_claim(shard);
            if self.format == Format::Text {
                let _missing = self.map_mut().load_target(shard, &Target::default());
            }
        }
        self.note(ClusterKey::Shard(shard), value.is_some(), read);
    }

    /// Records a value that cannot be read. A missing value is never unreadable.
    fn note(&mut self, key: ClusterKey, is_there: bool, read: Result<(), Unreadable>) {
        self.touched.notes |= match read {
            Err(why) if is_there => self.unreadable.insert(key, why.clone()) != Some(why),
            Ok(()) | Err(_) => self.unreadable.remove(&key).is_some(),
        };
    }

    fn apply_member(&mut self, node: &NodeAddress, value: Option<&[u8]>) -> Result<(), Unreadable> {
        self.members_lag = true;
        let read = value.map(|value| self.format.read_member(node, value)).transpose();
        match read {
            Ok(Some(weight)) => self.nodes.insert(node.clone(), weight),
            Ok(None) | Err(_) => self.nodes.remove(node),
        };
        read.map(|_| ())
    }

    fn apply_header(&mut self, value: Option<&[u8]>) -> Result<(), Unreadable> {
        self.touched.map = true;
        let read = value.map(TargetHeadRecord::decode).transpose();
        let header = read.as_ref().ok().and_then(|head| head.as_ref()).map(|head| head.header);
        // While the header cannot be read, the targets count as frozen.
        let frozen = TargetHeader { frozen: read.is_err(), ..TargetHeader::default() };
        self.map_mut().load_header(header.unwrap_or(frozen));
        Ok(read.map(|_| ())?)
    }

    fn apply_chunk(
        &mut self,
        chunk: u32,
        value: Option<&[u8]>,
        now: LogicalTime,
    ) -> Result<(), Unreadable> {
        // In text, the shard's key contains the target.
        if self.format == Format::Text {
            return Ok(());
        }
        let shards = self.chunks.shards(chunk);
        if shards.is_empty() {
            return Err(Unreadable::Chunk(chunk));
        }
        self.touched.map = true;
        let expected = shards.len();
        let read = match value.map(TargetChunkRecord::decode) {
            None => Ok(vec![Target::default(); expected]),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(TargetChunkRecord { targets })) if targets.len() == expected => Ok(targets),
            Some(Ok(TargetChunkRecord { targets })) => {
                Err(Unreadable::ChunkLength { expected, found: targets.len() })
            }
        };
        let nowhere = || vec![Target::default(); expected];
        let targets = read.as_ref().map_or_else(|_| nowhere(), Clone::clone);
        let was_listed = self.was_listed(&ClusterKey::TargetChunk(chunk));
        let map = self.map_mut();
        for (shard, target) in shards.zip(&targets) {
            let shard = ShardId::from_raw(shard.into());
            if was_listed {
                map.observe_target(shard, target, now)?;
            } else {
                map.load_target(shard, target)?;
            }
        }
        read.map(|_| ())
    }

    /// Applies the text of a shard, written at a revision.
    fn apply_text(
        &mut self,
        shard: ShardId,
        text: &SeedShard,
        at: Option<Revision>,
        now: LogicalTime,
    ) -> Result<(), Unreadable> {
        let before = self.map.info(shard)?;
        let mut target = text.to_target();
        // Text does not store the time of a move, so the time of its arrival is used. For targets
        // from before the first listing the time is unknown.
        if self.was_listed(&ClusterKey::Shard(shard)) && before.target != text.target.as_ref() {
            target.since = match before.target {
                Some(_) => TargetSince::Moved(now),
                None => TargetSince::Placed(now),
            };
        }
        self.map_mut().load_target(shard, &target)?;
        let fence = at.and_then(|at| FenceEpoch::from_raw(at.get()).ok());
        let (Some(at), Some(fence)) = (at, fence) else { return self.forget_claim(shard) };
        let holder = text.current.clone().map(|address| {
            let incarnation = incarnation_at(self.incarnation(&address), at);
            NodeInstance { address, incarnation }
        });
        self.observe_claim(shard, &Claim { holder, fence }, now)
    }

    /// Updates the incarnation of each shard's holder after members changed.
    pub(super) fn update_incarnations(&mut self) {
        let mut changed = Vec::new();
        for info in self.map.iter() {
            let (Some(current), Some(fence)) = (info.current, info.fence) else { continue };
            let incarnation =
                incarnation_at(self.incarnation(current.address), Revision::new(fence.as_raw()));
            if incarnation != current.incarnation {
                let holder = Some(NodeInstance { address: current.address.clone(), incarnation });
                changed.push((info.shard, Claim { holder, fence }));
            }
        }
        for (shard, claim) in changed {
            self.touched.map = true;
            // The shard exists in the map.
            let _taken = self.take_claim(shard, &claim);
        }
    }

    /// Whether the first listing is complete. Later changes were then stored after this process
    /// started.
    fn was_listed(&self, key: &ClusterKey) -> bool {
        self.reached(self.keys.range_of(key)) > Revision::ZERO
    }

    /// Applies a stored claim, and records a new claim or release as an observation.
    fn observe_claim(
        &mut self,
        shard: ShardId,
        claim: &Claim,
        now: LogicalTime,
    ) -> Result<(), Unreadable> {
        let info = self.map.info(shard)?;
        let (before, after) = (info.current, claim.holder.as_ref().map(NodeInstance::borrowed));
        if before == after && info.fence == Some(claim.fence) {
            return Ok(());
        }
        let is_release = before.is_some() && after.is_none();
        if let Some(holder) = after.filter(|holder| before != Some(*holder)) {
            self.observations.saw_claim(holder);
        }
        self.take_claim(shard, claim)?;
        if is_release {
            self.map_mut().observe_release(shard, now)?;
        }
        Ok(())
    }

    /// The stored claim is the latest, even if the map has a higher fence.
    fn take_claim(&mut self, shard: ShardId, claim: &Claim) -> Result<(), Unreadable> {
        // A claim below the floor is void, so the shard has no holder.
        let is_void = claim.fence < self.floor;
        let holder = claim.holder.clone().filter(|_| !is_void);
        Ok(self.map_mut().load_claim(shard, &Claim { holder, fence: claim.fence })?)
    }

    /// Adopts a higher floor. Claims below it become void.
    pub(crate) fn raise_floor(&mut self, floor: FenceEpoch) {
        if self.format == Format::Text || floor <= self.floor {
            return;
        }
        self.floor = floor;
        self.touched.map = true;
        let is_void = |info: &ShardInfo<'_>| info.fence.is_some_and(|fence| fence < floor);
        let void: Vec<_> = self.map.iter().filter(is_void).map(|info| info.shard).collect();
        for shard in void {
            // The shard exists in the map.
            let Ok(Some(fence)) = self.map.info(shard).map(|info| info.fence) else { continue };
            let _taken = self.take_claim(shard, &Claim { holder: None, fence });
        }
    }

    fn forget_claim(&mut self, shard: ShardId) -> Result<(), Unreadable> {
        let forgotten: Result<(), ShardOutOfRange> = self.map_mut().forget_claim(shard);
        Ok(forgotten?)
    }

    /// The map, copied if a view shares it.
    fn map_mut(&mut self) -> &mut ShardMap {
        Arc::make_mut(&mut self.map)
    }
}

fn read_mark<R: Record>(value: Option<&[u8]>) -> Result<(), Unreadable> {
    Ok(value.map(R::decode).transpose().map(|_| ())?)
}

fn mark(set: &mut BTreeSet<NodeAddress>, address: &NodeAddress, is_there: bool) {
    if is_there {
        set.insert(address.clone());
    } else {
        set.remove(address);
    }
}
