//! Events that a worker reports.

use std::time::Duration;

use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_coordination::ParkReason;

use crate::connector::SkipReports;

/// An event of a worker.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WorkerEvent<'a> {
    /// A shard was acquired.
    Claimed {
        /// The shard.
        shard: ShardId,
        /// Its new fence.
        fence: FenceEpoch,
        /// Start of its range.
        start: &'a [u8],
        /// End of its range.
        end: &'a [u8],
        /// The last completed key.
        after: Option<&'a [u8]>,
    },
    /// An item and all before it in its shard are done.
    Done {
        /// The shard.
        shard: ShardId,
        /// The item.
        key: &'a [u8],
        /// Its size in bytes.
        bytes: u64,
        /// Number of retries.
        retries: u32,
    },
    /// The cursor was committed.
    Committed {
        /// The shard.
        shard: ShardId,
        /// The cursor's key.
        key: &'a [u8],
        /// Items done in the shard.
        items: u64,
        /// Bytes done in the shard.
        bytes: u64,
    },
    /// The rest of a shard was split off as a new shard.
    Split {
        /// The shard.
        shard: ShardId,
        /// The new shard.
        residual: ShardId,
        /// Start of the new shard.
        boundary: &'a [u8],
    },
    /// A split was requested of a shard that cannot be split now.
    Indivisible {
        /// The shard.
        shard: ShardId,
        /// The last key handed out.
        key: Option<&'a [u8]>,
    },
    /// An item failed permanently in a run whose cursors move at dispatch.
    Failed {
        /// The shard.
        shard: ShardId,
        /// The item.
        key: &'a [u8],
        /// What went wrong.
        detail: &'a str,
    },
    /// An item failed permanently and was parked.
    Parked {
        /// The shard that holds nothing but the item now.
        shard: ShardId,
        /// The item.
        key: &'a [u8],
        /// The reason.
        reason: ParkReason,
        /// What went wrong.
        detail: &'a str,
        /// Number of retries before that.
        retries: u32,
    },
    /// An item that waits for a retry was split off, into the shard that it was in. The rest of the
    /// shard is a new shard.
    SetAside {
        /// The shard that holds nothing but the item now.
        shard: ShardId,
        /// The item.
        key: &'a [u8],
        /// Its tries so far.
        tries: u32,
        /// Time until the next try.
        wait: Duration,
    },
    /// A shard was completed.
    Completed {
        /// The shard.
        shard: ShardId,
    },
    /// A shard was released.
    Released {
        /// The shard.
        shard: ShardId,
    },
    /// The lease of a shard was lost.
    Lost {
        /// The shard.
        shard: ShardId,
        /// How the worker learned of it.
        reason: &'a str,
    },
    /// The store rejected a write, because the shard had another owner by then.
    Refused {
        /// The shard.
        shard: ShardId,
    },
    /// A retried write had taken effect before, and was applied once.
    Replayed {
        /// The shard.
        shard: ShardId,
    },
    /// Entries of the source were skipped. Reading a page again, in this worker or the next,
    /// reports the same entries again.
    Skipped {
        /// The skipped entries, and how many per reason.
        reports: &'a SkipReports,
    },
    /// No shard can be claimed now.
    Idle,
    /// The run is paused.
    Paused,
    /// A call of the store or the source failed, and will be retried.
    Retrying {
        /// The error message.
        message: &'a str,
    },
}

/// Receives events. It is called in the middle of the work, so it must be quick.
pub trait Observer: Send + Sync + 'static {
    /// Receives an event of the worker's slot with this number.
    fn event(&self, slot: usize, event: WorkerEvent<'_>);
}

/// Ignores events.
impl Observer for () {
    fn event(&self, _: usize, _: WorkerEvent<'_>) {}
}
