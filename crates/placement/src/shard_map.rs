use shardwright_contracts::{FenceEpoch, LogicalTime, ShardId};

use crate::address::NodeAddress;
use crate::flags::Flags;
use crate::member::{Incarnation, Membership, NodeInstance, NodeInstanceRef};
use crate::node_names::{NameNumber, NodeNames};
use crate::sharding::{ShardCount, ShardOutOfRange};
use crate::target::{Target, TargetHeader, TargetSince, TargetUpdate, TargetVersion};

/// Where all shards should be and where they are: the leader's targets under one version, and the
/// nodes' claims, one per shard.
///
/// It decides nothing. Its owner puts into it what was stored, in whatever order it learns
/// of it.
#[derive(Clone, Debug)]
pub struct ShardMap {
    num_shards: ShardCount,
    names: NodeNames,
    header: TargetHeader,
    targets: Vec<TargetSlot>,
    claims: Vec<Option<ClaimSlot>>,
}

#[derive(Clone, Debug, Default)]
struct TargetSlot {
    node: Option<NameNumber>,
    flags: Flags,
    since: TargetSince,
    heard_at: Option<LogicalTime>,
}

#[derive(Clone, Copy, Debug)]
struct ClaimSlot {
    holder: Option<(NameNumber, Incarnation)>,
    fence: FenceEpoch,
    released_at: Option<LogicalTime>,
}

/// The update is not the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The map is at another version than the one before the update.
    #[error("targets are at version {current}, the update makes version {offered}")]
    Version {
        /// Where the map is.
        current: TargetVersion,
        /// What the update would make.
        offered: TargetVersion,
    },
    /// The update is about a shard that is not there.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
}

/// Whether something that was learned is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapChange {
    /// It is, and is in the map now.
    New,
    /// The map knew it, or something later.
    Old,
}

/// What the planner reads of a shard without looking up a name.
pub(crate) struct RawShard<'a> {
    pub(crate) target: Option<NameNumber>,
    pub(crate) holder: Option<(NameNumber, Incarnation)>,
    pub(crate) fence: Option<FenceEpoch>,
    pub(crate) flags: &'a Flags,
    pub(crate) since: TargetSince,
    /// When the owner of the map learned of the target, if it was there then.
    pub(crate) heard_at: Option<LogicalTime>,
    /// When the owner of the map learned that the shard was released, if it was there then.
    pub(crate) released_at: Option<LogicalTime>,
}

impl ShardMap {
    /// A map in which no shard has a target or a claim.
    #[must_use]
    pub fn new(num_shards: ShardCount) -> Self {
        let count = num_shards.get() as usize;
        Self {
            num_shards,
            names: NodeNames::default(),
            header: TargetHeader::default(),
            targets: vec![TargetSlot::default(); count],
            claims: vec![None; count],
        }
    }

    /// How many shards there are.
    #[must_use]
    pub const fn num_shards(&self) -> ShardCount {
        self.num_shards
    }

    /// What holds for all targets together.
    #[must_use]
    pub const fn header(&self) -> TargetHeader {
        self.header
    }

    /// All that is known of a shard.
    pub fn info(&self, shard: ShardId) -> Result<ShardInfo<'_>, ShardOutOfRange> {
        let index = self.num_shards.index(shard)?;
        self.info_at(index, shard)
            .ok_or(ShardOutOfRange { shard: shard.as_raw(), num_shards: self.num_shards.get() })
    }

    /// All that is known of every shard, in order.
    pub fn iter(&self) -> impl Iterator<Item = ShardInfo<'_>> {
        self.num_shards.shards().enumerate().filter_map(|(index, shard)| self.info_at(index, shard))
    }

    /// Applies the leader's next write.
    pub fn apply(&mut self, update: &TargetUpdate) -> Result<(), UpdateError> {
        let (current, offered) = (self.header.version, update.header.version);
        if offered != current.next() {
            return Err(UpdateError::Version { current, offered });
        }
        for change in &update.changes {
            self.num_shards.index(change.shard)?;
        }
        for change in &update.changes {
            self.load_target(change.shard, &change.target)?;
        }
        self.header = update.header;
        Ok(())
    }

    /// Puts a stored header into the map, with [`ShardMap::load_target`] for the shards of it.
    pub fn load_header(&mut self, header: TargetHeader) {
        self.header = header;
    }

    /// Puts a stored target into the map, as part of a version that is read as a whole.
    ///
    /// A stored form that has no place for the time keeps what the map knows of it, as long as the
    /// node is the same.
    pub fn load_target(&mut self, shard: ShardId, target: &Target) -> Result<(), ShardOutOfRange> {
        let index = self.num_shards.index(shard)?;
        let node = target.node.as_ref().map(|address| self.names.take(address));
        if let Some(slot) = self.targets.get_mut(index) {
            let before = slot.node;
            let since = match target.since {
                TargetSince::Unknown if before == node => slot.since,
                since => since,
            };
            let is_known = before == node && slot.since == since;
            let heard_at = slot.heard_at.filter(|_| is_known);
            *slot = TargetSlot { node, flags: target.flags.clone(), since, heard_at };
            before.into_iter().for_each(|number| self.names.give_back(number));
        }
        Ok(())
    }

    /// Puts a target into the map that was stored just now. If it is another one, the map remembers
    /// when it was heard of, by the clock of the map's owner.
    pub fn hear_target(
        &mut self,
        shard: ShardId,
        target: &Target,
        now: LogicalTime,
    ) -> Result<(), ShardOutOfRange> {
        let before = self.info(shard)?;
        let is_known = before.target == target.node.as_ref()
            && (before.since == target.since || target.since == TargetSince::Unknown);
        self.load_target(shard, target)?;
        let index = self.num_shards.index(shard)?;
        if let Some(slot) = self.targets.get_mut(index).filter(|_| !is_known) {
            slot.heard_at = Some(now);
        }
        Ok(())
    }

    /// Learns of a claim. One that is older than what the map knows changes nothing: news may
    /// overtake each other.
    pub fn learn_claim(
        &mut self,
        shard: ShardId,
        claim: &Claim,
    ) -> Result<MapChange, ShardOutOfRange> {
        let index = self.num_shards.index(shard)?;
        // A release keeps the fence of the claim that it ends.
        let order = |fence: FenceEpoch, released: bool| (fence, released);
        let known = self.claims.get(index).copied().flatten();
        if known.is_some_and(|known| {
            order(known.fence, known.holder.is_none()) >= order(claim.fence, claim.holder.is_none())
        }) {
            return Ok(MapChange::Old);
        }
        self.load_claim(shard, claim)?;
        Ok(MapChange::New)
    }

    /// Puts a stored claim into the map, whatever the map takes for later. What is written once
    /// more of a shard without a holder does not change when it was released.
    pub fn load_claim(&mut self, shard: ShardId, claim: &Claim) -> Result<(), ShardOutOfRange> {
        let index = self.num_shards.index(shard)?;
        let holder =
            claim.holder.as_ref().map(|one| (self.names.take(&one.address), one.incarnation));
        let Some(slot) = self.claims.get_mut(index) else { return Ok(()) };
        let known = slot.take();
        let is_free = holder.is_none() && known.is_some_and(|known| known.holder.is_none());
        let released_at = known.and_then(|known| known.released_at).filter(|_| is_free);
        *slot = Some(ClaimSlot { holder, fence: claim.fence, released_at });
        if let Some((before, _)) = known.and_then(|known| known.holder) {
            self.names.give_back(before);
        }
        Ok(())
    }

    /// Remembers that a shard without a holder was released just now, by the clock of the owner of
    /// the map.
    pub fn hear_release(
        &mut self,
        shard: ShardId,
        now: LogicalTime,
    ) -> Result<(), ShardOutOfRange> {
        let index = self.num_shards.index(shard)?;
        let claim = self.claims.get_mut(index).and_then(Option::as_mut);
        if let Some(claim) = claim.filter(|claim| claim.holder.is_none()) {
            claim.released_at = Some(now);
        }
        Ok(())
    }

    /// Forgets what is known of a claim, because what is stored is gone or cannot be read.
    pub fn forget_claim(&mut self, shard: ShardId) -> Result<(), ShardOutOfRange> {
        let index = self.num_shards.index(shard)?;
        let before = self.claims.get_mut(index).and_then(Option::take);
        if let Some((name, _)) = before.and_then(|claim| claim.holder) {
            self.names.give_back(name);
        }
        Ok(())
    }

    pub(crate) const fn names(&self) -> &NodeNames {
        &self.names
    }

    pub(crate) fn raw(&self) -> impl Iterator<Item = RawShard<'_>> {
        self.targets.iter().zip(&self.claims).map(|(target, claim)| RawShard {
            target: target.node,
            holder: claim.and_then(|claim| claim.holder),
            fence: claim.map(|claim| claim.fence),
            flags: &target.flags,
            since: target.since,
            heard_at: target.heard_at,
            released_at: claim.and_then(|claim| claim.released_at),
        })
    }

    fn info_at(&self, index: usize, shard: ShardId) -> Option<ShardInfo<'_>> {
        let target = self.targets.get(index)?;
        let claim = self.claims.get(index)?.as_ref();
        let current = claim.and_then(|claim| claim.holder).and_then(|(number, incarnation)| {
            Some(NodeInstanceRef { address: self.names.name(number)?, incarnation })
        });
        Some(ShardInfo {
            shard,
            target: target.node.and_then(|number| self.names.name(number)),
            current,
            flags: &target.flags,
            fence: claim.map(|claim| claim.fence),
            since: target.since,
        })
    }
}

/// What nodes write, one per shard: who has claimed it, or that it was released. It is kept
/// after a release, so that the fence never falls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who has the shard; none after a release.
    pub holder: Option<NodeInstance>,
    /// The number that rose with this claim.
    pub fence: FenceEpoch,
}

/// All that is known of one shard: what the leader says and what a node has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardInfo<'a> {
    /// Which one.
    pub shard: ShardId,
    /// Where it should be.
    pub target: Option<&'a NodeAddress>,
    /// Who has claimed it and not released it. That node may be gone.
    pub current: Option<NodeInstanceRef<'a>>,
    /// What else the leader says of it.
    pub flags: &'a Flags,
    /// The fence of the last claim, if there ever was one.
    pub fence: Option<FenceEpoch>,
    /// Since when it has its target.
    pub since: TargetSince,
}

impl<'a> ShardInfo<'a> {
    /// Who has the shard, if that node is a member in the life in which it claimed.
    #[must_use]
    pub fn owner(&self, members: &Membership) -> Option<NodeInstanceRef<'a>> {
        self.current.filter(|holder| members.is_live(*holder))
    }

    /// Whether the node that should have the shard has it.
    #[must_use]
    pub fn is_settled(&self, members: &Membership) -> bool {
        self.target.is_some() && self.owner(members).map(|owner| owner.address) == self.target
    }
}

#[cfg(test)]
mod tests;
