use crate::shard_map::ShardMap;
use crate::target::{TargetHeader, TargetUpdate};

/// Nothing would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreezeRefused {
    /// The cluster is frozen.
    #[error("the cluster is frozen already")]
    AlreadyFrozen,
    /// The cluster is not frozen.
    #[error("the cluster is not frozen")]
    NotFrozen,
}

/// What the leader writes so that nothing is moved any more that need not be, or is again.
///
/// Shards of nodes that die or drain find a new one even so: the alternative is that calls fail.
pub fn freeze(map: &ShardMap, frozen: bool) -> Result<TargetUpdate, FreezeRefused> {
    let header = map.header();
    match (header.frozen, frozen) {
        (true, true) => Err(FreezeRefused::AlreadyFrozen),
        (false, false) => Err(FreezeRefused::NotFrozen),
        (true, false) | (false, true) => {
            let header = TargetHeader { version: header.version.next(), frozen, ..header };
            Ok(TargetUpdate { header, changes: Vec::new() })
        }
    }
}
