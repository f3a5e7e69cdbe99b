//! Places for results.

mod folder;
#[cfg(feature = "objects")]
mod objects;

pub use folder::{FileSegment, FolderSink};
#[cfg(feature = "objects")]
pub use objects::{ObjectSegment, ObjectSink};
use shardwright_contracts::{FenceEpoch, RunId, ShardId};

/// What the place of a run's segments is called.
fn run_name(run: RunId) -> String {
    format!("{:016x}", run.as_raw())
}

/// What a segment is called there.
fn segment_name(shard: ShardId, fence: FenceEpoch) -> String {
    format!("{:016x}-{:016x}", shard.as_raw(), fence.as_raw())
}
