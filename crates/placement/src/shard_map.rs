use shardwright_contracts::{FenceEpoch, LogicalTime, ShardId};

use crate::address::NodeAddress;
use crate::flags::Flags;
use crate::member::{Incarnation, Membership, NodeInstance, NodeInstanceRef};
use crate::node_names::{NameNumber, NodeNames};
use crate::sharding::{ShardCount, ShardOutOfRange};
use crate::target::{Target, TargetHeader, TargetSince, TargetUpdate, TargetVersion};

/// The targets of the leader under one version, and the claims of the nodes, one per shard.
///
/// The map decides nothing. Its owner feeds it stored state, in any order.
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
    observed_at: Option<LogicalTime>,
}

#[derive(Clone, Copy, Debug)]
struct ClaimSlot {
    holder: Option<(NameNumber, Incarnation)>,
    fence: FenceEpoch,
    released_at: Option<LogicalTime>,
}

/// Why an update cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The version of the map is not the one before the update.
    #[error("targets are at version {current}, the update makes version {offered}")]
    Version {
        /// The version of the map.
        current: TargetVersion,
        /// The version of the update.
        offered: TargetVersion,
    },
    /// The update has a shard that does not exist.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
}

/// Whether a claim was new to the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapChange {
    /// It was, and is in the map now.
    New,
    /// The map had it, or a later one.
    Old,
}

/// A shard as the planner reads it, without looking up names.
pub(crate) struct RawShard<'a> {
    pub(crate) target: Option<NameNumber>,
    pub(crate) holder: Option<(NameNumber, Incarnation)>,
    pub(crate) fence: Option<FenceEpoch>,
    pub(crate) flags: &'a Flags,
    pub(crate) since: TargetSince,
    /// When the owner of the map saw the target being written, if it did.
    pub(crate) observed_at: Option<LogicalTime>,
    /// When the owner of the map saw the release, if it did.
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

    /// The number of shards.
    #[must_use]
    pub const fn num_shards(&self) -> ShardCount {
        self.num_shards
    }

    /// The state of all targets together.
    #[must_use]
    pub const fn header(&self) -> TargetHeader {
        self.header
    }

    /// The state of a shard.
    pub fn info(&self, shard: ShardId) -> Result<ShardInfo<'_>, ShardOutOfRange> {
        let index = self.num_shards.index(shard)?;
        self.info_at(index, shard)
            .ok_or(ShardOutOfRange { shard: shard.as_raw(), num_shards: self.num_shards.get() })
    }

    /// The state of every shard, in order.
    pub fn iter(&self) -> impl Iterator<Item = ShardInfo<'_>> {
        self.num_shards.shards().enumerate().filter_map(|(index, shard)| self.info_at(index, shard))
    }

    /// Applies the leader's next update.
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

    /// Loads a stored header. [`ShardMap::load_target`] loads its shards.
    pub fn load_header(&mut self, header: TargetHeader) {
        self.header = header;
    }

    /// Loads a stored target, as part of a version that is read as a whole.
    ///
    /// If the stored form has no time, the map keeps its own, as long as the node is the same.
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
            let observed_at = slot.observed_at.filter(|_| is_known);
            *slot = TargetSlot { node, flags: target.flags.clone(), since, observed_at };
            before.into_iter().for_each(|number| self.names.give_back(number));
        }
        Ok(())
    }

    /// Loads a target that was written just now. If it changed, the map records the time, by the
    /// clock of its owner.
    pub fn observe_target(
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
            slot.observed_at = Some(now);
        }
        Ok(())
    }

    /// Loads a claim, unless the map has a later one: notifications may arrive out of order.
    pub fn learn_claim(
        &mut self,
        shard: ShardId,
        claim: &Claim,
    ) -> Result<MapChange, ShardOutOfRange> {
        let index = self.num_shards.index(shard)?;
        // A release keeps the fence of its claim.
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

    /// Loads a stored claim, even over a later one. Writing a shard without a holder again does not
    /// change its release time.
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

    /// Records that a shard without a holder was released just now, by the clock of the map's
    /// owner.
    pub fn observe_release(
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

    /// Removes a claim whose stored form is missing or unreadable.
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
            observed_at: target.observed_at,
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

/// What nodes write, one per shard: its holder, or none after a release. It is kept after a
/// release, so that the fence never decreases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The holder, or `None` after a release.
    pub holder: Option<NodeInstance>,
    /// The fence of the claim.
    pub fence: FenceEpoch,
}

/// The state of one shard: its target and its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardInfo<'a> {
    /// The shard.
    pub shard: ShardId,
    /// Its target.
    pub target: Option<&'a NodeAddress>,
    /// The node that claimed it and has not released it. That node may be gone.
    pub current: Option<NodeInstanceRef<'a>>,
    /// Its flags.
    pub flags: &'a Flags,
    /// The fence of the last claim, if there ever was one.
    pub fence: Option<FenceEpoch>,
    /// When it got its target.
    pub since: TargetSince,
}

impl<'a> ShardInfo<'a> {
    /// The holder, if it is a member in the same incarnation.
    #[must_use]
    pub fn owner(&self, members: &Membership) -> Option<NodeInstanceRef<'a>> {
        self.current.filter(|holder| members.is_live(*holder))
    }

    /// Whether the target holds the shard.
    #[must_use]
    pub fn is_settled(&self, members: &Membership) -> bool {
        self.target.is_some() && self.owner(members).map(|owner| owner.address) == self.target
    }
}

#[cfg(test)]
mod tests;
