use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::extents::{ExtentId, Extents};

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
/// Everything is allocated by [`ByteSlab::new`]; storing and freeing touch no heap.
#[derive(Debug)]
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

#[derive(Clone, Copy, Debug)]
struct Place {
    serial: u64,
    offset: u32,
    len: u32,
    /// Absent for empty strings, which take no bytes.
    extent: Option<ExtentId>,
    live: bool,
}

impl ByteSlab {
    /// More slots than this cannot be numbered; a larger request is cut down to it.
    const MAX_SLOTS: u32 = u32::MAX / 2 - 1;

    /// Allocates room for `max_slots` byte strings of `byte_capacity` bytes in all.
    #[must_use]
    pub fn new(max_slots: u32, byte_capacity: u32) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let max_slots = max_slots.min(Self::MAX_SLOTS);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            next_serial: 0,
            bytes: vec![0; byte_capacity as usize].into_boxed_slice(),
            extents: Extents::new(byte_capacity, max_slots),
            places: Vec::with_capacity(max_slots as usize),
            spare_places: Vec::with_capacity(max_slots as usize),
            max_slots: max_slots as usize,
            bytes_used: 0,
        }
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

#[cfg(test)]
mod tests;
