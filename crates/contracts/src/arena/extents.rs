//! Which parts of a buffer are free: an address-ordered list of extents, with the free ones also
//! linked into bins by size.
//!
//! Bin `k` holds free extents of `2^k` to `2^(k+1) - 1` bytes. A request looks at a few extents of
//! its own bin (they may fit, and fit tightly), then takes the smallest larger bin (all of them
//! fit), and only when both fail searches the rest of its own bin. So both taking and giving back
//! are constant time until the buffer is nearly full, and a request fails only if no free extent
//! is long enough.
//!
//! Taken and free extents share one table whose entries are as small as they can be, because the
//! table has room for the most extents that there can ever be.

use std::collections::TryReserveError;
use std::ops::Range;

use super::byte_slab::reserved;

/// Index of an extent in the table.
pub(super) type ExtentId = u32;

const NONE: ExtentId = ExtentId::MAX;
const BINS: usize = u32::BITS as usize;
/// How many extents of its own bin a request tries before it turns to larger ones.
const TIGHT_FIT_TRIES: usize = 8;

/// The number of a taken extent. In halves, because as one it would be aligned, and every entry of
/// the table four bytes longer for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Serial([u32; 2]);

impl Serial {
    pub(super) const fn new(number: u64) -> Self {
        Self([(number >> 32) as u32, number as u32])
    }
}

/// A piece of the buffer. Free neighbours are always joined.
#[derive(Clone, Copy)]
struct Extent {
    offset: u32,
    len: u32,
    /// Address neighbours. A taken extent of no bytes is nowhere, and has none.
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
    /// Describes nothing at the moment; so does the next one, if there is one.
    Spare {
        next: ExtentId,
    },
}

/// The free and taken extents of one buffer.
pub(super) struct Extents {
    table: Vec<Extent>,
    /// The first entry of `table` that describes nothing at the moment.
    spare: ExtentId,
    bins: [ExtentId; BINS],
    /// Bit `k` is set while bin `k` is not empty.
    occupied: u32,
    buffer_len: u32,
}

impl Extents {
    /// Describes a wholly free buffer of `buffer_len` bytes that will be cut into at most
    /// `max_taken` pieces. Free pieces lie between taken ones, so there are never more in all than
    /// twice that number and one, and one more in the middle of an exchange.
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

    /// Takes `len` bytes under a number never used before, unless no free extent is long enough.
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

    /// Gives a taken extent back and takes one of `len` bytes instead, unless no free extent is
    /// long enough. The old place serves again if it, with what is free next to it, is.
    pub(super) fn exchange(&mut self, id: ExtentId, len: u32, serial: Serial) -> Option<ExtentId> {
        if len == self.at(id).len {
            self.edit(id, |taken| taken.state = State::Taken(serial));
            return Some(id);
        }
        if len == 0 {
            self.give_back(id);
            return self.take(0, serial);
        }
        if len <= self.room_around(id) {
            self.give_back(id);
            self.cut(id, len, serial);
            return Some(id);
        }
        // The new one first: should it be refused, the old one is still there.
        let new = self.take(len, serial)?;
        self.give_back(id);
        Some(new)
    }

    /// Gives a taken extent back and joins it with its free neighbours, under its own id.
    pub(super) fn give_back(&mut self, id: ExtentId) {
        let Extent { len, before, after, .. } = self.at(id);
        if len == 0 {
            self.forget(id);
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

    /// Where the extent taken under this id and number lies, if it is there.
    pub(super) fn get(&self, id: ExtentId, serial: Serial) -> Option<Range<usize>> {
        let extent = self.table.get(id as usize)?;
        let start = extent.offset as usize;
        match extent.state {
            State::Taken(taken) if taken == serial => Some(start..start + extent.len as usize),
            State::Taken(_) | State::Free { .. } | State::Spare { .. } => None,
        }
    }

    /// The length of a taken extent together with the free ones next to it.
    fn room_around(&self, id: ExtentId) -> u32 {
        let Extent { len, before, after, .. } = self.at(id);
        self.free_len(before) + len + self.free_len(after)
    }

    /// The length of an extent that is there and free; else zero.
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

    /// Takes the first `len > 0` bytes of a free extent.
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
        self.forget(neighbour);
    }

    fn link_free(&mut self, id: ExtentId) {
        let bin = bin_of(self.at(id).len);
        let head = self.bins.get(bin).copied().unwrap_or(NONE);
        self.edit(id, |extent| extent.state = State::Free { bin_before: NONE, bin_after: head });
        self.edit_links(head, |bin_before, _| *bin_before = id);
        self.set_head(bin, id);
    }

    /// Takes an extent out of its bin. What it is then is for the caller to say.
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

    /// Describes an extent; what becomes of it is for the caller to say.
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

    /// Makes an entry of the table one that describes nothing.
    fn forget(&mut self, id: ExtentId) {
        let next = std::mem::replace(&mut self.spare, id);
        self.edit(id, |extent| extent.state = State::Spare { next });
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

    /// Changes the links of a free extent within its bin; there is none behind the ends of that.
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
