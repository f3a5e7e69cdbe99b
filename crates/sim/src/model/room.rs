use super::{Model, ShardModel};
use crate::request::{Cursor, Spec};

/// What a parent keeps of a shard that it spawned: an id and a fingerprint.
const SPAWNED_BYTES: usize = 16;

/// What is taken of the bytes that all shards of a backend share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// How many pieces lie in the common buffer.
    pub pieces: usize,
    /// How long they are together.
    pub piece_bytes: usize,
    /// What is kept beside the buffer, and counts.
    pub beside_bytes: usize,
}

/// Something for which there has to be room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A piece of the buffer.
    Piece {
        /// How long it is.
        len: usize,
        /// How long the one is whose place it takes, if it does.
        replaces: Option<usize>,
    },
    /// Bytes beside the buffer.
    Beside(usize),
}

impl Demand {
    /// Room for a range and its metadata.
    #[must_use]
    pub fn of_spec(spec: &Spec) -> Self {
        Self::Piece { len: spec_len(spec), replaces: None }
    }

    /// Room for a range and its metadata in place of others.
    #[must_use]
    pub fn of_spec_instead(spec: &Spec, old: &Spec) -> Self {
        Self::Piece { len: spec_len(spec), replaces: Some(spec_len(old)) }
    }

    /// Room for a cursor; the initial one needs none.
    #[must_use]
    pub fn of_cursor(cursor: &Cursor, old: Option<&Cursor>) -> Option<Self> {
        let len = cursor_len(cursor)?;
        Some(Self::Piece { len, replaces: old.and_then(cursor_len) })
    }

    /// Room to remember so many spawned shards.
    #[must_use]
    pub const fn of_spawned(count: usize) -> Self {
        Self::Beside(count * SPAWNED_BYTES)
    }

    /// How much it is.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Piece { len, .. } | Self::Beside(len) => len,
        }
    }
}

impl Room {
    /// How many bytes are taken in all.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.piece_bytes + self.beside_bytes
    }

    /// Whether there may be no room. Where pieces lie is the backend's affair, but so many of them
    /// leave only one gap more than they are, and the longest gap is no shorter than the average.
    #[must_use]
    pub fn may_lack(&self, capacity: usize, demand: Demand) -> bool {
        let free = capacity.saturating_sub(self.used());
        match demand {
            Demand::Beside(len) => len > free,
            Demand::Piece { len, replaces } => {
                let freed = replaces.unwrap_or_default();
                let others = self.pieces.saturating_sub(usize::from(replaces.is_some()));
                let in_gaps = (capacity + freed).saturating_sub(self.piece_bytes);
                len > free + freed || len > in_gaps.div_ceil(others + 1)
            }
        }
    }

    /// Takes what there was room for.
    pub fn take(&mut self, demand: Demand) {
        match demand {
            Demand::Beside(len) => self.beside_bytes += len,
            Demand::Piece { len, replaces } => {
                self.pieces += usize::from(replaces.is_none());
                self.piece_bytes = self.piece_bytes + len - replaces.unwrap_or_default();
            }
        }
    }

    fn take_shard(&mut self, shard: &ShardModel) {
        self.take(Demand::of_spec(&shard.spec));
        Demand::of_cursor(&shard.cursor, None).into_iter().for_each(|it| self.take(it));
        self.take(Demand::of_spawned(shard.spawned.len()));
        self.take(Demand::Beside(shard.park_detail.as_ref().map_or(0, Vec::len)));
    }
}

impl Model {
    /// What all shards take together.
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

    fn piece(len: usize, replaces: Option<usize>) -> Demand {
        Demand::Piece { len, replaces }
    }

    #[test]
    fn room_is_lacking_only_where_no_gap_need_be_long_enough() {
        let mut room = Room::default();
        assert!(!room.may_lack(10, piece(10, None)) && room.may_lack(10, piece(11, None)));
        room.take(piece(4, None));
        assert_eq!((room.pieces, room.used()), (1, 4));
        // Six bytes are free, at worst three on either side.
        assert!(!room.may_lack(10, piece(3, None)) && room.may_lack(10, piece(4, None)));
        assert!(!room.may_lack(10, piece(10, Some(4))), "in its own place there is all of it");
        room.take(Demand::Beside(2));
        assert!(!room.may_lack(10, Demand::Beside(4)) && room.may_lack(10, Demand::Beside(5)));
        assert!(room.may_lack(10, piece(9, Some(4))), "what is kept beside counts");
        room.take(piece(1, Some(4)));
        assert_eq!((room.pieces, room.used()), (1, 3));
    }
}
