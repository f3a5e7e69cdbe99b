//! Bounded storage for many byte strings and shard specs, preallocated once.
//!
//! [`ByteSlab`] owns one buffer and hands out slots of it. [`ShardArena`] stores whole specs on
//! top. Neither allocates after construction, and both return [`SlabFull`] when they run out. A
//! freed handle, or one of another slab, is detected and never returns the bytes of another slot.

mod byte_slab;
mod extents;

use std::fmt;

use crate::spec::ShardSpecRef;

pub use byte_slab::{ByteSlab, ByteSlot, SlabFull, SlabTooLarge};

/// A spec in a [`ShardArena`]. Valid until it is freed or the arena is cleared.
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
/// It does not check specs. The caller checks a spec before it allocates one, and the registration
/// checks it again as part of its manifest.
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
    /// If the memory is not available; see [`ByteSlab::new`]. Use [`ShardArena::try_new`] for sizes
    /// from outside.
    #[must_use]
    pub fn new(max_specs: u32, byte_capacity: u32) -> Self {
        Self { slab: ByteSlab::new(max_specs, byte_capacity) }
    }

    /// Like [`ShardArena::new`], but fails if the memory is not available.
    pub fn try_new(max_specs: u32, byte_capacity: u32) -> Result<Self, SlabTooLarge> {
        Ok(Self { slab: ByteSlab::try_new(max_specs, byte_capacity)? })
    }

    /// Stores a copy of `spec`.
    pub fn alloc(&mut self, spec: ShardSpecRef<'_>) -> Result<ShardSpecHandle, SlabFull> {
        let slot = self.slab.insert_parts(&[spec.start(), spec.end(), spec.metadata()])?;
        // The slab has stored all three, so each length fits 32 bits.
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

    /// Frees a spec. Returns whether it was stored.
    pub fn free(&mut self, handle: ShardSpecHandle) -> bool {
        self.slab.remove(handle.slot)
    }

    /// Frees every spec.
    pub fn clear(&mut self) {
        self.slab.clear();
    }

    /// The number of stored specs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.slots_used()
    }

    /// Whether no spec is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of the stored specs.
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
    fn stored_spec_is_returned_unchanged() {
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
    fn debug_output_shows_usage_and_no_bytes() {
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
    fn stale_and_foreign_handles_return_none() {
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
