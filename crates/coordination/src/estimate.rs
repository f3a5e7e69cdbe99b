//! Estimates of the work that holders have left.
//!
//! An idle worker requests a split from the holder that will finish last. To find it, holders
//! publish their progress from time to time. Estimates are advice: no rule depends on them, and
//! they may be old.

use std::future::Future;

use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, ShardId, TenantId, WorkerId};

use crate::backend::{Backend, execute};
use crate::error::InfraError;
use crate::lease::Lease;
use crate::operation::{ListEstimates, PublishEstimate};

/// The progress of a holder, as it sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkEstimate {
    /// Items that are done since the shard was acquired.
    pub done_items: u64,
    /// Bytes of the items that are done since the shard was acquired.
    pub done_bytes: u64,
    /// Items that are left, if known.
    pub left_items: Option<u64>,
    /// Bytes that are left, if known.
    pub left_bytes: Option<u64>,
    /// The expected remaining time, if known.
    pub left_ms: Option<u64>,
    /// Whether the rest is a single item, which cannot be split.
    pub is_indivisible: bool,
}

/// An estimate with its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldEstimate {
    /// The shard.
    pub shard: ShardId,
    /// The holder's fence. A later fence makes the estimate void.
    pub fence: FenceEpoch,
    /// The holder.
    pub holder: WorkerId,
    /// When it was published.
    pub at: LogicalTime,
    /// The estimate.
    pub estimate: WorkEstimate,
}

/// Publishing and listing estimates. Every [`Backend`] implements it.
pub trait AsyncWorkEstimates: Backend {
    /// Publishes the progress of the holder of `lease`. It is deleted with the holder's session.
    fn publish_estimate(
        &self,
        tenant: TenantId,
        lease: &Lease,
        estimate: WorkEstimate,
    ) -> impl Future<Output = Result<(), InfraError>> + Send {
        execute(self, tenant, PublishEstimate { lease: *lease, estimate })
    }

    /// The last estimates of the holders of a run's shards, in the order of shards.
    fn list_estimates(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> impl Future<Output = Result<Vec<HeldEstimate>, InfraError>> + Send {
        execute(self, tenant, ListEstimates { run })
    }
}

impl<B: Backend + ?Sized> AsyncWorkEstimates for B {}
