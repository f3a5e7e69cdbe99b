//! What a worker gets when it acquires a shard and while it holds one.

use std::fmt;

use shardwright_contracts::{
    Cursor, CursorSemantics, CursorUpdate, LogicalTime, ShardId, ShardSpec, ShardSpecRef, WorkerId,
};

use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::record::{ShardSnapshotView, ShardState, Spawned};
use crate::status::ShardStatus;

/// The remaining capacity of a run. A worker uses it to decide whether to split, wait or stop. It
/// is advice, not a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapacityHint {
    /// Shards that can be acquired. Zero while the run is paused.
    pub available_count: u32,
    /// When the first lease can be taken over, if there is one.
    pub earliest_deadline: Option<LogicalTime>,
    /// Workers that wait for a shard.
    pub waiting_workers: u32,
}

impl CapacityHint {
    /// Builds a hint. A run that grants no shards has none available.
    #[must_use]
    pub const fn of(
        hands_out: bool,
        available: usize,
        earliest_deadline: Option<LogicalTime>,
        waiting: usize,
    ) -> Self {
        let available_count = if hands_out { available as u32 } else { 0 };
        Self { available_count, earliest_deadline, waiting_workers: waiting as u32 }
    }
}

/// A worker's request for a part of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitRequest {
    /// The worker.
    pub requester: WorkerId,
    /// When it was requested.
    pub requested_at: LogicalTime,
    /// When it expires.
    pub expires_at: LogicalTime,
}

/// State that every new answer reports to a holder.
///
/// Without a notice the holder's last one still holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HolderNotice {
    /// Whether the run is paused: finish the current items and release the shard.
    pub paused: bool,
    /// The open split request for the shard, if there is one.
    pub split_request: Option<SplitRequest>,
}

impl HolderNotice {
    /// Whether an answer carries a notice. A replay does not, because its caller may no longer hold
    /// the shard.
    #[must_use]
    pub const fn is_owed<T>(outcome: &IdempotentOutcome<T>) -> bool {
        !outcome.is_replay()
    }
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewResult {
    /// The new deadline of the lease.
    pub new_deadline: LogicalTime,
    /// The notice, if the backend could read it.
    pub notice: Option<HolderNotice>,
    /// The remaining capacity of the run.
    pub capacity: CapacityHint,
}

/// The buffer into which a shard is copied when it is acquired. Reuse it: once it has grown to the
/// size of the shards, acquiring allocates nothing.
#[derive(Default)]
pub struct AcquireScratch {
    start: Vec<u8>,
    end: Vec<u8>,
    metadata: Vec<u8>,
    last_key: Option<Vec<u8>>,
    /// Kept while there is no last key, to reuse its memory.
    spare_key: Vec<u8>,
    token: Vec<u8>,
    spawned: Vec<Spawned>,
    parent: Option<ShardId>,
    cursor_semantics: CursorSemantics,
    acquires: u32,
    acquires_without_progress: u32,
}

/// The contents stay out of logs.
impl fmt::Debug for AcquireScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireScratch").finish_non_exhaustive()
    }
}

impl AcquireScratch {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies a shard in and returns a view of the copy.
    pub fn restore<const LOG: usize>(
        &mut self,
        shard: &impl ShardState<LOG>,
    ) -> ShardSnapshotView<'_> {
        self.copy(&ShardSnapshotView::of(shard))
    }

    /// Copies a snapshot in and returns a view of the copy.
    pub fn copy(&mut self, snapshot: &ShardSnapshotView<'_>) -> ShardSnapshotView<'_> {
        let ShardSnapshotView { spec, cursor, .. } = *snapshot;
        refill(&mut self.start, spec.start());
        refill(&mut self.end, spec.end());
        refill(&mut self.metadata, spec.metadata());
        refill(&mut self.token, cursor.token().unwrap_or_default());
        let mut key = self.last_key.take().unwrap_or_else(|| std::mem::take(&mut self.spare_key));
        match cursor.last_key() {
            Some(last_key) => {
                refill(&mut key, last_key);
                self.last_key = Some(key);
            }
            None => self.spare_key = key,
        }
        self.spawned.clear();
        self.spawned.extend_from_slice(snapshot.spawned);
        self.parent = snapshot.parent;
        self.cursor_semantics = snapshot.cursor_semantics;
        self.acquires = snapshot.acquires;
        self.acquires_without_progress = snapshot.acquires_without_progress;
        self.snapshot()
    }

    /// Copies an acquired shard in and returns a view of the copy.
    pub fn lend(&mut self, state: &RestoredShardState) -> AcquireResultView<'_> {
        let (lease, capacity) = (state.lease, state.capacity);
        AcquireResultView { lease, snapshot: self.copy(&state.snapshot()), capacity }
    }

    /// The shard that was copied in last. Its status is active.
    #[must_use]
    pub fn snapshot(&self) -> ShardSnapshotView<'_> {
        ShardSnapshotView {
            status: ShardStatus::Active,
            spec: ShardSpecRef::new(&self.start, &self.end, &self.metadata),
            cursor: CursorUpdate::new(self.last_key.as_deref(), Some(&self.token)),
            cursor_semantics: self.cursor_semantics,
            parent: self.parent,
            spawned: &self.spawned,
            acquires: self.acquires,
            acquires_without_progress: self.acquires_without_progress,
        }
    }
}

fn refill(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}

/// The answer to an acquire, borrowed from an [`AcquireScratch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireResultView<'s> {
    /// The right to change the shard.
    pub lease: Lease,
    /// The stored shard.
    pub snapshot: ShardSnapshotView<'s>,
    /// The remaining capacity of the run.
    pub capacity: CapacityHint,
}

/// The answer to an acquire, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredShardState {
    /// The right to change the shard.
    pub lease: Lease,
    /// Its status.
    pub status: ShardStatus,
    /// Its range and metadata.
    pub spec: ShardSpec,
    /// How far it is processed.
    pub cursor: Cursor,
    /// When a key of it counts as processed.
    pub cursor_semantics: CursorSemantics,
    /// The shard it was split from.
    pub parent: Option<ShardId>,
    /// The shards that were split from it.
    pub spawned: Vec<Spawned>,
    /// Acquires in all, this one included. The fence rises with each, and with each unpark.
    pub acquires: u32,
    /// Acquires in a row without progress, this one included. More than one means that an earlier
    /// holder was lost, maybe because of this shard.
    pub acquires_without_progress: u32,
    /// The remaining capacity of the run.
    pub capacity: CapacityHint,
}

impl RestoredShardState {
    /// Copies the answer to an acquire.
    #[must_use]
    pub fn from_view(view: &AcquireResultView<'_>) -> Self {
        let AcquireResultView { lease, snapshot, capacity } = view;
        Self {
            lease: *lease,
            status: snapshot.status,
            spec: ShardSpec::try_from_ref(snapshot.spec).unwrap_or_else(unstorable),
            cursor: Cursor::try_from_update(snapshot.cursor).unwrap_or_else(unstorable),
            cursor_semantics: snapshot.cursor_semantics,
            parent: snapshot.parent,
            spawned: snapshot.spawned.to_vec(),
            acquires: snapshot.acquires,
            acquires_without_progress: snapshot.acquires_without_progress,
            capacity: *capacity,
        }
    }

    /// The shard, borrowed.
    #[must_use]
    pub fn snapshot(&self) -> ShardSnapshotView<'_> {
        ShardSnapshotView {
            status: self.status,
            spec: self.spec.as_spec_ref(),
            cursor: self.cursor.as_update(),
            cursor_semantics: self.cursor_semantics,
            parent: self.parent,
            spawned: &self.spawned,
            acquires: self.acquires,
            acquires_without_progress: self.acquires_without_progress,
        }
    }
}

/// A backend returns stored shards, and only checked shards are stored.
#[expect(clippy::panic, reason = "only a bug in a backend can get here")]
fn unstorable<T>(error: impl fmt::Display) -> T {
    panic!("a backend returned an invalid shard: {error}")
}
