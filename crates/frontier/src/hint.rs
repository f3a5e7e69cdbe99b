//! What a shard's range stands for, written into its metadata.
//!
//! A range of bytes does not say whether it is a folder, rows of a manifest or just a range. A
//! [`ShardHint`] does. It travels in the shard's metadata, in an envelope with bytes that only
//! the connector understands:
//!
//! ```text
//! envelope   [hint length: u32 BE][hint][connector's bytes]     or nothing at all: a range
//!
//! range      [00]
//! prefix     [01][length: u32 BE][prefix]
//! manifest   [02][manifest id: u64 BE][first row: u64 BE][row behind the last: u64 BE]
//! ```
//!
//! There is no version number. A new meaning gets a new tag, and a tag that is not known is an
//! error, so that nobody works on a shard that it does not understand.

mod metadata;
mod propagate;
mod shard;
mod split;
mod wire;

pub use metadata::{
    MetadataBuf, ShardMetadata, ShardMetadataDecodeError, decode_connector_extra, decode_hint,
    decode_metadata,
};
pub use propagate::{HintPropagationError, SplitBoundary, propagate_hint_on_split};
pub use shard::{
    ShardSpecScratch, manifest_shard_into, manifest_shard_ref, prefix_shard_into, prefix_shard_ref,
    range_shard_into, range_shard_ref,
};
pub use split::{HintedSplitError, plan_hinted_split_replace, plan_hinted_split_residual};
pub use wire::{ShardEncodeError, ShardHint, ShardHintDecodeError};

#[cfg(test)]
mod tests;
