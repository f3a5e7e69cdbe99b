//! The protocol's requests and answers, with owned bytes.

use std::hash::{DefaultHasher, Hash, Hasher};

use shardwright_contracts::{CursorInput, OpId, RunId, ShardId, ShardInput, SpecInput, SplitPart};
use shardwright_coordination::operation::{
    ChangeRun, Checkpoint, Complete, CreateRunWithShards, ParkShard, RegisterShards, SplitReplace,
    SplitResidual,
};
pub use shardwright_coordination::{Answer, Reply, operation};
use shardwright_coordination::{IdempotentOutcome, RestoredShardState};

/// A request that a queue can keep.
pub type Request = operation::Request<Vec<u8>>;
/// A cursor that may be invalid.
pub type Cursor = CursorInput<Vec<u8>>;
/// A range with metadata that may be invalid.
pub type Spec = SpecInput<Vec<u8>>;
/// A part of a split.
pub type Part = SplitPart<Vec<u8>>;
/// A shard of a manifest.
pub type Shard = ShardInput<Vec<u8>>;

/// Further properties of a request.
pub trait RequestExt {
    /// The name of the operation. A change of a run has the name of the change.
    fn label(&self) -> &'static str;

    /// The run that it names. Every request of the simulator names one.
    fn run_id(&self) -> RunId;

    /// The shard that it names, if it names one.
    fn shard_id(&self) -> Option<ShardId>;

    /// The shards that it registers, if it does.
    fn manifest(&self) -> Option<&[Shard]>;

    /// A hash of what is requested under the op id. Equal hashes mean equal operations.
    fn meaning(&self) -> u64;
}

impl RequestExt for Request {
    fn label(&self) -> &'static str {
        match self {
            Self::ChangeRun(ChangeRun { change, .. }) => change.name(),
            _ => self.name(),
        }
    }

    fn run_id(&self) -> RunId {
        self.run().unwrap_or(RunId::from_raw(0))
    }

    fn shard_id(&self) -> Option<ShardId> {
        self.shard().map(|key| key.shard)
    }

    fn manifest(&self) -> Option<&[Shard]> {
        match self {
            Self::RegisterShards(RegisterShards { shards, .. })
            | Self::CreateRunWithShards(CreateRunWithShards { shards, .. }) => Some(shards),
            _ => None,
        }
    }

    fn meaning(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        // A registration is the same operation, whether it creates the run or not.
        let registers = self.manifest().is_some();
        (if registers { "register_shards" } else { self.label() }).hash(&mut hasher);
        match self {
            Self::Checkpoint(Checkpoint { cursor, .. })
            | Self::Complete(Complete { cursor, .. }) => hash_cursor(cursor, &mut hasher),
            Self::ParkShard(ParkShard { reason, detail, .. }) => {
                (reason, detail).hash(&mut hasher);
            }
            Self::SplitReplace(SplitReplace { parts, .. }) => {
                for part in parts {
                    hash_spec(&part.spec, &mut hasher);
                    hash_cursor(&part.cursor, &mut hasher);
                }
            }
            Self::SplitResidual(SplitResidual { narrowed, residual, .. }) => {
                hash_spec(narrowed, &mut hasher);
                hash_spec(residual, &mut hasher);
            }
            _ => {
                let mut sorted: Vec<_> = self.manifest().unwrap_or_default().iter().collect();
                sorted.sort_by_key(|shard| shard.shard);
                for shard in sorted {
                    shard.shard.hash(&mut hasher);
                    hash_spec(&shard.spec, &mut hasher);
                    hash_cursor(&shard.cursor, &mut hasher);
                }
            }
        }
        hasher.finish()
    }
}

fn hash_cursor(cursor: &Cursor, hasher: &mut DefaultHasher) {
    (cursor.as_ref().last_key(), cursor.as_ref().token()).hash(hasher);
}

fn hash_spec(spec: &Spec, hasher: &mut DefaultHasher) {
    let spec = spec.as_ref();
    (spec.start(), spec.end(), spec.metadata()).hash(hasher);
}

/// The cursor at a key, with a token if there is one.
#[must_use]
pub fn cursor_at(key: Vec<u8>, token: Option<Vec<u8>>) -> Cursor {
    Cursor::new(Some(key), token)
}

/// The last key of a cursor.
#[must_use]
pub fn last_key(cursor: &Cursor) -> Option<&[u8]> {
    cursor.as_ref().last_key()
}

/// The shards that a split created, if it is the reply to one.
#[must_use]
pub fn spawned(reply: &Reply) -> Option<Vec<ShardId>> {
    use IdempotentOutcome::{Executed, Replayed};
    match reply {
        Reply::Replaced(Executed(made) | Replayed(made)) => Some(made.children.clone()),
        Reply::Residual(Executed(made) | Replayed(made)) => Some(vec![made.residual]),
        _ => None,
    }
}

/// The range and metadata that a new holder gets.
#[must_use]
pub fn granted_spec(granted: &RestoredShardState) -> Spec {
    granted.spec.as_spec_ref().map(|bytes| bytes.to_vec())
}

/// The cursor that a new holder gets.
#[must_use]
pub fn granted_cursor(granted: &RestoredShardState) -> Cursor {
    granted.cursor.as_update().map(|bytes| bytes.to_vec())
}

/// The reply to an operation that took effect, or its replay.
pub(crate) const fn applied(is_replay: bool) -> Reply {
    Reply::Applied(if is_replay {
        IdempotentOutcome::Replayed(())
    } else {
        IdempotentOutcome::Executed(())
    })
}

/// Gives a request another operation id, if it has one.
pub(crate) const fn set_op(request: &mut Request, own: OpId) {
    match request {
        Request::Checkpoint(Checkpoint { op, .. })
        | Request::Complete(Complete { op, .. })
        | Request::ParkShard(ParkShard { op, .. })
        | Request::Release(operation::Release { op, .. })
        | Request::SplitReplace(SplitReplace { op, .. })
        | Request::SplitResidual(SplitResidual { op, .. })
        | Request::RegisterShards(RegisterShards { op, .. })
        | Request::CreateRunWithShards(CreateRunWithShards { op, .. })
        | Request::ChangeRun(ChangeRun { op, .. })
        | Request::UnparkShard(operation::UnparkShard { op, .. }) => *op = own,
        _ => {}
    }
}
