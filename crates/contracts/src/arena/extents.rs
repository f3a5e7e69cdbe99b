//! The free and used parts of a buffer: an address-ordered list of extents. The free ones are also
//! linked into bins by size.
//!
//! Bin `k` holds free extents of `2^k` to `2^(k+1) - 1` bytes. A request tries a few extents of its
//! own bin, which may fit tightly. Then it uses the smallest larger bin, where all extents fit.
//! Only then it searches the rest of its own bin. So allocating and freeing take constant time
//! until the buffer is nearly full, and a request fails only if no free extent is long enough.
//!
//! Used and free extents share one table with compact entries, because the table is allocated for
//! the maximum number of extents.

use std::collections::TryReserveError;
use std::ops::Range;

use super::byte_slab::reserved;

/// Index of an extent in the table.
pub(super) type ExtentId = u32;

const NONE: ExtentId = ExtentId::MAX;
const BINS: usize = u32::BITS as usize;
/// Extents of its own bin that a request tries before larger bins.
const TIGHT_FIT_TRIES: usize = 8;

/// The number of a used extent. Two halves, because an aligned `u64` would make every table entry
/// four bytes longer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Serial([u32; 2]);

impl Serial {
    pub(super) const fn new(number: u64) -> Self {
        Self([(number >> 32) as u32, number as u32])
    }
}

/// A part of the buffer. Adjacent free extents are always joined.
#[derive(Clone, Copy)]
struct Extent {
    offset: u32,
    len: u32,
    /// Address neighbours. A used extent of zero bytes has none.
    before: ExtentId,
    after: ExtentId,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Taken(Serial),
    /// Linked to its neighbours in the bin.
    Free {
        bin_before: ExtentId,
        bin_after: ExtentId,
    },
    /// An unused table entry, linked to the next unused one.
    Spare {
        next: ExtentId,
    },
}

/// The free and taken extents of one buffer.
pub(super) struct Extents {
    table: Vec<Extent>,
    /// The first unused entry of `table`.
    spare: ExtentId,
    bins: [ExtentId; BINS],
    /// Bit `k` is set while bin `k` is not empty.
    occupied: u32,
    buffer_len: u32,
}

impl Extents {
    /// Describes a free buffer of `buffer_len` bytes with at most `max_taken` used extents. Free
    /// extents lie between used ones, so there are at most twice that number plus one, and one more
    /// during an exchange.
    pub(super) fn try_new(buffer_len: u32, max_taken: u32) -> Result<Self, TryReserveError> {
        let mut extents = Self {
            table: reserved(max_taken as usize * 2 + 2)?,
            spare: NONE,
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
        self.spare = NONE;
        self.bins = [NONE; BINS];
        self.occupied = 0;
        if self.buffer_len > 0 {
            let whole = self.add(0, self.buffer_len, NONE, NONE);
            self.link_free(whole);
        }
    }

    /// Allocates `len` bytes under a new number, unless no free extent is long enough.
    pub(super) fn take(&mut self, len: u32, serial: Serial) -> Option<ExtentId> {
        if len == 0 {
            let id = self.add(0, 0, NONE, NONE);
            self.edit(id, |nowhere| nowhere.state = State::Taken(serial));
            return Some(id);
        }
        let id = self.find(len)?;
        self.cut(id, len, serial);
        Some(id)
    }

    /// Frees a used extent and allocates one of `len` bytes instead, unless no free extent is long
    /// enough. The old place is reused if it is long enough, together with adjacent free space.
    pub(super) fn exchange(&mut self, id: ExtentId, len: u32, serial: Serial) -> Option<ExtentId> {
        if len == self.at(id).len {
            self.edit(id, |taken| taken.state = State::Taken(serial));
            return Some(id);
        }
        if len == 0 {
            self.free(id);
            return self.take(0, serial);
        }
        if len <= self.room_around(id) {
            self.free(id);
            self.cut(id, len, serial);
            return Some(id);
        }
        // Allocate first, so that the old extent survives a failure.
        let new = self.take(len, serial)?;
        self.free(id);
        Some(new)
    }

    /// Frees a used extent and joins it with its free neighbours, under its own id.
    pub(super) fn free(&mut self, id: ExtentId) {
        let Extent { len, before, after, .. } = self.at(id);
        if len == 0 {
            self.discard(id);
            return;
        }
        for neighbour in [before, after] {
            if self.free_len(neighbour) > 0 {
                self.unlink_free(neighbour);
                self.absorb(id, neighbour);
            }
        }
        self.link_free(id);
    }

    /// The range of the extent with this id and number, if it is in use.
    pub(super) fn get(&self, id: ExtentId, serial: Serial) -> Option<Range<usize>> {
        let extent = self.table.get(id as usize)?;
        let start = extent.offset as usize;
        match extent.state {
            State::Taken(taken) if taken == serial => Some(start..start + extent.len as usize),
            State::Taken(_) | State::Free { .. } | State::Spare { .. } => None,
        }
    }

    /// The length of a used extent with its free neighbours.
    fn room_around(&self, id: ExtentId) -> u32 {
        let Extent { len, before, after, .. } = self.at(id);
        self.free_len(before) + len + self.free_len(after)
    }

    /// The length of a free extent, or zero if the extent does not exist or is in use.
    fn free_len(&self, id: ExtentId) -> u32 {
        match self.table.get(id as usize) {
            Some(Extent { len, state: State::Free { .. }, .. }) => *len,
            Some(_) | None => 0,
        }
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
        std::iter::successors(present(first), move |id| match self.at(*id).state {
            State::Free { bin_after, .. } => present(bin_after),
            State::Taken(_) | State::Spare { .. } => None,
        })
    }

    /// Allocates the first `len > 0` bytes of a free extent.
    fn cut(&mut self, id: ExtentId, len: u32, serial: Serial) {
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
        self.edit(id, |taken| taken.state = State::Taken(serial));
    }

    /// Extends `id` over its address neighbour and removes the neighbour.
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
        self.discard(neighbour);
    }

    fn link_free(&mut self, id: ExtentId) {
        let bin = bin_of(self.at(id).len);
        let head = self.bins.get(bin).copied().unwrap_or(NONE);
        self.edit(id, |extent| extent.state = State::Free { bin_before: NONE, bin_after: head });
        self.edit_links(head, |bin_before, _| *bin_before = id);
        self.set_head(bin, id);
    }

    /// Removes an extent from its bin. The caller sets its new state.
    fn unlink_free(&mut self, id: ExtentId) {
        let Extent { len, state, .. } = self.at(id);
        let State::Free { bin_before, bin_after } = state else { return };
        self.edit_links(bin_after, |before, _| *before = bin_before);
        if bin_before == NONE {
            self.set_head(bin_of(len), bin_after);
        } else {
            self.edit_links(bin_before, |_, after| *after = bin_after);
        }
    }

    fn set_head(&mut self, bin: usize, head: ExtentId) {
        if let Some(slot) = self.bins.get_mut(bin) {
            *slot = head;
        }
        let bit = 1 << bin;
        self.occupied = if head == NONE { self.occupied & !bit } else { self.occupied | bit };
    }

    /// Adds an extent to the table. The caller sets its state.
    fn add(&mut self, offset: u32, len: u32, before: ExtentId, after: ExtentId) -> ExtentId {
        let extent = Extent { offset, len, before, after, state: State::Spare { next: NONE } };
        let id = self.spare;
        if let Some(entry) = self.table.get_mut(id as usize) {
            if let State::Spare { next } = entry.state {
                self.spare = next;
            }
            *entry = extent;
            return id;
        }
        self.table.push(extent);
        (self.table.len() - 1) as ExtentId
    }

    /// Marks a table entry as unused.
    fn discard(&mut self, id: ExtentId) {
        let next = std::mem::replace(&mut self.spare, id);
        self.edit(id, |extent| extent.state = State::Spare { next });
    }

    #[expect(clippy::indexing_slicing, reason = "ids come from this table and it never shrinks")]
    fn at(&self, id: ExtentId) -> Extent {
        self.table[id as usize]
    }

    /// Changes an extent. Ids beyond the ends of the list are ignored.
    fn edit(&mut self, id: ExtentId, change: impl FnOnce(&mut Extent)) {
        if let Some(extent) = self.table.get_mut(id as usize) {
            change(extent);
        }
    }

    /// Changes the links of a free extent in its bin. Ids beyond the ends of the bin are ignored.
    fn edit_links(&mut self, id: ExtentId, change: impl FnOnce(&mut ExtentId, &mut ExtentId)) {
        self.edit(id, |extent| {
            if let State::Free { bin_before, bin_after } = &mut extent.state {
                change(bin_before, bin_after);
            }
        });
    }
}

/// The bin for free extents of `len > 0` bytes.
fn bin_of(len: u32) -> usize {
    len.ilog2() as usize
}

const _: () = assert!(size_of::<Extent>() == 28, "a table entry is as small as it can be");
