//! What anyone can see of a run, taken between two requests.

use shardwright_contracts::{LogicalTime, RunId, TenantId};
use shardwright_coordination::{RunProgress, RunRecord, ShardFilter, ShardSummary};

use crate::system::System;

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
        system: &mut impl System,
        at: LogicalTime,
        tenant: TenantId,
        run: RunId,
    ) -> Option<Self> {
        let record = system.get_run(tenant, run).ok()?;
        let mut shards = Vec::new();
        // At the beginning of time no lease is over, so that the view does not depend on the time.
        let beginning = LogicalTime::ZERO;
        system.list_shards_into(beginning, tenant, run, ShardFilter::all(), &mut shards).ok()?;
        let progress = system.get_run_progress(at, tenant, run).ok()?;
        Some(Self { record, shards, progress, at })
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
