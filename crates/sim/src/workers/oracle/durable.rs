use shardwright_contracts::ShardId;
use shardwright_worker::extent::Extent;

use super::ensure;
use crate::oracle::{Finding, Oracle};
use crate::workers::handler::items_in;
use crate::workers::sink::digest;

pub(in crate::workers) const ORACLE: &Oracle = &Oracle::of_the_world(
    "named results are durable",
    "when a committed cursor names an extent, the sink holds its bytes durably, with that digest \
     and that many results",
);

/// Judges an extent by what the sink holds of its segment, and returns its bytes.
pub(in crate::workers) fn judge<'s>(
    shard: ShardId,
    extent: &Extent,
    segment: Option<&'s [u8]>,
) -> Result<&'s [u8], Finding> {
    let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
    let durable = segment.map(<[u8]>::len);
    let bytes = segment.and_then(|bytes| bytes.get(..length)).unwrap_or_default();
    let is_whole = bytes.len() == length
        && digest(bytes) == extent.digest
        && items_in(bytes).len() as u64 == extent.items;
    ensure(ORACLE, is_whole, || format!("shard {shard} names {extent:?}; durable: {durable:?}"))?;
    Ok(bytes)
}
