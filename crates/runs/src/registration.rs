//! Registering the shards of a run, in as many commits as the store needs.
//!
//! If all of it fits into one commit, it is one. Else a stage is set up under the operation's id;
//! the shards are written behind it, where nobody looks as long as the run is initializing; and
//! one last commit starts the run and takes the stage away. Every commit in between compares the
//! stage and the run. So whoever comes late, or has been overtaken, writes nothing; and whoever
//! repeats the operation goes on where it was left.
//!
//! A run that is made with its shards comes into being by the first of these commits, which also
//! reserves their room.

mod transaction;

use std::collections::BTreeSet;
use std::marker::PhantomData;

use shardwright_contracts::{
    Cursor, InitialShardInput, LogicalTime, OpId, RunId, ShardKey, ShardSpec, TenantId,
};
use shardwright_coordination::ops::{RegisterPending, RunCall};
use shardwright_coordination::{
    EventCollector, IdempotentOutcome, InfraError, RegisterShardsError, RunRecord, ShardHead,
    ShardRecord,
};
use shardwright_engine::codec::Record;
use shardwright_engine::fault;
use shardwright_engine::transact;
use shardwright_store::{
    Commit, CommitBuilder, Expect, Key, Revision, Snapshot, Store, StoreLimits,
};

use self::transaction::{Ended, Registration};
use crate::collection::{DeleteRange, RunAddress};
use crate::coordinator::StoredCoordinator;
use crate::effects;
use crate::quota::Reservation;
use crate::reading::StoredRun;
use crate::records::{ManifestRecord, RunHeadRecord, RunStateRecord, StageRecord};

const OPERATION: &str = "register_shards";

/// Everything that one registration stores.
struct Plan {
    tenant: TenantId,
    run: RunId,
    /// What is expected of the run's record.
    run_expect: Expect,
    /// The run that is yet to be made, if there is none.
    new_run: Option<NewRun>,
    /// The run as it will be.
    record: RunRecord,
    shards: Vec<ShardRecord>,
    stage: StageRecord,
}

/// A run that waits for its shards, and what tells of it.
struct NewRun {
    record: RunRecord,
    events: EventCollector,
}

/// What a registration starts from.
struct Base {
    record: RunRecord,
    run_expect: Expect,
    new_run: Option<NewRun>,
}

/// The run that is there, or the one that is to be made if there is none; none of either if the
/// run is being deleted.
fn base(new_run: Option<NewRun>, found: Option<&StoredRun>) -> Option<Base> {
    match (new_run, found) {
        (Some(new_run), None) => {
            let record = new_run.record.clone();
            Some(Base { record, run_expect: Expect::Absent, new_run: Some(new_run) })
        }
        (_, Some(StoredRun { record, at, collecting: false, .. })) => {
            let record = record.clone();
            Some(Base { record, run_expect: Expect::At(*at), new_run: None })
        }
        (_, Some(StoredRun { collecting: true, .. })) | (None, None) => None,
    }
}

/// Looks at the run that is there, if one is, and gives the one that is to be made, if one is.
pub(crate) trait Adopt<R>:
    Fn(&RunCall, Option<&RunRecord>, &mut EventCollector) -> Adopted<R> + Send + Sync
{
}

impl<R, F> Adopt<R> for F where
    F: Fn(&RunCall, Option<&RunRecord>, &mut EventCollector) -> Adopted<R> + Send + Sync
{
}

/// The run that is to be made, if one is.
pub(crate) type Adopted<R> = Result<Option<RunRecord>, R>;

impl Plan {
    const fn address(&self) -> RunAddress {
        RunAddress { tenant: self.tenant, run: self.run }
    }

    fn basis(&self) -> Option<Revision> {
        match self.run_expect {
            Expect::At(at) => Some(at),
            Expect::Absent => None,
        }
    }

    /// The events of all that was not told before.
    fn events(&mut self, mut started: EventCollector) -> EventCollector {
        let Some(NewRun { mut events, .. }) = self.new_run.take() else { return started };
        started.drain_with(|event| _ = events.emit(event));
        events
    }
}

impl StoredCoordinator {
    /// Registers the shards of a run. `adopt` looks at the run that is there, if one is, and gives
    /// the one that is to be made; what it makes is stored together with its shards, or at least
    /// with the room for them, so that nothing is left behind where there is none.
    pub(crate) async fn register<R: From<RegisterShardsError> + Send>(
        &self,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
        adopt: impl Adopt<R>,
    ) -> Result<IdempotentOutcome<()>, R> {
        let mut registration = Registration {
            backend: self,
            call: RunCall { now: LogicalTime::ZERO, tenant },
            run,
            shards,
            op,
            adopt,
            made: None,
            has_made: false,
            attempts: Vec::new(),
            overtaken_at: None,
            refusal: PhantomData,
        };
        match self.core.driver.transact(&mut registration).await {
            Ok(outcome) => Ok(outcome),
            Err(Ended::Refused(refusal)) => Err(refusal),
            Err(Ended::Failed(error)) => Err(RegisterShardsError::from(error).into()),
        }
    }

    /// Everything that is to be stored, and the events that tell of the run's start.
    fn plan(
        &self,
        call: &RunCall,
        base: Base,
        shards: &[InitialShardInput<'_>],
        pending: RegisterPending,
    ) -> Result<(Plan, EventCollector), InfraError> {
        let Base { mut record, run_expect, new_run } = base;
        let (tenant, run, attempt) = (record.tenant, record.run, pending.attempt());
        let shards = records(tenant, run, &record, shards)?;
        let mut started = self.core.publisher.collector();
        pending.apply(call, &mut record, &mut started);
        let stage = StageRecord { op: attempt.op, payload_hash: attempt.payload_hash };
        Ok((Plan { tenant, run, run_expect, new_run, record, shards, stage }, started))
    }

    /// The whole registration as one commit, if the store takes it.
    fn whole(&self, plan: &Plan, room: &Reservation) -> Result<Option<CommitBuilder>, InfraError> {
        let stage = self.core.keys.stage(plan.tenant, plan.run);
        let mut commit = self.start(Commit::builder().expect(stage, Expect::Absent), plan);
        for shard in &plan.shards {
            commit = effects::insert(commit, &self.core.keys, plan.tenant, shard);
        }
        let commit = room.clone().add_to(commit);
        let built = transact::build(OPERATION, commit.clone())?;
        Ok(built.check(&self.core.store.limits()).is_ok().then_some(commit))
    }

    /// Adds what starts the run.
    fn start(&self, commit: CommitBuilder, plan: &Plan) -> CommitBuilder {
        let (keys, tenant, run) = (&self.core.keys, plan.tenant, plan.run);
        commit
            .expect(keys.run(tenant, run), plan.run_expect)
            .put(keys.run(tenant, run), RunHeadRecord::encode_of(&plan.record, false))
            .put(keys.manifest(tenant, run), ManifestRecord::encode_of(&plan.record))
            .put(keys.gate(tenant, run), RunStateRecord::of(&plan.record).encode())
    }

    async fn load_stage(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> Result<(Option<StageRecord>, Expect), InfraError> {
        let key = self.core.keys.stage(tenant, run);
        let loaded = self.core.store.load(std::slice::from_ref(&key)).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        let Some(found) = values.into_iter().next().flatten() else {
            return Ok((None, Expect::Absent));
        };
        let stage = StageRecord::decode(&found.value);
        let stage = stage.map_err(|error| fault::decode(OPERATION, &error))?;
        Ok((Some(stage), Expect::At(found.revision)))
    }

    /// A commit that sets up the stage, in place of another one if there is one.
    fn stage(&self, plan: &Plan, room: Reservation, expect: Expect) -> CommitBuilder {
        let (keys, tenant, run) = (&self.core.keys, plan.tenant, plan.run);
        let commit = Commit::builder()
            .expect(keys.run(tenant, run), plan.run_expect)
            .expect(keys.stage(tenant, run), expect)
            .put(keys.stage(tenant, run), plan.stage.encode());
        let commit = match &plan.new_run {
            Some(NewRun { record, .. }) => commit
                .put(keys.run(tenant, run), RunHeadRecord::encode_of(record, false))
                .put(keys.gate(tenant, run), RunStateRecord::of(record).encode()),
            None => commit,
        };
        room.add_to(commit)
    }

    /// Takes away what another registration left behind, but for what is written anew.
    async fn clear(&self, plan: &Plan, stage_at: Revision) -> Result<bool, InfraError> {
        let (keys, tenant, run) = (&self.core.keys, plan.tenant, plan.run);
        let guard = (keys.stage(tenant, run), Expect::At(stage_at));
        let gate = keys.gate(tenant, run);
        let of_shard = |shard: &ShardRecord| {
            let key = shard.head.key;
            [keys.definition(tenant, key), keys.progress(tenant, key), keys.open(tenant, key)]
        };
        let own: BTreeSet<Key> = plan.shards.iter().flat_map(of_shard).collect();
        let range = DeleteRange { address: plan.address(), since: stage_at, guard };
        let is_left = |key: &Key| *key != gate && !own.contains(key);
        for keys in [keys.shards(tenant, run), keys.view(tenant, run)] {
            if !self.core.delete_range(&range, &keys, is_left, OPERATION).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the shards behind the stage; false if the stage is not ours any more.
    async fn write_shards(&self, plan: &Plan, stage_at: Revision) -> Result<bool, InfraError> {
        let stage = self.core.keys.stage(plan.tenant, plan.run);
        let limits = self.core.store.limits();
        let run = self.core.keys.run(plan.tenant, plan.run);
        // The run as well: one that was called off meanwhile gets no more shards.
        let begin = || {
            let commit = Commit::builder().guard(stage.clone(), Expect::At(stage_at));
            commit.expect(run.clone(), plan.run_expect)
        };
        let (mut commit, mut writes, mut bytes) = (begin(), 0, 0);
        for shard in &plan.shards {
            let size = size_of(shard);
            let is_full = writes + WRITES_PER_SHARD > limits.writes
                || bytes + size > bytes_per_commit(&limits);
            if is_full && writes > 0 {
                let chunk = std::mem::replace(&mut commit, begin());
                if !self.write_chunk(plan, chunk).await? {
                    return Ok(false);
                }
                (writes, bytes) = (0, 0);
            }
            commit = effects::insert(commit, &self.core.keys, plan.tenant, shard);
            writes += WRITES_PER_SHARD;
            bytes += size;
        }
        self.write_chunk(plan, commit).await
    }

    async fn write_chunk(&self, plan: &Plan, commit: CommitBuilder) -> Result<bool, InfraError> {
        self.core.store_under_guard(plan.address(), commit, OPERATION).await
    }
}

/// Definition, progress and the key by which it can be claimed.
const WRITES_PER_SHARD: usize = 3;

/// Room for keys and what is the same in every record.
const OVERHEAD: usize = 700;

fn size_of(shard: &ShardRecord) -> usize {
    let (spec, cursor) = (shard.spec.as_spec_ref(), shard.cursor.as_update());
    let cursor = cursor.last_key().map_or(0, <[u8]>::len) + cursor.token().map_or(0, <[u8]>::len);
    spec.start().len() + spec.end().len() + spec.metadata().len() + cursor + OVERHEAD
}

const fn bytes_per_commit(limits: &StoreLimits) -> usize {
    limits.bytes / 4 * 3
}

fn records(
    tenant: TenantId,
    run: RunId,
    record: &RunRecord,
    shards: &[InitialShardInput<'_>],
) -> Result<Vec<ShardRecord>, InfraError> {
    let broken = |error: String| fault::corrupt(OPERATION, error);
    let make = |input: &InitialShardInput<'_>| {
        let key = ShardKey::new(run, input.shard);
        Ok(ShardRecord {
            head: ShardHead::new(tenant, key, None, record.config.cursor_semantics),
            spec: ShardSpec::try_from_ref(input.spec).map_err(|it| broken(it.to_string()))?,
            cursor: Cursor::try_from_update(input.cursor).map_err(|it| broken(it.to_string()))?,
        })
    };
    shards.iter().map(make).collect()
}
