//! Sinks: storage of results.

mod folder;
#[cfg(feature = "objects")]
mod objects;

pub use folder::{FileSegment, FolderSink};
#[cfg(feature = "objects")]
pub use objects::{ObjectSegment, ObjectSink};
use shardwright_contracts::{FenceEpoch, RunId, ShardId};

/// The name of the folder of a run's segments.
fn run_name(run: RunId) -> String {
    format!("{:016x}", run.as_raw())
}

/// Whether a name is a segment's (`SHARD-FENCE`), or a part's in an object store
/// (`SHARD-FENCE/NUMBER`).
#[must_use]
pub fn is_segment_name(name: &str) -> bool {
    let is_hex = |text: &str| text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
    let is_part = |text: &str| text.len() >= 8 && text.bytes().all(|it| it.is_ascii_digit());
    let (segment, part) = name.split_once('/').map_or((name, None), |(it, part)| (it, Some(part)));
    let is_segment = segment.split_once('-').is_some_and(|(one, two)| is_hex(one) && is_hex(two));
    is_segment && part.is_none_or(is_part)
}

/// The name of a segment in its run's folder.
fn segment_name(shard: ShardId, fence: FenceEpoch) -> String {
    format!("{:016x}-{:016x}", shard.as_raw(), fence.as_raw())
}
