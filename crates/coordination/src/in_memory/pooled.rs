//! A shard whose bytes are in the shared byte budget.

use shardwright_contracts::{ByteSlot, CursorUpdate, ShardSpecRef, SlabFull};

use super::byte_budget::ByteBudget;
use crate::record::{Park, ShardHead, ShardState, assert_sound, check_cursor};

/// A shard's range and metadata in a slab.
#[derive(Clone, Copy, Debug)]
pub(super) struct PooledShardSpec {
    slot: ByteSlot,
    start_len: u32,
    end_len: u32,
}

impl PooledShardSpec {
    /// Stores a copy of a checked spec.
    fn insert(room: &mut ByteBudget, spec: ShardSpecRef<'_>) -> Result<Self, SlabFull> {
        let slot = room.insert_parts(&[spec.start(), spec.end(), spec.metadata()])?;
        Ok(Self::new(slot, spec))
    }

    /// Replaces the spec by a copy of a checked one.
    fn replace(self, room: &mut ByteBudget, spec: ShardSpecRef<'_>) -> Result<Self, SlabFull> {
        let parts = [spec.start(), spec.end(), spec.metadata()];
        Ok(Self::new(room.replace_parts(self.slot, &parts)?, spec))
    }

    const fn new(slot: ByteSlot, spec: ShardSpecRef<'_>) -> Self {
        let (start_len, end_len) = (spec.start().len() as u32, spec.end().len() as u32);
        Self { slot, start_len, end_len }
    }

    fn get<'s>(&self, room: &'s ByteBudget) -> ShardSpecRef<'s> {
        let bytes = room.get(self.slot).unwrap_or_default();
        let (start, rest) = bytes.split_at_checked(self.start_len as usize).unwrap_or_default();
        let (end, metadata) = rest.split_at_checked(self.end_len as usize).unwrap_or_default();
        ShardSpecRef::new(start, end, metadata)
    }
}

/// A shard's cursor in a slab. The initial cursor uses no bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PooledCursor(Option<CursorSlot>);

#[derive(Clone, Copy, Debug)]
struct CursorSlot {
    slot: ByteSlot,
    key_len: u32,
}

impl PooledCursor {
    /// Replaces the cursor by a copy of a checked one.
    fn replace(self, room: &mut ByteBudget, cursor: CursorUpdate<'_>) -> Result<Self, SlabFull> {
        let Some(key) = cursor.last_key() else {
            self.remove(room);
            return Ok(Self(None));
        };
        let parts = [key, cursor.token().unwrap_or_default()];
        let slot = match self.0 {
            Some(old) => room.replace_parts(old.slot, &parts)?,
            None => room.insert_parts(&parts)?,
        };
        Ok(Self(Some(CursorSlot { slot, key_len: key.len() as u32 })))
    }

    fn get<'s>(&self, room: &'s ByteBudget) -> CursorUpdate<'s> {
        let Some(CursorSlot { slot, key_len }) = self.0 else { return CursorUpdate::initial() };
        let bytes = room.get(slot).unwrap_or_default();
        let (key, token) = bytes.split_at_checked(key_len as usize).unwrap_or_default();
        CursorUpdate::new(Some(key), Some(token))
    }

    fn remove(self, room: &mut ByteBudget) {
        if let Some(CursorSlot { slot, .. }) = self.0 {
            room.remove(slot);
        }
    }
}

/// A shard whose bytes are in a slab.
///
/// Aligned to a cache line, so that a cold shard is loaded in four lines instead of mostly five.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct PooledShard {
    pub(super) head: ShardHead,
    spec: PooledShardSpec,
    cursor: PooledCursor,
    /// Its position in the run's list of available shards, if it is available.
    pub(super) place: Option<u32>,
}

impl PooledShard {
    /// Stores a new shard, or nothing if there is no room for all of it.
    pub(super) fn insert(
        room: &mut ByteBudget,
        head: ShardHead,
        spec: ShardSpecRef<'_>,
        cursor: CursorUpdate<'_>,
    ) -> Result<Self, SlabFull> {
        assert_sound(head.check_invariants());
        assert_sound(check_cursor(spec, cursor));
        let spec = PooledShardSpec::insert(room, spec)?;
        match PooledCursor::default().replace(room, cursor) {
            Ok(cursor) => Ok(Self { head, spec, cursor, place: None }),
            Err(full) => {
                room.remove(spec.slot);
                Err(full)
            }
        }
    }

    /// Frees the shard's bytes.
    pub(super) fn remove(self, room: &mut ByteBudget) {
        room.remove(self.spec.slot);
        self.cursor.remove(room);
    }

    pub(super) fn spec<'s>(&self, room: &'s ByteBudget) -> ShardSpecRef<'s> {
        self.spec.get(room)
    }

    pub(super) fn cursor<'s>(&self, room: &'s ByteBudget) -> CursorUpdate<'s> {
        self.cursor.get(room)
    }
}

/// A shard with the slab of its bytes.
pub(super) struct PooledShardMut<'a> {
    pub(super) shard: &'a mut PooledShard,
    pub(super) room: &'a mut ByteBudget,
}

impl ShardState for PooledShardMut<'_> {
    fn head(&self) -> &ShardHead {
        &self.shard.head
    }

    fn head_mut(&mut self) -> &mut ShardHead {
        &mut self.shard.head
    }

    fn spec(&self) -> ShardSpecRef<'_> {
        self.shard.spec.get(self.room)
    }

    fn cursor(&self) -> CursorUpdate<'_> {
        self.shard.cursor.get(self.room)
    }

    fn set_cursor(&mut self, cursor: CursorUpdate<'_>) -> Result<(), SlabFull> {
        self.shard.cursor = self.shard.cursor.replace(self.room, cursor)?;
        Ok(())
    }

    fn set_spec(&mut self, spec: ShardSpecRef<'_>) -> Result<(), SlabFull> {
        self.shard.spec = self.shard.spec.replace(self.room, spec)?;
        Ok(())
    }

    fn set_park(&mut self, park: Park) -> Result<(), SlabFull> {
        self.room.reserve_outside(park.detail.len())?;
        self.clear_park();
        self.shard.head.park = Some(park);
        Ok(())
    }

    fn clear_park(&mut self) {
        let park = self.shard.head.park.take();
        self.room.free_outside(park.map_or(0, |park| park.detail.len()));
    }
}
