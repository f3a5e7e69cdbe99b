//! All limits of a cluster. The compiler checks their relations.

/// Default number of shards.
pub const DEFAULT_NUM_SHARDS: u32 = 8_192;
/// Maximum shards of a cluster. A chunk of their targets must fit into one request of 1.5 MB.
pub const MAX_NUM_SHARDS: u32 = 1 << 22;
/// Maximum size of an object id, in bytes.
pub const MAX_OBJECT_ID_SIZE: usize = 4_096;
/// Maximum size of a node address, in bytes: a full domain name and a port fit.
pub const MAX_NODE_ADDRESS_SIZE: usize = 512;
/// Maximum unknown flags of a shard.
pub const MAX_OTHER_FLAGS: usize = 16;
/// Maximum flags of a shard: a pin and its home always fit.
pub const MAX_FLAGS: usize = MAX_OTHER_FLAGS + 2;
/// Maximum size of a flag, in bytes.
pub const MAX_FLAG_SIZE: usize = 1_024;
/// Maximum chunks of all targets. With the version and the leader's key they must fit into one
/// request of 128 operations.
pub const MAX_TARGET_CHUNKS: u32 = 64;
/// Minimum shards of a chunk, so that a small cluster has few chunks.
pub const MIN_TARGET_CHUNK_SHARDS: u32 = 128;

const _: () = {
    assert!(DEFAULT_NUM_SHARDS <= MAX_NUM_SHARDS);
    assert!(MAX_NODE_ADDRESS_SIZE < MAX_OBJECT_ID_SIZE, "an object may live on any node");
    assert!(MAX_NODE_ADDRESS_SIZE < MAX_FLAG_SIZE, "a flag may name a node");
    assert!(MAX_TARGET_CHUNKS <= 126);
    assert!(MIN_TARGET_CHUNK_SHARDS > 0);
};
