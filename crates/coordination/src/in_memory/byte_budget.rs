use shardwright_contracts::{ByteSlab, ByteSlot, SlabFull, SlabTooLarge};

use crate::record::Spawned;

/// The bytes that all shards may use together.
///
/// Keys, metadata and tokens lie in a slab. Park details and lists of spawned shards lie outside.
/// They are counted and reduce the capacity of the slab.
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
        self.slab.insert_parts(parts).map_err(|full| self.with_free_bytes(full))
    }

    /// Frees a slot and stores a copy of the concatenation of `parts`, or does neither.
    pub(super) fn replace_parts(
        &mut self,
        slot: ByteSlot,
        parts: &[&[u8]],
    ) -> Result<ByteSlot, SlabFull> {
        self.check(total_len(parts), self.get(slot).map_or(0, <[u8]>::len))?;
        self.slab.replace_parts(slot, parts).map_err(|full| self.with_free_bytes(full))
    }

    pub(super) fn remove(&mut self, slot: ByteSlot) {
        self.slab.remove(slot);
    }

    /// Reserves bytes outside the slab.
    pub(super) fn reserve_outside(&mut self, bytes: usize) -> Result<(), SlabFull> {
        self.check(bytes, 0)?;
        self.beside += bytes;
        Ok(())
    }

    /// Frees bytes outside the slab.
    pub(super) const fn free_outside(&mut self, bytes: usize) {
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

    /// Corrects the free bytes of a slab error: the slab does not count bytes outside it.
    const fn with_free_bytes(&self, full: SlabFull) -> SlabFull {
        match full {
            SlabFull::Bytes { requested, capacity, .. } => {
                SlabFull::Bytes { requested, free: self.free(), capacity }
            }
            SlabFull::Handles { .. } => full,
        }
    }
}

/// The bytes of a list of spawned shards.
pub(super) const fn of_spawned(count: usize) -> usize {
    count.saturating_mul(size_of::<Spawned>())
}

fn total_len(parts: &[&[u8]]) -> usize {
    parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()))
}
