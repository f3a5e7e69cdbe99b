//! What a worker gets when it acquires a shard, and what it is told while it holds one.

use std::fmt;

use shardwright_contracts::{
    Cursor, CursorSemantics, CursorUpdate, LogicalTime, ShardId, ShardSpec, ShardSpecRef, WorkerId,
};

use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::record::{ShardSnapshotView, ShardState, Spawned};
use crate::status::ShardStatus;

/// How much there is to do in a run besides, so that a worker can tell whether to split, to wait
/// or to go. Advice, not a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapacityHint {
    /// Shards that could be acquired: none, while the run is paused.
    pub available_count: u32,
    /// When the first of the leases ends, if there are any.
    pub earliest_deadline: Option<LogicalTime>,
    /// Workers that found nothing to acquire and wait.
    pub waiting_workers: u32,
}

impl CapacityHint {
    /// Puts a hint together. A run that hands out nothing has nothing available.
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

/// Somebody wants a part of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitRequest {
    /// Who.
    pub requester: WorkerId,
    /// Since when.
    pub asked_at: LogicalTime,
    /// Until when.
    pub expires_at: LogicalTime,
}

/// What a holder is told with every answer that is new to it.
///
/// Where a result has none, nothing was told: what the holder heard before still stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HolderNotice {
    /// Whether the run is paused: finish what is in hand and release.
    pub paused: bool,
    /// Whether somebody wants a part of the shard.
    pub split_request: Option<SplitRequest>,
}

impl HolderNotice {
    /// Whether an answer comes with a notice. Whoever repeats itself may hold nothing any more, and
    /// is told nothing besides.
    #[must_use]
    pub const fn is_owed<T>(outcome: &IdempotentOutcome<T>) -> bool {
        !outcome.is_replay()
    }
}

/// What a renewal gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewResult {
    /// When the lease ends now.
    pub new_deadline: LogicalTime,
    /// What else the holder should know; nothing, if the backend could not find out.
    pub notice: Option<HolderNotice>,
    /// How much there is to do besides.
    pub capacity: CapacityHint,
}

/// The buffer into which a shard is copied when it is acquired. Make one and reuse it: once it
/// has grown to the size of the shards, acquiring allocates nothing.
#[derive(Default)]
pub struct AcquireScratch {
    start: Vec<u8>,
    end: Vec<u8>,
    metadata: Vec<u8>,
    last_key: Option<Vec<u8>>,
    /// Kept while there is no last key, so that its memory is not lost.
    spare_key: Vec<u8>,
    token: Vec<u8>,
    spawned: Vec<Spawned>,
    parent: Option<ShardId>,
    cursor_semantics: CursorSemantics,
    fruitless_acquires: u32,
}

/// What was copied in shows in no log.
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

    /// Copies a shard in, and lends it out again.
    pub fn restore<const LOG: usize>(
        &mut self,
        shard: &impl ShardState<LOG>,
    ) -> ShardSnapshotView<'_> {
        self.copy(&ShardSnapshotView::of(shard))
    }

    /// Copies a snapshot in, and lends it out again.
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
        self.fruitless_acquires = snapshot.fruitless_acquires;
        self.snapshot()
    }

    /// Copies an acquired shard in, and lends it out again.
    pub fn lend(&mut self, state: &RestoredShardState) -> AcquireResultView<'_> {
        let (lease, capacity) = (state.lease, state.capacity);
        AcquireResultView { lease, snapshot: self.copy(&state.snapshot()), capacity }
    }

    /// The shard that was copied in last. Only active shards are.
    #[must_use]
    pub fn snapshot(&self) -> ShardSnapshotView<'_> {
        ShardSnapshotView {
            status: ShardStatus::Active,
            spec: ShardSpecRef::new(&self.start, &self.end, &self.metadata),
            cursor: CursorUpdate::new(self.last_key.as_deref(), Some(&self.token)),
            cursor_semantics: self.cursor_semantics,
            parent: self.parent,
            spawned: &self.spawned,
            fruitless_acquires: self.fruitless_acquires,
        }
    }
}

fn refill(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}

/// What an acquire gives, borrowed from an [`AcquireScratch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireResultView<'s> {
    /// The right to change the shard.
    pub lease: Lease,
    /// The shard as it is.
    pub snapshot: ShardSnapshotView<'s>,
    /// How much there is to do besides.
    pub capacity: CapacityHint,
}

/// What an acquire gives, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredShardState {
    /// The right to change the shard.
    pub lease: Lease,
    /// Where it is in its life.
    pub status: ShardStatus,
    /// Range and metadata.
    pub spec: ShardSpec,
    /// How far it is processed.
    pub cursor: Cursor,
    /// When a key of it counts as processed.
    pub cursor_semantics: CursorSemantics,
    /// Which shard it was split from.
    pub parent: Option<ShardId>,
    /// Which shards were split from it.
    pub spawned: Vec<Spawned>,
    /// How often it was acquired in a row without progress, this time included. More than once
    /// means that whoever had it before was lost, and maybe because of it.
    pub fruitless_acquires: u32,
    /// How much there is to do besides.
    pub capacity: CapacityHint,
}

impl RestoredShardState {
    /// Copies what an acquire gave.
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
            fruitless_acquires: snapshot.fruitless_acquires,
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
            fruitless_acquires: self.fruitless_acquires,
        }
    }
}

/// A backend hands out what it stored, and only what was checked is stored.
#[expect(clippy::panic, reason = "only a bug in a backend can get here")]
fn unstorable<T>(error: impl fmt::Display) -> T {
    panic!("a backend handed out a shard that cannot have been stored: {error}")
}
