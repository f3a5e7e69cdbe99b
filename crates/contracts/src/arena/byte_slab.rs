use std::collections::TryReserveError;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::extents::{ExtentId, Extents, Serial};
use crate::limits::MAX_SLAB_SLOTS;

/// A bounded resource ran out; nothing was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlabFull {
    /// As many handles are out as there may ever be.
    #[error("all {max} handles are in use")]
    Handles {
        /// How many there are.
        max: usize,
    },
    /// No free stretch of the buffer is long enough.
    #[error("{requested} bytes requested, {free} of {capacity} are free")]
    Bytes {
        /// How many bytes were asked for.
        requested: usize,
        /// How many bytes are free in all, perhaps not in one piece.
        free: usize,
        /// How many bytes there are.
        capacity: usize,
    },
}

/// A slab of the size asked for would have too many slots, or more memory than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a slab cannot have {max_slots} slots and {byte_capacity} bytes")]
pub struct SlabTooLarge {
    /// How many slots were asked for.
    pub max_slots: u32,
    /// How many bytes were asked for.
    pub byte_capacity: u32,
}

/// A place in a [`ByteSlab`], good until it is freed or the slab is cleared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteSlot {
    slab: u64,
    serial: u64,
    extent: ExtentId,
}

impl fmt::Debug for ByteSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Which slab it belongs to depends on what else the process did, so it stays out of logs.
        write!(f, "ByteSlot({}, serial {})", self.extent, self.serial)
    }
}

/// A fixed buffer that stores byte strings of any length behind handles.
///
/// Everything is allocated when it is made; storing and freeing touch no heap.
pub struct ByteSlab {
    /// Tells this slab's slots from those of every other slab in the process.
    id: u64,
    /// Number of the next slot; never used twice, so a freed slot is never mistaken for its heir.
    next_serial: u64,
    bytes: Box<[u8]>,
    /// One is taken for each slot in use.
    extents: Extents,
    max_slots: usize,
    slots_used: usize,
    bytes_used: usize,
}

impl ByteSlab {
    /// Allocates room for `max_slots` byte strings of `byte_capacity` bytes in all.
    ///
    /// # Panics
    ///
    /// If that is more than [`MAX_SLAB_SLOTS`] or more than there is memory for. Use
    /// [`ByteSlab::try_new`] for sizes that come from outside.
    #[must_use]
    pub fn new(max_slots: u32, byte_capacity: u32) -> Self {
        #[expect(clippy::panic, reason = "the documented contract of this constructor")]
        Self::try_new(max_slots, byte_capacity).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Allocates room for `max_slots` byte strings of `byte_capacity` bytes in all, if that can be
    /// had.
    pub fn try_new(max_slots: u32, byte_capacity: u32) -> Result<Self, SlabTooLarge> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let too_large = SlabTooLarge { max_slots, byte_capacity };
        if max_slots > MAX_SLAB_SLOTS {
            return Err(too_large);
        }
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            next_serial: 0,
            extents: Extents::try_new(byte_capacity, max_slots).map_err(|_| too_large)?,
            bytes: zeroed(byte_capacity as usize).map_err(|_| too_large)?,
            max_slots: max_slots as usize,
            slots_used: 0,
            bytes_used: 0,
        })
    }

    /// Stores a copy of `bytes`.
    pub fn insert(&mut self, bytes: &[u8]) -> Result<ByteSlot, SlabFull> {
        self.insert_parts(&[bytes])
    }

    /// Stores a copy of the concatenation of `parts`.
    pub fn insert_parts(&mut self, parts: &[&[u8]]) -> Result<ByteSlot, SlabFull> {
        if self.slots_used == self.max_slots {
            return Err(SlabFull::Handles { max: self.max_slots });
        }
        let requested = total_len(parts);
        let serial = Serial::new(self.next_serial);
        let taken = u32::try_from(requested).ok().and_then(|len| self.extents.take(len, serial));
        let extent = taken.ok_or_else(|| self.full(requested))?;
        self.slots_used += 1;
        self.bytes_used += requested;
        Ok(self.fill(extent, parts))
    }

    /// Frees a slot and stores a copy of the concatenation of `parts`, or does neither.
    ///
    /// That succeeds whenever there is room for `parts` in the old bytes' place, together with
    /// what is free on both sides of it, or anywhere else. If the slot is not there to be freed,
    /// this is an insertion.
    pub fn replace_parts(&mut self, slot: ByteSlot, parts: &[&[u8]]) -> Result<ByteSlot, SlabFull> {
        let Some(old) = self.place(slot) else { return self.insert_parts(parts) };
        let requested = total_len(parts);
        let serial = Serial::new(self.next_serial);
        let taken = u32::try_from(requested)
            .ok()
            .and_then(|len| self.extents.exchange(slot.extent, len, serial));
        let extent = taken.ok_or_else(|| self.full(requested))?;
        self.bytes_used = self.bytes_used - old.len() + requested;
        Ok(self.fill(extent, parts))
    }

    /// The bytes behind a slot, unless it was freed or belongs to another slab.
    #[must_use]
    pub fn get(&self, slot: ByteSlot) -> Option<&[u8]> {
        self.bytes.get(self.place(slot)?)
    }

    /// Frees a slot; says whether it was there to be freed.
    pub fn remove(&mut self, slot: ByteSlot) -> bool {
        let Some(place) = self.place(slot) else {
            return false;
        };
        self.extents.give_back(slot.extent);
        self.slots_used -= 1;
        self.bytes_used -= place.len();
        true
    }

    /// Frees every slot.
    pub fn clear(&mut self) {
        self.extents.clear();
        self.slots_used = 0;
        self.bytes_used = 0;
    }

    /// How many slots are in use.
    #[must_use]
    pub(crate) const fn slots_used(&self) -> usize {
        self.slots_used
    }

    /// How many bytes are in use.
    #[must_use]
    pub const fn bytes_used(&self) -> usize {
        self.bytes_used
    }

    /// How many bytes there are, used and free.
    #[must_use]
    pub const fn byte_capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Copies `parts` to an extent just taken, which becomes a slot.
    fn fill(&mut self, extent: ExtentId, parts: &[&[u8]]) -> ByteSlot {
        let slot = ByteSlot { slab: self.id, serial: self.next_serial, extent };
        self.next_serial += 1;
        let place = self.place(slot).unwrap_or_default();
        let mut rest = self.bytes.get_mut(place).unwrap_or_default();
        for part in parts {
            let Some((room, behind)) = rest.split_at_mut_checked(part.len()) else {
                break;
            };
            room.copy_from_slice(part);
            rest = behind;
        }
        slot
    }

    /// Where the bytes of a slot are, unless it was freed or belongs to another slab.
    fn place(&self, slot: ByteSlot) -> Option<Range<usize>> {
        let is_own = slot.slab == self.id;
        self.extents.get(slot.extent, Serial::new(slot.serial)).filter(|_| is_own)
    }

    const fn full(&self, requested: usize) -> SlabFull {
        let capacity = self.bytes.len();
        SlabFull::Bytes { requested, free: capacity - self.bytes_used, capacity }
    }
}

fn total_len(parts: &[&[u8]]) -> usize {
    parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()))
}

/// Says how full it is; what it stores, or stored, may be a secret.
impl fmt::Debug for ByteSlab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteSlab")
            .field("slots_used", &self.slots_used)
            .field("max_slots", &self.max_slots)
            .field("bytes_used", &self.bytes_used)
            .field("byte_capacity", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// An empty vector with room for `capacity` entries, if there is that much memory.
pub(super) fn reserved<T>(capacity: usize) -> Result<Vec<T>, TryReserveError> {
    let mut entries = Vec::new();
    entries.try_reserve_exact(capacity)?;
    Ok(entries)
}

/// A buffer of zeros, if there is that much memory.
fn zeroed(len: usize) -> Result<Box<[u8]>, TryReserveError> {
    // A trial first: the allocation that hands out zeroed pages cannot report a failure.
    drop(reserved::<u8>(len)?);
    Ok(vec![0; len].into_boxed_slice())
}

#[cfg(test)]
mod tests;
