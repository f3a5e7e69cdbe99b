//! Every size and count that a cluster may reach, with their relations checked by the compiler.

/// Shards of a cluster, unless configured otherwise.
pub const DEFAULT_NUM_SHARDS: u32 = 8_192;
/// Most shards of a cluster: a chunk of their targets must fit one request of a store that takes
/// 1.5 MB.
pub const MAX_NUM_SHARDS: u32 = 1 << 22;
/// Longest object id, in bytes.
pub const MAX_OBJECT_ID_SIZE: usize = 4_096;
/// Longest node address, in bytes: a full domain name, a port, and room.
pub const MAX_NODE_ADDRESS_SIZE: usize = 512;
/// Most flags of a shard that mean nothing here.
pub const MAX_OTHER_FLAGS: usize = 16;
/// Most flags of a shard: there is always room for a pin and for its home.
pub const MAX_FLAGS: usize = MAX_OTHER_FLAGS + 2;
/// Longest flag of a shard, in bytes.
pub const MAX_FLAG_SIZE: usize = 1_024;
/// Most chunks that all targets are stored in. With the version and the leader's key they must
/// fit one request of a store that takes 128 operations.
pub const MAX_TARGET_CHUNKS: u32 = 64;
/// Fewest shards of a chunk, so that a small cluster has few chunks.
pub const MIN_TARGET_CHUNK_SHARDS: u32 = 128;

const _: () = {
    assert!(DEFAULT_NUM_SHARDS <= MAX_NUM_SHARDS);
    assert!(MAX_NODE_ADDRESS_SIZE < MAX_OBJECT_ID_SIZE, "an object may live on any node");
    assert!(MAX_NODE_ADDRESS_SIZE < MAX_FLAG_SIZE, "a flag may name a node");
    assert!(MAX_TARGET_CHUNKS <= 126);
    assert!(MIN_TARGET_CHUNK_SHARDS > 0);
};
