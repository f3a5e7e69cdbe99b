//! What anyone can see of a run, taken between two requests.

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
    /// All its shards in key order, with their leases whether over or not.
    pub shards: Vec<ShardSummary>,
    /// How far it has come.
    pub progress: RunProgress,
    /// When that was asked.
    pub at: LogicalTime,
}

impl RunView {
    /// Looks at a run, if the tenant has it.
    pub fn take(
        system: &mut impl CoordinationBackend,
        at: LogicalTime,
        tenant: TenantId,
        run: RunId,
    ) -> Option<Self> {
        let Ok(Reply::Run(record)) = system.call(at, tenant, GetRun { run }.into()) else {
            return None;
        };
        // At the beginning of time no lease is over, so the view does not depend on the time.
        let list = ListShards { run, filter: ShardFilter::all() };
        let Ok(Reply::Shards(shards)) = system.call(LogicalTime::ZERO, tenant, list.into()) else {
            return None;
        };
        let progress = system.call(at, tenant, GetRunProgress { run }.into());
        let Ok(Reply::Progress(progress)) = progress else { return None };
        Some(Self { record: *record, shards, progress, at })
    }

    /// Whether nothing but time lies between two views.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.record == other.record && self.shards == other.shards
    }
}

/// Whether nothing but time lies between two views of what may not be there.
#[must_use]
pub fn same(one: Option<&RunView>, other: Option<&RunView>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.is_same_as(other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
