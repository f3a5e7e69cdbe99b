use shardwright_contracts::{
    CursorUpdate, InitialShardInput, OpId, RunId, ShardId, ShardSpecRef, TenantId,
};
use shardwright_coordination::{
    AsyncRunManagement as _, Backend, CreateRunWithShardsError, RunConfig,
};

use crate::connector::KeyRange;

/// The one operation that makes a run, whoever does it: all but the first repeat it.
const MAKING: OpId = OpId::from_raw(1);

/// Makes a run whose first shards are `ranges`, as a connector proposes them. Whoever comes later
/// with the same finds it made.
pub async fn create_run(
    backend: &(impl Backend + ?Sized),
    tenant: TenantId,
    run: RunId,
    config: RunConfig,
    ranges: &[KeyRange],
) -> Result<(), CreateRunWithShardsError> {
    let shard = |(range, id)| {
        let KeyRange { start, end }: &KeyRange = range;
        InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start, end, b""),
            cursor: CursorUpdate::initial(),
        }
    };
    let shards: Vec<InitialShardInput<'_>> = ranges.iter().zip(0..).map(shard).collect();
    backend.create_run_with_shards(tenant, run, config, &shards, MAKING).await?;
    Ok(())
}
