//! Changes of a run of which nobody knows whether they were stored.

use shardwright_contracts::RunId;
use shardwright_coordination::error::reason::RunNotFound;
use shardwright_coordination::{EventCollector, InfraError, OpLog, OpLogEntry, RunRecord};
use shardwright_store::Revision;

/// What an operation has added to an op log.
pub(crate) fn newly_logged<const CAPACITY: usize>(
    before: &OpLog<CAPACITY>,
    after: &OpLog<CAPACITY>,
) -> Option<OpLogEntry> {
    after.entries().find(|entry| !is_logged(before, entry)).copied()
}

/// Whether an operation is in an op log. Of two that were done under one id, when they were done
/// tells which of them is.
pub(crate) fn is_logged<const CAPACITY: usize>(log: &OpLog<CAPACITY>, made: &OpLogEntry) -> bool {
    log.entries().any(|entry| entry == made)
}

/// The attempts of one call whose outcomes are not known. As long as there are any, no failure may
/// be told as if nothing had been done.
#[derive(Default)]
pub(crate) struct UnknownChanges(Vec<UnknownChange>);

pub(crate) struct UnknownChange {
    /// What the run was based on; none if it was not there.
    pub(crate) basis: Option<Revision>,
    /// The run as it would be.
    pub(crate) record: RunRecord,
    /// By what it is known in the op log, if it has an id.
    pub(crate) logged: Option<OpLogEntry>,
    pub(crate) events: EventCollector,
    pub(crate) error: InfraError,
}

impl UnknownChanges {
    pub(crate) fn push(&mut self, change: UnknownChange) {
        self.0.push(change);
    }

    /// What to tell of a failure.
    pub(crate) fn or(&self, error: InfraError) -> InfraError {
        self.0.last().map_or(error, |change| change.error.clone())
    }

    /// What to tell as long as nobody knows.
    pub(crate) fn any(&self) -> Option<InfraError> {
        self.0.last().map(|change| change.error.clone())
    }

    /// What to tell of a run that is not there. One of them may have been applied to it before.
    pub(crate) fn or_not_found<R>(&self, run: RunId) -> R
    where
        R: From<RunNotFound> + From<InfraError>,
    {
        self.any().map_or_else(|| RunNotFound { run }.into(), R::from)
    }

    /// Whether one of them may still be applied: as long as nothing has changed that it was based
    /// on, nobody can know. What is older than that says nothing about it.
    pub(crate) fn may_come(&self, at: Option<Revision>) -> Option<InfraError> {
        let may_come = self.0.iter().find(|change| change.basis >= at);
        may_come.map(|change| change.error.clone())
    }

    /// The events of the one that a replay has found in the op log, unless that was another call's.
    pub(crate) fn take_logged(&mut self, found: &RunRecord) -> Option<EventCollector> {
        let is_there = |change: &UnknownChange| {
            change.logged.is_some_and(|logged| is_logged(&found.op_log, &logged))
        };
        let place = self.0.iter().position(is_there)?;
        Some(self.0.swap_remove(place).events)
    }

    /// The events of the one that is stored, if one is.
    pub(crate) fn take_applied(&mut self, found: &RunRecord) -> Option<EventCollector> {
        let place = self.0.iter().position(|change| change.record == *found)?;
        Some(self.0.swap_remove(place).events)
    }
}
