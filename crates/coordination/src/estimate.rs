//! What holders think of the work that they have left.
//!
//! Whoever is idle asks the holder that will be last. To know which one that is, holders tell from
//! time to time how far they are. It is advice: nothing is decided by it, and it may be old.

use std::future::Future;

use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, ShardId, TenantId, WorkerId};

use crate::backend::{Backend, execute};
use crate::error::InfraError;
use crate::lease::Lease;
use crate::operation::{ListEstimates, PublishEstimate};

/// How far a holder is, as it sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkEstimate {
    /// Items that are done since the shard was acquired.
    pub done_items: u64,
    /// Bytes of the items that are done since the shard was acquired.
    pub done_bytes: u64,
    /// Items that are left, if anybody can tell.
    pub left_items: Option<u64>,
    /// Bytes that are left, if anybody can tell.
    pub left_bytes: Option<u64>,
    /// How long the rest will take, if anybody can tell.
    pub left_ms: Option<u64>,
    /// Whether the rest is one item, of which nobody can be given a part.
    pub is_indivisible: bool,
}

/// An estimate, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldEstimate {
    /// Of which shard.
    pub shard: ShardId,
    /// Under which fence; another one has made it void.
    pub fence: FenceEpoch,
    /// Who made it.
    pub holder: WorkerId,
    /// When it was made.
    pub at: LogicalTime,
    /// What it says.
    pub estimate: WorkEstimate,
}

/// Publishing and listing estimates. Every [`Backend`] can.
pub trait AsyncWorkEstimates: Backend {
    /// Tells how far the holder of `lease` is. It is gone when its holder is.
    fn publish_estimate(
        &self,
        tenant: TenantId,
        lease: &Lease,
        estimate: WorkEstimate,
    ) -> impl Future<Output = Result<(), InfraError>> + Send {
        execute(self, tenant, PublishEstimate { lease: *lease, estimate })
    }

    /// What the holders of a run's shards told last, in the order of shards.
    fn list_estimates(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> impl Future<Output = Result<Vec<HeldEstimate>, InfraError>> + Send {
        execute(self, tenant, ListEstimates { run })
    }
}

impl<B: Backend + ?Sized> AsyncWorkEstimates for B {}
