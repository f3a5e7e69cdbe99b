//! Overtaken attempts of one call. Whether they were applied is unknown.

use std::sync::Arc;

use shardwright_coordination::{EventCollector, InfraError, OpLog, OpLogEntry};
use shardwright_engine::transact::{self, Decided};
use shardwright_store::Revision;

use crate::shard::Loaded;

/// State that a decision was based on.
pub(crate) trait Supersedes {
    /// Whether no commit that was based on `earlier` can be applied to this state or a later one.
    fn supersedes(&self, earlier: &Self) -> bool;
}

/// The revision of a record, or none if it does not exist yet.
impl Supersedes for Option<Revision> {
    fn supersedes(&self, earlier: &Self) -> bool {
        self > earlier
    }
}

/// A binding may be deleted, so revisions of the basis alone do not show which state is later.
impl Supersedes for Arc<Loaded> {
    fn supersedes(&self, earlier: &Self) -> bool {
        self.basis != earlier.basis && self.as_of >= earlier.as_of
    }
}

/// The attempts of a call that were overtaken, and what each of them was based on.
pub(crate) struct Attempts<B>(Vec<Attempt<B>>);

struct Attempt<B> {
    basis: B,
    logged: Option<Logged>,
    error: InfraError,
}

/// What an attempt adds to the op log, and the events to publish if it was applied.
pub(crate) type Logged = (OpLogEntry, EventCollector);

impl<B> Default for Attempts<B> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<B: Supersedes> Attempts<B> {
    /// Notes an attempt that was overtaken, with the error to report.
    pub(crate) fn note(&mut self, basis: B, logged: Option<Logged>, error: &InfraError) {
        self.0.push(Attempt { basis, logged, error: error.clone() });
    }

    /// The error to report while an attempt may have been applied.
    pub(crate) fn unresolved(&self) -> Option<&InfraError> {
        self.0.last().map(|attempt| &attempt.error)
    }

    /// The error to report while an attempt may have been applied since this state.
    pub(crate) fn unresolved_since(&self, current: &B) -> Option<&InfraError> {
        let is_over = self.0.iter().all(|attempt| current.supersedes(&attempt.basis));
        self.unresolved().filter(|_| !is_over)
    }

    /// Refuses an operation because something is missing, unless an attempt may have been applied
    /// before it was deleted.
    pub(crate) fn refuse_missing<A, E>(&self, refusal: E) -> Decided<A, E> {
        transact::refuse(refusal, self.unresolved())
    }

    /// Refuses an operation because of a state, unless an attempt may have been applied since.
    pub(crate) fn refuse_at<A, E>(&self, current: &B, refusal: E) -> Decided<A, E> {
        transact::refuse(refusal, self.unresolved_since(current))
    }

    /// Takes the events of the attempt that an op log contains. An entry of another call with the
    /// same id differs in its time.
    pub(crate) fn take_events<const CAPACITY: usize>(
        &mut self,
        log: &OpLog<CAPACITY>,
    ) -> Option<EventCollector> {
        let is_applied = |(logged, _): &mut Logged| log.entries().any(|entry| entry == logged);
        let taken = |attempt: &mut Attempt<B>| attempt.logged.take_if(is_applied);
        self.0.iter_mut().find_map(taken).map(|(_, events)| events)
    }
}

/// The entry that an operation has added to an op log.
pub(crate) fn newly_logged<const CAPACITY: usize>(
    before: &OpLog<CAPACITY>,
    after: &OpLog<CAPACITY>,
) -> Option<OpLogEntry> {
    let is_known = |made: &OpLogEntry| before.entries().any(|entry| entry == made);
    after.entries().find(|entry| !is_known(entry)).copied()
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::{LogicalTime, OpId};
    use shardwright_coordination::{OpKind, OpResult};
    use shardwright_engine::transact::Decision;

    use super::*;

    fn entry(executed_at: u64) -> OpLogEntry {
        OpLogEntry {
            op: OpId::from_raw(1),
            kind: OpKind::Checkpoint,
            result: OpResult::Completed,
            payload_hash: 2,
            executed_at: LogicalTime::from_millis(executed_at),
        }
    }

    /// An attempt at a revision, with the time of its entry.
    fn attempted(at: u64, executed_at: u64) -> Attempts<Option<Revision>> {
        let error = InfraError::Unknown { operation: "test.commit", message: "lost".into() };
        let mut attempts = Attempts::default();
        let logged = Some((entry(executed_at), EventCollector::new()));
        attempts.note(Some(Revision::new(at)), logged, &error);
        attempts
    }

    #[test]
    fn only_a_later_state_refuses_after_an_attempt() {
        let attempts = attempted(5, 0);
        for (at, is_exact) in [(None, false), (Some(4), false), (Some(5), false), (Some(6), true)] {
            let refused: Decided<(), ()> = attempts.refuse_at(&at.map(Revision::new), ());
            assert_eq!(matches!(refused, Ok(Decision::Refuse(()))), is_exact, "{at:?}");
        }
        let missing: Decided<(), ()> = attempts.refuse_missing(());
        assert!(matches!(missing, Err(InfraError::Unknown { .. })));
    }

    #[test]
    fn events_of_an_applied_attempt_are_taken_once() {
        let log = OpLog::<3>::from_entries([entry(7)]);
        let mut attempts = attempted(5, 7);
        assert!(attempts.take_events(&log).is_some());
        assert!(attempts.take_events(&log).is_none());
        // Another call had the same id.
        assert!(attempted(5, 8).take_events(&log).is_none());
    }
}
