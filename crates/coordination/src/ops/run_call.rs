use shardwright_contracts::{LogicalTime, RunId, TenantId};

use crate::events::{EventCollector, EventKind, StateTransitionEvent};

/// Who asks for a change of a run, and when.
#[derive(Clone, Copy, Debug)]
pub struct RunCall {
    /// What time it is.
    pub now: LogicalTime,
    /// Who asks.
    pub tenant: TenantId,
}

impl RunCall {
    pub(super) fn emit(
        &self,
        run: RunId,
        events: &mut EventCollector,
        kind: impl FnOnce() -> EventKind,
    ) {
        let (tenant, at) = (self.tenant, self.now);
        events.emit_with(tenant, || StateTransitionEvent { tenant, run, at, kind: kind() });
    }
}
