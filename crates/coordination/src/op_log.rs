//! Recent operations, so that a retry gets its answer and has no second effect.
//!
//! Each shard and each run keeps its last operations by id, with a fingerprint of the parameters.
//! The same id with the same fingerprint is a replay. With another fingerprint it is a conflict. An
//! unknown id is new. A full log evicts its oldest entry.
//!
//! A retry after the eviction counts as a new operation. A worker's retry is refused by the fence,
//! the status or the cursor rule, or it repeats the current state. An operator's retry may take
//! effect again.

use arrayvec::ArrayVec;
use shardwright_contracts::limits::{OP_LOG_CAPACITY, RUN_OP_LOG_CAPACITY};
use shardwright_contracts::{CanonicalBytes, CanonicalSink, LogicalTime, OpId};

use crate::status::stored_enum;

stored_enum! {
    /// What an operation did.
    OpKind, "operation kind" {
        /// Moved the cursor.
        Checkpoint = 0,
        /// Finished the shard.
        Complete = 1,
        /// Parked the shard.
        Park = 2,
        /// Replaced the shard by children.
        SplitReplace = 3,
        /// Gave the right part of the shard to a new one.
        SplitResidual = 4,
        /// Made a parked shard active again.
        Unpark = 5,
        /// Gave the lease back.
        Release = 6,
        /// Registered the shards of a run.
        RegisterShards = 7,
        /// Ended a run as done.
        CompleteRun = 8,
        /// Ended a run as failed.
        FailRun = 9,
        /// Ended a run as cancelled.
        CancelRun = 10,
        /// Paused a run.
        PauseRun = 11,
        /// Resumed a paused run.
        ResumeRun = 12,
    }
}

impl OpKind {
    /// Whether it changes a run as a whole. The run's op log records it.
    #[must_use]
    pub const fn is_of_run(self) -> bool {
        match self {
            Self::RegisterShards
            | Self::CompleteRun
            | Self::FailRun
            | Self::CancelRun
            | Self::PauseRun
            | Self::ResumeRun => true,
            Self::Checkpoint
            | Self::Complete
            | Self::Park
            | Self::SplitReplace
            | Self::SplitResidual
            | Self::Unpark
            | Self::Release => false,
        }
    }
}

stored_enum! {
    /// The result of an operation.
    OpResult, "operation result" {
        /// It took effect.
        Completed = 0,
        /// It was refused permanently.
        Error = 1,
        /// Another operation made it obsolete.
        Superseded = 2,
    }
}

// Stored data depends on these bytes: a change must not compile.
const _: () = {
    assert!(OpKind::Checkpoint as u8 == 0 && OpKind::Complete as u8 == 1);
    assert!(OpKind::Park as u8 == 2 && OpKind::SplitReplace as u8 == 3);
    assert!(OpKind::SplitResidual as u8 == 4 && OpKind::Unpark as u8 == 5);
    assert!(OpKind::Release as u8 == 6 && OpKind::RegisterShards as u8 == 7);
    assert!(OpKind::CompleteRun as u8 == 8 && OpKind::FailRun as u8 == 9);
    assert!(OpKind::CancelRun as u8 == 10 && OpKind::PauseRun as u8 == 11);
    assert!(OpKind::ResumeRun as u8 == 12);
    assert!(OpResult::Completed as u8 == 0 && OpResult::Error as u8 == 1);
    assert!(OpResult::Superseded as u8 == 2);
};

/// One recorded operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpLogEntry {
    /// Its id.
    pub op: OpId,
    /// What it did.
    pub kind: OpKind,
    /// Its result.
    pub result: OpResult,
    /// Fingerprint of its parameters.
    pub payload_hash: u64,
    /// When it took effect.
    pub executed_at: LogicalTime,
}

impl OpLogEntry {
    /// The operation's id.
    #[must_use]
    pub const fn op_id(&self) -> OpId {
        self.op
    }
}

/// The fingerprint stays out of logs: a reader could use it to test guesses of the parameters.
impl std::fmt::Debug for OpLogEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpLogEntry")
            .field("op", &self.op)
            .field("kind", &self.kind)
            .field("result", &self.result)
            .field("executed_at", &self.executed_at)
            .finish_non_exhaustive()
    }
}

/// One recorded operation of a run.
pub type RunOpLogEntry = OpLogEntry;

/// A requested operation, before the op log was checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpAttempt {
    /// Its id.
    pub op: OpId,
    /// What it does.
    pub kind: OpKind,
    /// Fingerprint of its parameters.
    pub payload_hash: u64,
}

/// The fingerprint stays out of logs: a reader could use it to test guesses of the parameters.
impl std::fmt::Debug for OpAttempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpAttempt")
            .field("op", &self.op)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// An operation id that was used before for another operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OpConflict {
    /// The id.
    pub op: OpId,
    /// The fingerprint of the recorded operation.
    pub expected_hash: u64,
    /// The fingerprint of the requested operation.
    pub actual_hash: u64,
}

/// The fingerprints stay out of logs: a reader could use them to test guesses of the parameters.
impl std::fmt::Debug for OpConflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpConflict").field("op", &self.op).finish_non_exhaustive()
    }
}

/// The last `CAPACITY` operations of a record.
///
/// An empty log has the size of a pointer, because most shards of a large run are untouched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpLog<const CAPACITY: usize = OP_LOG_CAPACITY> {
    remembered: Option<Box<Remembered<CAPACITY>>>,
}

/// The last operations of a run.
pub type RunOpLog = OpLog<RUN_OP_LOG_CAPACITY>;

/// At least one operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Remembered<const CAPACITY: usize> {
    /// Oldest first.
    entries: ArrayVec<OpLogEntry, CAPACITY>,
    /// Whether every entry obeyed the rules: within the capacity, with a unique id, and with
    /// effect. Each new entry is compared with all others when it is added. So a busy shard need
    /// not compare all pairs after each operation.
    is_sound: bool,
}

impl<const CAPACITY: usize> OpLog<CAPACITY> {
    /// An empty log.
    #[must_use]
    pub const fn new() -> Self {
        Self { remembered: None }
    }

    /// Restores a stored log, oldest entry first.
    ///
    /// The record's invariants check the rules of the log. Entries beyond the capacity are dropped.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = OpLogEntry>) -> Self {
        let mut log = Self::new();
        entries.into_iter().for_each(|entry| log.push(entry));
        log
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &OpLogEntry> {
        self.as_slice().iter()
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether the log is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Records an executed operation. A full log evicts its oldest entry.
    ///
    /// Times in the log never decrease, even if the caller's clock was set back.
    pub(crate) fn record(&mut self, attempt: OpAttempt, now: LogicalTime) {
        let latest = self.as_slice().last();
        let executed_at = latest.map_or(now, |latest| latest.executed_at.max(now));
        if let Some(full) = self.remembered.as_mut().filter(|log| log.entries.is_full()) {
            full.entries.pop_at(0);
        }
        let OpAttempt { op, kind, payload_hash } = attempt;
        let result = OpResult::Completed;
        self.push(OpLogEntry { op, kind, result, payload_hash, executed_at });
    }

    /// Whether the entries obey the rules: within the capacity, unique ids, all with effect.
    pub(crate) fn is_sound(&self) -> bool {
        self.remembered.as_ref().is_none_or(|log| log.is_sound)
    }

    fn as_slice(&self) -> &[OpLogEntry] {
        self.remembered.as_ref().map_or(&[], |log| &log.entries)
    }

    fn push(&mut self, entry: OpLogEntry) {
        let log = self.remembered.get_or_insert_with(|| {
            Box::new(Remembered { entries: ArrayVec::new(), is_sound: true })
        });
        let is_new = log.entries.iter().all(|earlier| earlier.op != entry.op);
        let has_room = log.entries.try_push(entry).is_ok();
        log.is_sound &= is_new && has_room && entry.result == OpResult::Completed;
    }
}

/// Looks an operation up: a replay, a conflict, or (`None`) new.
pub fn check_op_idempotency<const CAPACITY: usize>(
    log: &OpLog<CAPACITY>,
    attempt: OpAttempt,
) -> Result<Option<OpLogEntry>, OpConflict> {
    let Some(entry) = log.entries().find(|entry| entry.op == attempt.op) else {
        return Ok(None);
    };
    let is_same = entry.kind == attempt.kind && entry.payload_hash == attempt.payload_hash;
    if is_same {
        return Ok(Some(*entry));
    }
    Err(OpConflict {
        op: attempt.op,
        expected_hash: entry.payload_hash,
        actual_hash: attempt.payload_hash,
    })
}

/// The output of an operation, and whether it was executed now or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdempotentOutcome<T> {
    /// It took effect now.
    Executed(T),
    /// It had taken effect before. Nothing changed.
    Replayed(T),
}

impl<T> IdempotentOutcome<T> {
    /// The output of the operation.
    #[must_use]
    pub fn into_inner(self) -> T {
        match self {
            Self::Executed(value) | Self::Replayed(value) => value,
        }
    }

    /// Whether nothing changed.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }

    /// The same outcome with another output.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> IdempotentOutcome<U> {
        match self {
            Self::Executed(value) => IdempotentOutcome::Executed(convert(value)),
            Self::Replayed(value) => IdempotentOutcome::Replayed(convert(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(op: u64, payload_hash: u64) -> OpAttempt {
        OpAttempt { op: OpId::from_raw(op), kind: OpKind::Checkpoint, payload_hash }
    }

    fn log_of(ops: std::ops::Range<u64>) -> OpLog<3> {
        let mut log = OpLog::new();
        for op in ops {
            log.record(attempt(op, op * 10), LogicalTime::from_millis(op));
        }
        log
    }

    #[test]
    fn same_id_and_payload_is_a_replay() {
        let found = check_op_idempotency(&log_of(0..2), attempt(1, 10)).unwrap().unwrap();
        assert_eq!((found.op, found.executed_at), (OpId::from_raw(1), LogicalTime::from_millis(1)));
        assert_eq!(found.result, OpResult::Completed);
    }

    #[test]
    fn same_id_with_another_payload_or_kind_is_a_conflict() {
        let log = log_of(0..2);
        let conflict = check_op_idempotency(&log, attempt(1, 11)).unwrap_err();
        assert_eq!((conflict.expected_hash, conflict.actual_hash), (10, 11));
        let other_kind = OpAttempt { kind: OpKind::Complete, ..attempt(1, 10) };
        assert!(check_op_idempotency(&log, other_kind).is_err());
        assert_eq!(format!("{conflict:?}"), "OpConflict { op: OpId(0x1), .. }");
    }

    #[test]
    fn full_log_evicts_only_the_oldest_entry() {
        let log = log_of(0..4);
        assert_eq!(check_op_idempotency(&log, attempt(0, 0)), Ok(None));
        for op in 1..4 {
            assert!(check_op_idempotency(&log, attempt(op, op * 10)).unwrap().is_some());
        }
        assert_eq!((log.len(), log.is_empty()), (3, false));
        let oldest_first: Vec<u64> = log.entries().map(|entry| entry.op.as_raw()).collect();
        assert_eq!(oldest_first, [1, 2, 3]);
    }

    #[test]
    fn times_never_decrease_when_the_clock_is_set_back() {
        let mut log = log_of(5..6);
        log.record(attempt(6, 60), LogicalTime::from_millis(1));
        let times: Vec<u64> = log.entries().map(|entry| entry.executed_at.as_millis()).collect();
        assert_eq!(times, [5, 5]);
    }

    #[test]
    fn sound_log_is_bounded_and_has_unique_ids() {
        assert!(log_of(0..3).is_sound());
        let entry = *log_of(7..8).entries().next().unwrap();
        assert!(!OpLog::<3>::from_entries([entry, entry]).is_sound());
        let four = OpLog::<4>::from_entries(log_of(0..3).entries().copied().chain([entry]));
        assert!(four.is_sound());
        assert!(!OpLog::<3>::from_entries(four.entries().copied()).is_sound());
    }

    #[test]
    fn unsound_log_stays_unsound_after_eviction() {
        let entry = *log_of(7..8).entries().next().unwrap();
        let mut log = OpLog::<3>::from_entries([entry, entry]);
        for op in 0..3 {
            log.record(attempt(op, op), LogicalTime::from_millis(op));
        }
        assert!(!log.is_sound());
        let mut log = log_of(0..3);
        log.record(attempt(2, 20), LogicalTime::ZERO);
        assert!(!log.is_sound());
    }

    #[test]
    fn empty_log_has_the_size_of_a_pointer() {
        assert_eq!(size_of::<OpLog>(), size_of::<usize>());
        assert_eq!(OpLog::<3>::from_entries([]), OpLog::new());
    }

    #[test]
    fn outcomes_return_their_output_and_kind() {
        assert_eq!(IdempotentOutcome::Executed(1).map(|n| n + 1).into_inner(), 2);
        assert_eq!(IdempotentOutcome::Replayed(1).map(|n| n + 1).into_inner(), 2);
        assert!(IdempotentOutcome::Replayed(()).is_replay());
        assert!(!IdempotentOutcome::Executed(()).is_replay());
    }
}
