//! What a worker tells about its work while it goes on.

use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_coordination::ParkReason;

use crate::connector::SkipReports;

/// Something that happened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WorkerEvent<'a> {
    /// A shard was acquired.
    Claimed {
        /// Which.
        shard: ShardId,
        /// Under which fence.
        fence: FenceEpoch,
        /// Its range.
        start: &'a [u8],
        /// Its range's end.
        end: &'a [u8],
        /// The last key that is done.
        after: Option<&'a [u8]>,
    },
    /// An item is done, and everything before it in its shard is.
    Done {
        /// The shard.
        shard: ShardId,
        /// The item.
        key: &'a [u8],
        /// How many bytes it stands for.
        bytes: u64,
        /// How often it was tried again.
        retries: u32,
    },
    /// What is done has been committed.
    Committed {
        /// The shard.
        shard: ShardId,
        /// Up to where.
        key: &'a [u8],
        /// How many items the shard has behind it.
        items: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// The rest of a shard became a new one.
    Split {
        /// The shard.
        shard: ShardId,
        /// The new one.
        residual: ShardId,
        /// Where the new one begins.
        boundary: &'a [u8],
    },
    /// Somebody asked for a part of a shard, and there is none that could be given, for now at
    /// least.
    Indivisible {
        /// The shard.
        shard: ShardId,
        /// What is being worked on.
        key: Option<&'a [u8]>,
    },
    /// An item failed for good in a run whose cursors move when items are handed out.
    Failed {
        /// The shard.
        shard: ShardId,
        /// The item.
        key: &'a [u8],
        /// What is known about it.
        detail: &'a str,
    },
    /// An item failed for good and is set aside.
    Parked {
        /// The shard, whose rest is that item.
        shard: ShardId,
        /// The item.
        key: &'a [u8],
        /// Why.
        reason: ParkReason,
        /// What is known about it.
        detail: &'a str,
        /// How often it was tried again before that.
        retries: u32,
    },
    /// A shard is done.
    Completed {
        /// Which.
        shard: ShardId,
    },
    /// A shard was given back.
    Released {
        /// Which.
        shard: ShardId,
    },
    /// A shard is somebody else's now, or nobody's.
    Lost {
        /// Which.
        shard: ShardId,
        /// How that came to be known.
        reason: &'a str,
    },
    /// The store refused a write, because the shard had another owner by then.
    Refused {
        /// Which.
        shard: ShardId,
    },
    /// A write that was repeated had taken effect before, and was done once.
    Replayed {
        /// Which shard's.
        shard: ShardId,
    },
    /// Entries of the source were skipped. Reading a page again, in this worker or the next,
    /// reports the same entries again.
    Skipped {
        /// The skipped entries, and how many per reason.
        reports: &'a SkipReports,
    },
    /// There is nothing to claim at the moment.
    Idle,
    /// The run is paused.
    Paused,
    /// The store does not answer, or the source; it is asked again.
    Trouble {
        /// What it said.
        message: &'a str,
    },
}

/// Somebody who wants to know. It is called from the middle of the work, so it should be quick.
pub trait Observer: Send + Sync + 'static {
    /// Something happened to the worker's slot of that number.
    fn event(&self, slot: usize, event: WorkerEvent<'_>);
}

/// Nobody wants to know.
impl Observer for () {
    fn event(&self, _: usize, _: WorkerEvent<'_>) {}
}
