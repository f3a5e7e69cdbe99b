//! The visible state of a run between two requests.

use shardwright_contracts::{LogicalTime, RunId, TenantId};
use shardwright_coordination::{
    CoordinationBackend, RunProgress, RunRecord, ShardFilter, ShardSummary,
};

use crate::request::Reply;
use crate::request::operation::{GetRun, GetRunProgress, ListShards};

/// A run as its tenant sees it.
#[derive(Clone, Debug)]
pub struct RunView {
    /// The run itself, its op log included.
    pub record: RunRecord,
    /// All its shards in key order, with valid and expired leases.
    pub shards: Vec<ShardSummary>,
    /// Its progress.
    pub progress: RunProgress,
    /// Time of the progress.
    pub at: LogicalTime,
}

impl RunView {
    /// Reads a run, if the tenant has it.
    pub fn take(
        system: &mut impl CoordinationBackend,
        at: LogicalTime,
        tenant: TenantId,
        run: RunId,
    ) -> Option<Self> {
        let Ok(Reply::Run(record)) = system.call(at, tenant, GetRun { run }.into()) else {
            return None;
        };
        // At time zero no lease has expired, so the view does not depend on the time.
        let list = ListShards { run, filter: ShardFilter::all() };
        let Ok(Reply::Shards(shards)) = system.call(LogicalTime::ZERO, tenant, list.into()) else {
            return None;
        };
        let progress = system.call(at, tenant, GetRunProgress { run }.into());
        let Ok(Reply::Progress(progress)) = progress else { return None };
        Some(Self { record: *record, shards, progress, at })
    }

    /// Whether two views differ only in their time.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.record == other.record && self.shards == other.shards
    }
}

/// Whether two optional views differ only in their time.
#[must_use]
pub fn same(one: Option<&RunView>, other: Option<&RunView>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.is_same_as(other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
