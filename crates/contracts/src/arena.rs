//! Bounded storage for many byte strings and shard specs, preallocated once.
//!
//! [`ByteSlab`] owns one buffer and hands out slots of it; [`ShardArena`] stores whole specs on
//! top. Neither touches the heap after construction, both say [`SlabFull`] when they run out, and
//! a handle that was freed, or that another slab gave out, is recognised and never answered with
//! somebody else's bytes.

mod byte_slab;
mod extents;

use std::fmt;

use crate::spec::ShardSpecRef;

pub use byte_slab::{ByteSlab, ByteSlot, SlabFull, SlabTooLarge};

/// A spec in a [`ShardArena`], good until it is freed or the arena is cleared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShardSpecHandle {
    slot: ByteSlot,
    start_len: u32,
    end_len: u32,
}

impl fmt::Debug for ShardSpecHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardSpecHandle({:?})", self.slot)
    }
}

/// Preallocated storage for shard specs.
///
/// It stores what it is given: whoever allocates a spec has checked it, and whoever registers
/// one from here checks it again as part of its manifest.
#[derive(Debug)]
pub struct ShardArena {
    slab: ByteSlab,
}

impl ShardArena {
    /// Allocates room for `max_specs` specs whose bounds and metadata take `byte_capacity` bytes
    /// in all.
    ///
    /// # Panics
    ///
    /// If that is more than can be had; see [`ByteSlab::new`]. Use [`ShardArena::try_new`] for
    /// sizes that come from outside.
    #[must_use]
    pub fn new(max_specs: u32, byte_capacity: u32) -> Self {
        Self { slab: ByteSlab::new(max_specs, byte_capacity) }
    }

    /// Like [`ShardArena::new`], if that can be had.
    pub fn try_new(max_specs: u32, byte_capacity: u32) -> Result<Self, SlabTooLarge> {
        Ok(Self { slab: ByteSlab::try_new(max_specs, byte_capacity)? })
    }

    /// Stores a copy of `spec`.
    pub fn alloc(&mut self, spec: ShardSpecRef<'_>) -> Result<ShardSpecHandle, SlabFull> {
        let slot = self.slab.insert_parts(&[spec.start(), spec.end(), spec.metadata()])?;
        // The slab took all three, so each length fits the 32 bits that its offsets have.
        Ok(ShardSpecHandle {
            slot,
            start_len: spec.start().len() as u32,
            end_len: spec.end().len() as u32,
        })
    }

    /// The spec behind a handle, unless it was freed or belongs to another arena.
    #[must_use]
    pub fn get(&self, handle: ShardSpecHandle) -> Option<ShardSpecRef<'_>> {
        let bytes = self.slab.get(handle.slot)?;
        let (start, rest) = bytes.split_at_checked(handle.start_len as usize)?;
        let (end, metadata) = rest.split_at_checked(handle.end_len as usize)?;
        Some(ShardSpecRef::new(start, end, metadata))
    }

    /// Frees a spec; says whether it was there to be freed.
    pub fn free(&mut self, handle: ShardSpecHandle) -> bool {
        self.slab.remove(handle.slot)
    }

    /// Frees every spec.
    pub fn clear(&mut self) {
        self.slab.clear();
    }

    /// How many specs are stored.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.slots_used()
    }

    /// Whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes the stored specs take.
    #[must_use]
    pub const fn bytes_used(&self) -> usize {
        self.slab.bytes_used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ShardSpecRef<'static> {
        ShardSpecRef::new(b"start", b"tail", b"meta")
    }

    #[test]
    fn returns_the_parts_as_they_were() {
        let mut arena = ShardArena::new(3, 64);
        let unbounded = ShardSpecRef::new(b"", b"", b"");
        let handles = [spec(), unbounded, spec().with_metadata(b"")]
            .map(|spec| (arena.alloc(spec).unwrap(), spec));
        for (handle, spec) in handles {
            assert_eq!(arena.get(handle), Some(spec));
        }
        assert_eq!((arena.len(), arena.bytes_used()), (3, 13 + 9));
    }

    #[test]
    fn debug_says_how_full_it_is_and_not_of_what() {
        let mut arena = ShardArena::try_new(3, 64).unwrap();
        let handle = arena.alloc(spec()).unwrap();
        let text = format!("{arena:?} {handle:?}");
        assert!(text.contains("slots_used: 1") && text.contains("bytes_used: 13"), "{text}");
        // The bytes of the spec, as a list of numbers or as text.
        assert!(!text.contains("115") && !text.contains("start"), "{text}");
        assert!(ShardArena::try_new(u32::MAX, 0).is_err());
    }

    #[test]
    fn runs_out_of_handles_and_of_bytes() {
        let mut arena = ShardArena::new(1, 100);
        arena.alloc(spec()).unwrap();
        assert_eq!(arena.alloc(spec()), Err(SlabFull::Handles { max: 1 }));
        let mut arena = ShardArena::new(9, 12);
        let full = SlabFull::Bytes { requested: 13, free: 12, capacity: 12 };
        assert_eq!(arena.alloc(spec()), Err(full));
        assert!(arena.is_empty());
    }

    #[test]
    fn stale_and_foreign_handles_answer_nothing() {
        let (mut arena, mut other) = (ShardArena::new(1, 20), ShardArena::new(1, 20));
        let handle = arena.alloc(spec()).unwrap();
        let foreign = other.alloc(spec()).unwrap();
        assert_eq!(arena.get(foreign), None);
        assert!(!arena.free(foreign));
        assert!(!arena.is_empty());
        assert!(arena.free(handle));
        assert!(!arena.free(handle));
        arena.alloc(ShardSpecRef::new(b"other", b"spec", b"here")).unwrap();
        assert_eq!(arena.get(handle), None);
        arena.clear();
        assert!(arena.is_empty());
    }
}
