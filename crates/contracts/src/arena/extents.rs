//! Which parts of a buffer are free: an address-ordered list of extents, with the free ones also
//! linked into bins by size.
//!
//! Bin `k` holds free extents of `2^k` to `2^(k+1) - 1` bytes. A request looks at a few extents of
//! its own bin (they may fit, and fit tightly), then takes the smallest larger bin (all of them
//! fit), and only when both fail searches the rest of its own bin. So both taking and giving back
//! are constant time until the buffer is nearly full, and a request fails only if no free extent
//! is long enough.

use std::collections::TryReserveError;

use super::byte_slab::reserved;

/// Index of an extent in the table.
pub(super) type ExtentId = u32;

const NONE: ExtentId = ExtentId::MAX;
const BINS: usize = u32::BITS as usize;
/// How many extents of its own bin a request tries before it turns to larger ones.
const TIGHT_FIT_TRIES: usize = 8;

/// A piece of the buffer, either taken or free. Free neighbours are always joined.
#[derive(Clone, Copy)]
struct Extent {
    offset: u32,
    len: u32,
    /// Address neighbours.
    before: ExtentId,
    after: ExtentId,
    /// Neighbours in the bin, meaningful while free.
    bin_before: ExtentId,
    bin_after: ExtentId,
    free: bool,
}

/// The free and taken extents of one buffer.
pub(super) struct Extents {
    table: Vec<Extent>,
    /// Entries of `table` that describe nothing at the moment.
    spare: Vec<ExtentId>,
    bins: [ExtentId; BINS],
    /// Bit `k` is set while bin `k` is not empty.
    occupied: u32,
    buffer_len: u32,
}

impl Extents {
    /// Describes a wholly free buffer of `buffer_len` bytes that will be cut into at most
    /// `max_taken` pieces. Free pieces lie between taken ones, so the table never grows past
    /// twice that number and one.
    pub(super) fn try_new(buffer_len: u32, max_taken: u32) -> Result<Self, TryReserveError> {
        let entries = max_taken as usize * 2 + 1;
        let mut extents = Self {
            table: reserved(entries)?,
            spare: reserved(entries)?,
            bins: [NONE; BINS],
            occupied: 0,
            buffer_len,
        };
        extents.clear();
        Ok(extents)
    }

    /// Frees everything.
    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.spare.clear();
        self.bins = [NONE; BINS];
        self.occupied = 0;
        if self.buffer_len > 0 {
            let whole = self.add(0, self.buffer_len, NONE, NONE);
            self.link_free(whole);
        }
    }

    /// Takes `len > 0` bytes and says where they are, or that no free extent is long enough.
    pub(super) fn take(&mut self, len: u32) -> Option<(ExtentId, u32)> {
        let id = self.find(len)?;
        self.unlink_free(id);
        let found = self.at(id);
        let rest = found.len - len;
        if rest > 0 {
            let tail = self.add(found.offset + len, rest, id, found.after);
            self.edit(found.after, |next| next.before = tail);
            self.edit(id, |taken| {
                taken.len = len;
                taken.after = tail;
            });
            self.link_free(tail);
        }
        Some((id, found.offset))
    }

    /// Gives a taken extent back and joins it with its free neighbours.
    pub(super) fn give_back(&mut self, id: ExtentId) {
        for neighbour in [self.at(id).before, self.at(id).after] {
            if neighbour != NONE && self.at(neighbour).free {
                self.unlink_free(neighbour);
                self.absorb(id, neighbour);
            }
        }
        self.link_free(id);
    }

    fn find(&self, len: u32) -> Option<ExtentId> {
        let bin = bin_of(len);
        let fits = |id: &ExtentId| self.at(*id).len >= len;
        let tight = self.bin(bin).take(TIGHT_FIT_TRIES).find(fits);
        tight
            .or_else(|| {
                let larger = self.occupied & !(u32::MAX >> (BINS - 1 - bin));
                self.bin(larger.trailing_zeros() as usize).next()
            })
            .or_else(|| self.bin(bin).skip(TIGHT_FIT_TRIES).find(fits))
    }

    fn bin(&self, bin: usize) -> impl Iterator<Item = ExtentId> + '_ {
        let first = self.bins.get(bin).copied().unwrap_or(NONE);
        let present = |id: ExtentId| (id != NONE).then_some(id);
        std::iter::successors(present(first), move |id| present(self.at(*id).bin_after))
    }

    /// Makes `id` cover its address neighbour as well, and forgets the neighbour.
    fn absorb(&mut self, id: ExtentId, neighbour: ExtentId) {
        let other = self.at(neighbour);
        self.edit(id, |extent| {
            extent.len += other.len;
            extent.offset = extent.offset.min(other.offset);
            if extent.before == neighbour {
                extent.before = other.before;
            } else {
                extent.after = other.after;
            }
        });
        if other.after == id {
            self.edit(other.before, |before| before.after = id);
        } else {
            self.edit(other.after, |after| after.before = id);
        }
        self.spare.push(neighbour);
    }

    fn link_free(&mut self, id: ExtentId) {
        let bin = bin_of(self.at(id).len);
        let head = self.bins.get(bin).copied().unwrap_or(NONE);
        self.edit(id, |extent| {
            extent.free = true;
            extent.bin_before = NONE;
            extent.bin_after = head;
        });
        self.edit(head, |next| next.bin_before = id);
        self.set_head(bin, id);
    }

    fn unlink_free(&mut self, id: ExtentId) {
        let Extent { len, bin_before, bin_after, .. } = self.at(id);
        self.edit(id, |extent| extent.free = false);
        self.edit(bin_after, |next| next.bin_before = bin_before);
        if bin_before == NONE {
            self.set_head(bin_of(len), bin_after);
        } else {
            self.edit(bin_before, |previous| previous.bin_after = bin_after);
        }
    }

    fn set_head(&mut self, bin: usize, head: ExtentId) {
        if let Some(slot) = self.bins.get_mut(bin) {
            *slot = head;
        }
        let bit = 1 << bin;
        self.occupied = if head == NONE { self.occupied & !bit } else { self.occupied | bit };
    }

    fn add(&mut self, offset: u32, len: u32, before: ExtentId, after: ExtentId) -> ExtentId {
        let extent =
            Extent { offset, len, before, after, bin_before: NONE, bin_after: NONE, free: false };
        if let Some(id) = self.spare.pop() {
            self.edit(id, |entry| *entry = extent);
            return id;
        }
        self.table.push(extent);
        (self.table.len() - 1) as ExtentId
    }

    #[expect(clippy::indexing_slicing, reason = "ids come from this table and it never shrinks")]
    fn at(&self, id: ExtentId) -> Extent {
        self.table[id as usize]
    }

    /// Changes an extent; there is none behind the ends of the list.
    fn edit(&mut self, id: ExtentId, change: impl FnOnce(&mut Extent)) {
        if let Some(extent) = self.table.get_mut(id as usize) {
            change(extent);
        }
    }
}

/// The bin for free extents of `len > 0` bytes.
fn bin_of(len: u32) -> usize {
    len.ilog2() as usize
}
