//! Bounded storage for many byte strings and shard specs, preallocated once.
//!
//! [`ByteSlab`] owns one buffer and hands out slots of it; [`ShardArena`] stores whole specs on
//! top. Neither touches the heap after construction, both say [`SlabFull`] when they run out, and
//! a handle that was freed, or that another slab gave out, is recognised and never answered with
//! somebody else's bytes.

mod byte_slab;
mod extents;
mod shard_arena;

pub use byte_slab::{ByteSlab, ByteSlot, SlabFull, SlabTooLarge};
pub use shard_arena::{ShardArena, ShardSpecHandle};
