//! Registering the shards of a run, in as many commits as the store needs.
//!
//! A registration that fits into one commit is one commit. Otherwise a stage is stored under the
//! operation's id. The shards are written behind it, where no reader looks while the run is
//! initializing. A last commit starts the run and deletes the stage. Every commit in between
//! compares the stage and the run, so late and overtaken commits write nothing. Repeating the
//! operation continues where it stopped.
//!
//! Cancelling the run ends it in one commit, which refuses every later commit of a registration.
//! Then the shards are deleted, and the stage last. Shards behind a stage do not exist, so an
//! interrupted removal shows nothing. Repeating the cancellation continues it.
//!
//! If the run is created with its shards, the first of these commits creates it and reserves its
//! shards.

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
use shardwright_engine::Operation;
use shardwright_engine::codec::Record;
use shardwright_engine::transact;
use shardwright_engine::{fault, listing};
use shardwright_store::{
    Commit, CommitBuilder, Expect, Key, Revision, Store, StoreLimits, Versioned,
};

use self::transaction::{Ended, Registration};
use crate::attempts::Attempts;
use crate::collection::{DeleteRange, RunAddress};
use crate::coordinator::StoredCoordinator;
use crate::effects;
use crate::quota::Reservation;
use crate::reading::StoredRun;
use crate::records::{ManifestRecord, RunHeadRecord, RunStateRecord, StageRecord};

/// Everything that one registration stores.
struct Plan {
    operation: Operation,
    tenant: TenantId,
    run: RunId,
    /// What is expected of the run's record.
    run_expect: Expect,
    /// The run to create, if it does not exist.
    new_run: Option<NewRun>,
    /// The run after the registration.
    record: RunRecord,
    shards: Vec<ShardRecord>,
    stage: StageRecord,
}

/// A run to create, and its events.
struct NewRun {
    record: RunRecord,
    events: EventCollector,
}

/// State that a registration starts from.
struct Base {
    record: RunRecord,
    run_expect: Expect,
    new_run: Option<NewRun>,
}

/// Returns the existing run, or the one to create; none if the run is being deleted.
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

/// Checks the existing run, if any, and returns the run to create, if any.
pub(crate) trait Adopt<R>:
    Fn(&RunCall, Option<&RunRecord>, &mut EventCollector) -> Adopted<R> + Send + Sync
{
}

impl<R, F> Adopt<R> for F where
    F: Fn(&RunCall, Option<&RunRecord>, &mut EventCollector) -> Adopted<R> + Send + Sync
{
}

/// The run to create, if any.
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

    /// The events that were not published yet.
    fn events(&mut self, mut started: EventCollector) -> EventCollector {
        let Some(NewRun { mut events, .. }) = self.new_run.take() else { return started };
        started.drain_with(|event| _ = events.emit(event));
        events
    }
}

impl StoredCoordinator {
    /// Registers the shards of a run. `adopt` checks the existing run, if any, and returns the run
    /// to create. A new run is stored together with its shards, or at least with their reservation,
    /// so that a failed reservation leaves nothing behind.
    pub(crate) async fn register<R: From<RegisterShardsError> + Send>(
        &self,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
        operation: Operation,
        adopt: impl Adopt<R>,
    ) -> Result<IdempotentOutcome<()>, R> {
        let mut registration = Registration {
            backend: self,
            call: RunCall { now: LogicalTime::ZERO, tenant },
            run,
            shards,
            op,
            operation,
            adopt,
            made: Vec::new(),
            has_made: false,
            attempts: Attempts::default(),
            refusal: PhantomData,
        };
        match self.core.driver.transact(&mut registration).await {
            Ok(outcome) => Ok(outcome),
            Err(Ended::Refused(refusal)) => Err(refusal),
            Err(Ended::Failed(error)) => Err(RegisterShardsError::from(error).into()),
        }
    }

    /// Returns what to store, and the events of the run's start.
    fn plan(
        &self,
        call: &RunCall,
        base: Base,
        shards: &[InitialShardInput<'_>],
        pending: RegisterPending,
        operation: Operation,
    ) -> Result<(Plan, EventCollector), InfraError> {
        let Base { mut record, run_expect, new_run } = base;
        let (tenant, run, attempt) = (record.tenant, record.run, pending.attempt());
        let shards = records(tenant, run, &record, shards, operation)?;
        let mut started = self.core.publisher.collector();
        pending.apply(call, &mut record, &mut started);
        let stage = StageRecord { op: attempt.op, payload_hash: attempt.payload_hash };
        Ok((Plan { operation, tenant, run, run_expect, new_run, record, shards, stage }, started))
    }

    /// The whole registration as one commit, if it is within the store's limits.
    fn whole(
        &self,
        plan: &Plan,
        reservation: &Reservation,
    ) -> Result<Option<CommitBuilder>, InfraError> {
        let stage = self.core.keys.stage(plan.tenant, plan.run);
        let mut commit = self.start(Commit::builder().expect(stage, Expect::Absent), plan);
        for shard in &plan.shards {
            commit = effects::insert(commit, &self.core.keys, plan.tenant, shard);
        }
        let commit = reservation.clone().add_to(commit);
        let built = transact::build(plan.operation, commit.clone())?;
        Ok(built.check(&self.core.store.limits()).is_ok().then_some(commit))
    }

    /// Adds the writes that start the run.
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
        operation: Operation,
    ) -> Result<(Option<StageRecord>, Expect), InfraError> {
        let key = self.core.keys.stage(tenant, run);
        let (found, _) = self.core.load_one(&key, operation).await?;
        Ok(match listing::decode_if_found(found.as_ref(), operation)? {
            Some((stage, at)) => (Some(stage), Expect::At(at)),
            None => (None, Expect::Absent),
        })
    }

    /// A commit that stores the stage, or replaces another one.
    fn stage(&self, plan: &Plan, reservation: Reservation, expect: Expect) -> CommitBuilder {
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
        reservation.add_to(commit)
    }

    /// Deletes what a registration had written at a revision, except the shards that are written
    /// again; false if the stage was replaced.
    async fn clear(
        &self,
        address: RunAddress,
        kept: &[ShardRecord],
        (stage_at, since): (Revision, Revision),
        operation: Operation,
    ) -> Result<bool, InfraError> {
        let (keys, RunAddress { tenant, run }) = (&self.core.keys, address);
        let guard = (keys.stage(tenant, run), Expect::At(stage_at));
        let gate = keys.gate(tenant, run);
        let of_shard = |shard: &ShardRecord| {
            let key = shard.head.key;
            [keys.definition(tenant, key), keys.progress(tenant, key), keys.open(tenant, key)]
        };
        let kept: BTreeSet<Key> = kept.iter().flat_map(of_shard).collect();
        let range = DeleteRange { address, since, guard };
        let is_left = |key: &Key| *key != gate && !kept.contains(key);
        for keys in [keys.shards(tenant, run), keys.view(tenant, run)] {
            if !self.core.delete_range(&range, &keys, is_left, operation).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the unfinished registration of a run that ended at a revision, if there is one.
    /// Failures are ignored: repeating the cancellation or deleting the run removes the rest.
    pub(crate) async fn remove_registration(
        &self,
        address: RunAddress,
        ended_at: Revision,
        operation: Operation,
    ) {
        let _failed = self.try_remove_registration(address, ended_at, operation).await;
    }

    async fn try_remove_registration(
        &self,
        address: RunAddress,
        ended_at: Revision,
        operation: Operation,
    ) -> Result<(), InfraError> {
        let stage = self.core.keys.stage(address.tenant, address.run);
        let keys = std::slice::from_ref(&stage);
        let loaded = listing::load_since(&self.core.driver, keys, ended_at, operation).await?;
        let ([found], _) = loaded;
        let Some(Versioned { revision: stage_at, .. }) = found else { return Ok(()) };
        if self.clear(address, &[], (stage_at, ended_at), operation).await? {
            let last = Commit::builder().expect(stage.clone(), Expect::At(stage_at)).delete(stage);
            self.core.store_under_guard(address, last, operation).await?;
        }
        Ok(())
    }

    /// Writes the shards behind the stage; false if the stage was replaced.
    async fn write_shards(&self, plan: &Plan, stage_at: Revision) -> Result<bool, InfraError> {
        let stage = self.core.keys.stage(plan.tenant, plan.run);
        let limits = self.core.store.limits();
        let run = self.core.keys.run(plan.tenant, plan.run);
        // Also compares the run: a run that was cancelled meanwhile gets no shards.
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
        self.core.store_under_guard(plan.address(), commit, plan.operation).await
    }
}

/// Definition, progress and the claimable mark.
const WRITES_PER_SHARD: usize = 3;

/// Allowance for keys and fixed fields, in bytes.
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
    operation: Operation,
) -> Result<Vec<ShardRecord>, InfraError> {
    let broken = |error: String| fault::corrupt(operation, error);
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
