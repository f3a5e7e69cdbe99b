use std::collections::TryReserveError;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::extents::{ExtentId, Extents, Serial};
use crate::limits::MAX_SLAB_SLOTS;

/// A bounded resource is exhausted. Nothing was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlabFull {
    /// All handles are in use.
    #[error("all {max} handles are in use")]
    Handles {
        /// Their number.
        max: usize,
    },
    /// No free extent of the buffer is long enough.
    #[error("{requested} bytes requested, {free} of {capacity} are free")]
    Bytes {
        /// The requested bytes.
        requested: usize,
        /// The free bytes, not necessarily contiguous.
        free: usize,
        /// The capacity in bytes.
        capacity: usize,
    },
}

/// A slab of the requested size has too many slots or needs more memory than available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a slab cannot have {max_slots} slots and {byte_capacity} bytes")]
pub struct SlabTooLarge {
    /// The requested slots.
    pub max_slots: u32,
    /// The requested bytes.
    pub byte_capacity: u32,
}

/// A slot of a [`ByteSlab`]. Valid until it is freed or the slab is cleared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteSlot {
    slab: u64,
    serial: u64,
    extent: ExtentId,
}

impl fmt::Debug for ByteSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id of the slab depends on the history of the process, so it stays out of logs.
        write!(f, "ByteSlot({}, serial {})", self.extent, self.serial)
    }
}

/// A fixed buffer that stores byte strings of any length behind handles.
///
/// Everything is allocated at construction. Storing and freeing do not allocate.
pub struct ByteSlab {
    /// Distinguishes the slots of this slab from those of other slabs in the process.
    id: u64,
    /// Number of the next slot. Never reused, so a freed slot is never confused with a new one.
    next_serial: u64,
    bytes: Box<[u8]>,
    /// Each slot uses one extent.
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
    /// If that exceeds [`MAX_SLAB_SLOTS`] or the available memory. Use [`ByteSlab::try_new`] for
    /// sizes from outside.
    #[must_use]
    pub fn new(max_slots: u32, byte_capacity: u32) -> Self {
        #[expect(clippy::panic, reason = "the documented contract of this constructor")]
        Self::try_new(max_slots, byte_capacity).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`ByteSlab::new`], but fails if the memory is not available.
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
    /// Succeeds if `parts` fit in place of the old bytes, including free space on both sides, or
    /// anywhere else. A slot that is not stored is ignored.
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

    /// Frees a slot. Returns whether it was stored.
    pub fn remove(&mut self, slot: ByteSlot) -> bool {
        let Some(place) = self.place(slot) else {
            return false;
        };
        self.extents.free(slot.extent);
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

    /// The number of slots in use.
    #[must_use]
    pub(crate) const fn slots_used(&self) -> usize {
        self.slots_used
    }

    /// The number of bytes in use.
    #[must_use]
    pub const fn bytes_used(&self) -> usize {
        self.bytes_used
    }

    /// The capacity in bytes.
    #[must_use]
    pub const fn byte_capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Copies `parts` to a new extent and makes it a slot.
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

    /// The range of a slot's bytes, unless it was freed or belongs to another slab.
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

/// Shows only the usage: the contents may be secret.
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

/// An empty vector with room for `capacity` entries, if the memory is available.
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
