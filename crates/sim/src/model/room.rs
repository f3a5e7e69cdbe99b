use super::{Model, ShardModel};
use crate::request::{Cursor, Spec};

/// Bytes that a parent stores per spawned shard: an id and a fingerprint.
const SPAWNED_BYTES: usize = 16;

/// The used part of the byte budget that all shards of a backend share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Number of allocations in the shared buffer.
    pub pieces: usize,
    /// Their total length.
    pub piece_bytes: usize,
    /// Bytes that are stored outside the buffer, and count.
    pub outside_bytes: usize,
}

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// In the buffer.
    Piece {
        /// Its length.
        len: usize,
        /// Length of the allocation that it replaces, if it replaces one.
        replaces: Option<usize>,
    },
    /// Outside the buffer.
    Outside(usize),
}

impl Allocation {
    /// The allocation of a range and its metadata.
    #[must_use]
    pub fn of_spec(spec: &Spec) -> Self {
        Self::Piece { len: spec_len(spec), replaces: None }
    }

    /// The allocation of a range and its metadata that replaces another.
    #[must_use]
    pub fn of_replaced_spec(spec: &Spec, old: &Spec) -> Self {
        Self::Piece { len: spec_len(spec), replaces: Some(spec_len(old)) }
    }

    /// The allocation of a cursor. The initial cursor needs none.
    #[must_use]
    pub fn of_cursor(cursor: &Cursor, old: Option<&Cursor>) -> Option<Self> {
        let len = cursor_len(cursor)?;
        Some(Self::Piece { len, replaces: old.and_then(cursor_len) })
    }

    /// The allocation of `count` entries for spawned shards.
    #[must_use]
    pub const fn of_spawned(count: usize) -> Self {
        Self::Outside(count * SPAWNED_BYTES)
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Piece { len, .. } | Self::Outside(len) => len,
        }
    }
}

impl Room {
    /// Number of used bytes.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.piece_bytes + self.outside_bytes
    }

    /// Whether an allocation may fail. The backend chooses where pieces lie. But `n` pieces leave
    /// at most `n + 1` gaps, and the longest gap is not shorter than the average.
    #[must_use]
    pub fn may_fail(&self, capacity: usize, allocation: Allocation) -> bool {
        let free = capacity.saturating_sub(self.used());
        match allocation {
            Allocation::Outside(len) => len > free,
            Allocation::Piece { len, replaces } => {
                let freed = replaces.unwrap_or_default();
                let others = self.pieces.saturating_sub(usize::from(replaces.is_some()));
                let in_gaps = (capacity + freed).saturating_sub(self.piece_bytes);
                len > free + freed || len > in_gaps.div_ceil(others + 1)
            }
        }
    }

    /// Adds an allocation.
    pub fn take(&mut self, allocation: Allocation) {
        match allocation {
            Allocation::Outside(len) => self.outside_bytes += len,
            Allocation::Piece { len, replaces } => {
                self.pieces += usize::from(replaces.is_none());
                self.piece_bytes = self.piece_bytes + len - replaces.unwrap_or_default();
            }
        }
    }

    fn take_shard(&mut self, shard: &ShardModel) {
        self.take(Allocation::of_spec(&shard.spec));
        Allocation::of_cursor(&shard.cursor, None).into_iter().for_each(|it| self.take(it));
        self.take(Allocation::of_spawned(shard.spawned.len()));
        self.take(Allocation::Outside(shard.park_detail.as_ref().map_or(0, Vec::len)));
    }
}

impl Model {
    /// The allocations of all shards.
    #[must_use]
    pub fn room(&self) -> Room {
        let mut room = Room::default();
        let runs = self.tenants.values().flat_map(|tenant| tenant.runs.values());
        runs.flat_map(|run| run.shards.values()).for_each(|shard| room.take_shard(shard));
        room
    }
}

fn spec_len(spec: &Spec) -> usize {
    let spec = spec.as_ref();
    spec.start().len() + spec.end().len() + spec.metadata().len()
}

fn cursor_len(cursor: &Cursor) -> Option<usize> {
    let cursor = cursor.as_ref();
    Some(cursor.last_key()?.len() + cursor.token().map_or(0, <[u8]>::len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(len: usize, replaces: Option<usize>) -> Allocation {
        Allocation::Piece { len, replaces }
    }

    #[test]
    fn allocation_may_fail_only_if_no_gap_must_fit() {
        let mut room = Room::default();
        assert!(!room.may_fail(10, piece(10, None)) && room.may_fail(10, piece(11, None)));
        room.take(piece(4, None));
        assert_eq!((room.pieces, room.used()), (1, 4));
        // Six bytes are free, at worst three on either side.
        assert!(!room.may_fail(10, piece(3, None)) && room.may_fail(10, piece(4, None)));
        assert!(
            !room.may_fail(10, piece(10, Some(4))),
            "a replacement can use the place of the old piece"
        );
        room.take(Allocation::Outside(2));
        assert!(
            !room.may_fail(10, Allocation::Outside(4)) && room.may_fail(10, Allocation::Outside(5))
        );
        assert!(room.may_fail(10, piece(9, Some(4))), "bytes outside the buffer count");
        room.take(piece(1, Some(4)));
        assert_eq!((room.pieces, room.used()), (1, 3));
    }
}
