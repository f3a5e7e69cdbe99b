use shardwright_coordination::{InvariantViolation, ShardHead, ShardRecord};

use super::definition::Definition;
use super::progress::Progress;

/// Takes a shard apart into the two records as which it is stored.
#[must_use]
pub fn split_shard(record: ShardRecord) -> (Definition, Progress) {
    let ShardRecord { head, spec, cursor } = record;
    // Every field by its name, so that a new one cannot be forgotten here.
    let ShardHead {
        tenant,
        key,
        status,
        park,
        fence,
        lease,
        parent,
        spawned,
        cursor_semantics,
        op_log,
        acquire_count,
        fruitless_acquires,
    } = head;
    (
        Definition { tenant, key, spec, parent, cursor_semantics, spawned },
        Progress { status, park, fence, lease, cursor, op_log, acquire_count, fruitless_acquires },
    )
}

/// Puts a shard together from the two records as which it is stored, and checks that they go
/// together.
pub fn join_shard(
    definition: Definition,
    progress: Progress,
) -> Result<ShardRecord, InvariantViolation> {
    let (head, spec) = definition.into_untouched();
    let (head, cursor) = progress.put_into(head);
    let record = ShardRecord { head, spec, cursor };
    record.check_invariants()?;
    Ok(record)
}
