use shardwright_contracts::{ByteSlab, ByteSlot, SlabFull, SlabTooLarge};

use crate::record::Spawned;

/// The bytes that all shards may take together.
///
/// Keys, metadata and tokens lie in a slab. What a shard keeps beside it (why it is parked, which
/// shards it spawned) is counted, and what is counted is not there for the slab any more.
#[derive(Debug)]
pub(super) struct ByteBudget {
    slab: ByteSlab,
    beside: usize,
}

impl ByteBudget {
    pub(super) fn try_new(slots: u32, capacity: u32) -> Result<Self, SlabTooLarge> {
        Ok(Self { slab: ByteSlab::try_new(slots, capacity)?, beside: 0 })
    }

    pub(super) const fn bytes_used(&self) -> usize {
        self.slab.bytes_used() + self.beside
    }

    pub(super) fn get(&self, slot: ByteSlot) -> Option<&[u8]> {
        self.slab.get(slot)
    }

    /// Stores a copy of the concatenation of `parts`.
    pub(super) fn insert_parts(&mut self, parts: &[&[u8]]) -> Result<ByteSlot, SlabFull> {
        self.check(total_len(parts), 0)?;
        self.slab.insert_parts(parts).map_err(|full| self.as_told(full))
    }

    /// Frees a slot and stores a copy of the concatenation of `parts`, or does neither.
    pub(super) fn replace_parts(
        &mut self,
        slot: ByteSlot,
        parts: &[&[u8]],
    ) -> Result<ByteSlot, SlabFull> {
        self.check(total_len(parts), self.get(slot).map_or(0, <[u8]>::len))?;
        self.slab.replace_parts(slot, parts).map_err(|full| self.as_told(full))
    }

    pub(super) fn remove(&mut self, slot: ByteSlot) {
        self.slab.remove(slot);
    }

    /// Counts bytes that are kept beside the slab.
    pub(super) fn take_beside(&mut self, bytes: usize) -> Result<(), SlabFull> {
        self.check(bytes, 0)?;
        self.beside += bytes;
        Ok(())
    }

    /// Bytes that were counted are there for others again.
    pub(super) const fn give_back_beside(&mut self, bytes: usize) {
        self.beside = self.beside.saturating_sub(bytes);
    }

    fn check(&self, requested: usize, freed: usize) -> Result<(), SlabFull> {
        let (free, capacity) = (self.free(), self.slab.byte_capacity());
        if requested > free.saturating_add(freed) {
            return Err(SlabFull::Bytes { requested, free, capacity });
        }
        Ok(())
    }

    const fn free(&self) -> usize {
        self.slab.byte_capacity().saturating_sub(self.bytes_used())
    }

    /// The slab does not know what is kept beside it.
    const fn as_told(&self, full: SlabFull) -> SlabFull {
        match full {
            SlabFull::Bytes { requested, capacity, .. } => {
                SlabFull::Bytes { requested, free: self.free(), capacity }
            }
            SlabFull::Handles { .. } => full,
        }
    }
}

/// What it takes to remember so many spawned shards.
pub(super) const fn of_spawned(count: usize) -> usize {
    count.saturating_mul(size_of::<Spawned>())
}

fn total_len(parts: &[&[u8]]) -> usize {
    parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()))
}
