use std::collections::TryReserveError;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::extents::{ExtentId, Extents};
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
    place: u32,
}

impl fmt::Debug for ByteSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Which slab it belongs to depends on what else the process did, so it stays out of logs.
        write!(f, "ByteSlot({}, serial {})", self.place, self.serial)
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
    extents: Extents,
    places: Vec<Place>,
    spare_places: Vec<u32>,
    max_slots: usize,
    bytes_used: usize,
}

#[derive(Clone, Copy)]
struct Place {
    serial: u64,
    offset: u32,
    len: u32,
    /// Absent for empty strings, which take no bytes.
    extent: Option<ExtentId>,
    live: bool,
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
        let slots = max_slots as usize;
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            next_serial: 0,
            extents: Extents::try_new(byte_capacity, max_slots).map_err(|_| too_large)?,
            places: reserved(slots).map_err(|_| too_large)?,
            spare_places: reserved(slots).map_err(|_| too_large)?,
            bytes: zeroed(byte_capacity as usize).map_err(|_| too_large)?,
            max_slots: slots,
            bytes_used: 0,
        })
    }

    /// Stores a copy of `bytes`.
    pub fn insert(&mut self, bytes: &[u8]) -> Result<ByteSlot, SlabFull> {
        self.insert_parts(&[bytes])
    }

    /// Stores a copy of the concatenation of `parts`.
    pub fn insert_parts(&mut self, parts: &[&[u8]]) -> Result<ByteSlot, SlabFull> {
        if self.slots_used() == self.max_slots {
            return Err(SlabFull::Handles { max: self.max_slots });
        }
        let requested = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        let (extent, offset, len) = self.reserve(requested)?;
        let mut rest = self.bytes.get_mut(offset as usize..).unwrap_or_default();
        for part in parts {
            let Some((room, behind)) = rest.split_at_mut_checked(part.len()) else {
                break;
            };
            room.copy_from_slice(part);
            rest = behind;
        }
        self.bytes_used += requested;
        Ok(self.occupy(extent, offset, len))
    }

    /// The bytes behind a slot, unless it was freed or belongs to another slab.
    #[must_use]
    pub fn get(&self, slot: ByteSlot) -> Option<&[u8]> {
        let place = self.live_place(slot)?;
        self.bytes.get(place.offset as usize..place.offset as usize + place.len as usize)
    }

    /// Frees a slot; says whether it was there to be freed.
    pub fn remove(&mut self, slot: ByteSlot) -> bool {
        let Some(place) = self.live_place(slot) else {
            return false;
        };
        if let Some(extent) = place.extent {
            self.extents.give_back(extent);
        }
        if let Some(entry) = self.places.get_mut(slot.place as usize) {
            entry.live = false;
        }
        self.spare_places.push(slot.place);
        self.bytes_used -= place.len as usize;
        true
    }

    /// Frees every slot.
    pub fn clear(&mut self) {
        self.places.clear();
        self.spare_places.clear();
        self.extents.clear();
        self.bytes_used = 0;
    }

    /// How many slots are in use.
    #[must_use]
    pub fn slots_used(&self) -> usize {
        self.places.len() - self.spare_places.len()
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

    fn reserve(&mut self, requested: usize) -> Result<(Option<ExtentId>, u32, u32), SlabFull> {
        if requested == 0 {
            return Ok((None, 0, 0));
        }
        let found = u32::try_from(requested)
            .ok()
            .and_then(|len| self.extents.take(len).map(|(id, offset)| (Some(id), offset, len)));
        found.ok_or(SlabFull::Bytes {
            requested,
            free: self.bytes.len() - self.bytes_used,
            capacity: self.bytes.len(),
        })
    }

    fn occupy(&mut self, extent: Option<ExtentId>, offset: u32, len: u32) -> ByteSlot {
        let serial = self.next_serial;
        self.next_serial += 1;
        let entry = Place { serial, offset, len, extent, live: true };
        let spare = self.spare_places.pop();
        let place = spare.unwrap_or(self.places.len() as u32);
        match self.places.get_mut(place as usize) {
            Some(slot) => *slot = entry,
            None => self.places.push(entry),
        }
        ByteSlot { slab: self.id, serial, place }
    }

    fn live_place(&self, slot: ByteSlot) -> Option<Place> {
        let place = self.places.get(slot.place as usize).copied()?;
        (slot.slab == self.id && place.serial == slot.serial && place.live).then_some(place)
    }
}

/// Says how full it is; what it stores, or stored, may be a secret.
impl fmt::Debug for ByteSlab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteSlab")
            .field("slots_used", &self.slots_used())
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
