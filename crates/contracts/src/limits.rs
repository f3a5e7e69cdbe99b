//! All limits of sizes and counts. The compiler checks their relations.
//!
//! Sizes are in bytes, counts in items. Limits named `DEFAULT_…` can be configured. The others are
//! part of the protocol.

/// Maximum key: a range bound or a cursor's last key.
pub const MAX_KEY_SIZE: usize = 4_096;
/// Maximum connector token of a cursor.
pub const MAX_TOKEN_SIZE: usize = 16_384;
/// Maximum metadata of a shard, framing included.
pub const MAX_METADATA_SIZE: usize = 16_384;
/// Maximum detail of a parked shard.
pub const MAX_PARK_DETAIL_SIZE: usize = 1_024;
/// Maximum description of a run.
pub const MAX_RUN_DESCRIPTION_SIZE: usize = 512 * 1_024;
/// Maximum name of a run.
pub const MAX_RUN_NAME_SIZE: usize = 40;

/// Maximum shards in the manifest of a run.
pub const MAX_INITIAL_SHARDS: usize = 10_000;
/// Maximum children of one split.
pub const MAX_SPLIT_CHILDREN: usize = 256;
/// Maximum shards that one shard may spawn by splits.
pub const MAX_SPAWNED_PER_SHARD: usize = 1_024;
/// Maximum slots of one byte slab. Their tables have 32-bit indexes and are allocated at once.
pub const MAX_SLAB_SLOTS: u32 = 1 << 24;
/// Maximum entries of a preallocated builder.
pub const MAX_BUILDER_CAPACITY: usize = 1_024;

/// Maximum workers of a run that count as waiting.
pub const MAX_WAITING_WORKERS: usize = 10_000;

/// Operations in the op log of a shard.
pub const OP_LOG_CAPACITY: usize = 16;
/// Operations in the op log of a run.
pub const RUN_OP_LOG_CAPACITY: usize = 8;

/// Default limit of the shards of one tenant.
pub const DEFAULT_MAX_SHARDS_PER_TENANT: usize = 100_000;
/// Default limit of the shards of all tenants.
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
    // A shard may store a whole key in its metadata (a prefix hint) and more.
    assert!(MAX_KEY_SIZE < MAX_METADATA_SIZE);
    // Sizes are framed as 32-bit lengths.
    assert!(MAX_TOKEN_SIZE < u32::MAX as usize);
    assert!(MAX_METADATA_SIZE < u32::MAX as usize);
};
