//! Every size and count that anything may reach, in one place, with their relations checked by
//! the compiler.
//!
//! Sizes are in bytes, counts in items. Limits named `DEFAULT_…` are starting values that a
//! deployment may change; the others are part of the protocol.

/// Longest key: a range bound or a cursor's last key.
pub const MAX_KEY_SIZE: usize = 4_096;
/// Longest connector token of a cursor.
pub const MAX_TOKEN_SIZE: usize = 16_384;
/// Longest metadata of a shard, framing included.
pub const MAX_METADATA_SIZE: usize = 16_384;
/// Longest explanation that may accompany a parked shard.
pub const MAX_PARK_DETAIL_SIZE: usize = 1_024;
/// Longest description of what a run is for.
pub const MAX_RUN_DESCRIPTION_SIZE: usize = 512 * 1_024;
/// Longest name of a run.
pub const MAX_RUN_NAME_SIZE: usize = 40;

/// Most shards in the manifest of a run.
pub const MAX_INITIAL_SHARDS: usize = 10_000;
/// Most children of one split.
pub const MAX_SPLIT_CHILDREN: usize = 256;
/// Most shards that one shard may spawn by splits in its whole life.
pub const MAX_SPAWNED_PER_SHARD: usize = 1_024;
/// Most slots of one byte slab. Their tables are numbered in 32 bits and allocated at once.
pub const MAX_SLAB_SLOTS: u32 = 1 << 24;
/// Most entries that a preallocated builder may hold inline.
pub const MAX_BUILDER_CAPACITY: usize = 1_024;

/// Most workers of a run that are counted as waiting for shards.
pub const MAX_WAITING_WORKERS: usize = 10_000;

/// How many operations a shard remembers for replay.
pub const OP_LOG_CAPACITY: usize = 16;
/// How many operations a run remembers for replay.
pub const RUN_OP_LOG_CAPACITY: usize = 8;

/// Most shards of one tenant, unless configured otherwise.
pub const DEFAULT_MAX_SHARDS_PER_TENANT: usize = 100_000;
/// Most shards of all tenants together, unless configured otherwise.
pub const DEFAULT_MAX_TOTAL_SHARDS: usize = 1_000_000;

const _: () = {
    assert!(MAX_SPLIT_CHILDREN <= MAX_SPAWNED_PER_SHARD, "one split must fit a shard's lifetime");
    assert!(MAX_SPLIT_CHILDREN <= MAX_BUILDER_CAPACITY, "one bulk split must fit a builder");
    assert!(MAX_BUILDER_CAPACITY <= MAX_INITIAL_SHARDS, "a full builder must be a valid manifest");
    assert!(MAX_INITIAL_SHARDS <= DEFAULT_MAX_SHARDS_PER_TENANT, "one run must fit a tenant");
    assert!(DEFAULT_MAX_SHARDS_PER_TENANT <= DEFAULT_MAX_TOTAL_SHARDS);
    assert!(RUN_OP_LOG_CAPACITY <= OP_LOG_CAPACITY);
    assert!(MAX_SLAB_SLOTS <= (u32::MAX - 2) / 2, "free stretches lie between slots");
    assert!(DEFAULT_MAX_TOTAL_SHARDS <= MAX_SLAB_SLOTS as usize);
    // A shard may name a whole key in its metadata (a prefix hint) and still leave room.
    assert!(MAX_KEY_SIZE < MAX_METADATA_SIZE);
    // Sizes are framed as 32-bit lengths.
    assert!(MAX_TOKEN_SIZE < u32::MAX as usize);
    assert!(MAX_METADATA_SIZE < u32::MAX as usize);
};
