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

use std::collections::BTreeSet;

use shardwright_contracts::{
    Cursor, InitialShardInput, OpId, RunId, ShardKey, ShardSpec, TenantId,
};
use shardwright_coordination::error::reason::RunNotFound;
use shardwright_coordination::ops::{self, RegisterPending, RegisterStep, RunCall};
use shardwright_coordination::{
    EventCollector, IdempotentOutcome, InfraError, RegisterShardsError, RunRecord, ShardHead,
    ShardRecord,
};
use shardwright_store::{
    Commit, CommitBuilder, CommitError, Expect, Key, Revision, Snapshot, Store, StoreLimits,
};

use crate::codec::{Gate, Manifest, Record, Run, Stage};
use crate::collection::{DeleteRange, RunAddress};
use crate::coordinator::StoredCoordinator;
use crate::effects;
use crate::fault;
use crate::planted::{self, Defect};
use crate::quota::Room;
use crate::reading::StoredRun;
use crate::unknown::{UnknownChange, UnknownChanges, newly_logged};

const OPERATION: &str = "register_shards";

/// Everything that one registration stores.
struct Plan {
    tenant: TenantId,
    run: RunId,
    /// What is expected of the run's record.
    run_expect: Expect,
    /// The run that is yet to be made, if there is none.
    birth: Option<Birth>,
    /// Whether it was made on the way.
    has_made: bool,
    /// The run as it will be.
    record: RunRecord,
    shards: Vec<ShardRecord>,
    stage: Stage,
}

/// A run that waits for its shards, and what tells of it.
struct Birth {
    record: RunRecord,
    events: EventCollector,
}

/// What a registration starts from.
struct Base {
    record: RunRecord,
    run_expect: Expect,
    birth: Option<Birth>,
}

/// The run that is there, or the one that is to be made if there is none; none of either if the
/// run is being deleted.
fn base(newborn: Option<Birth>, found: Option<StoredRun>) -> Option<Base> {
    match (newborn, found) {
        (Some(birth), None) => {
            let record = birth.record.clone();
            Some(Base { record, run_expect: Expect::Absent, birth: Some(birth) })
        }
        (_, Some(StoredRun { record, at, collecting: false, .. })) => {
            Some(Base { record, run_expect: Expect::At(at), birth: None })
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

/// Attempts whose outcomes are not known.
#[derive(Default)]
struct Open {
    /// To make the run.
    made: UnknownChanges,
    /// To start it.
    started: UnknownChanges,
    /// Whether the run was made by this call.
    has_made: bool,
}

impl Open {
    /// What to tell of a failure.
    fn failure(&self, error: InfraError) -> RegisterShardsError {
        let error = match error {
            // The run is there now, so nobody may be told that nothing was done. The same call
            // goes on where this one ended.
            InfraError::NotApplied { operation, message } if self.has_made => {
                let message = format!("the run was made, and not all of its shards: {message}");
                InfraError::Unknown { operation, message: message.into() }
            }
            error => error,
        };
        self.started.or(self.made.or(error)).into()
    }

    /// What to tell of a run that is not there. One of them may have been applied to it before.
    fn not_found(&self, run: RunId) -> RegisterShardsError {
        let attempt = self.started.any().or_else(|| self.made.any());
        attempt.map_or_else(|| RunNotFound { run }.into(), Into::into)
    }

    /// Whether one of them may still be applied.
    fn may_come(&self, at: Option<Revision>) -> Option<InfraError> {
        self.started.may_come(at).or_else(|| self.made.may_come(at))
    }
}

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
        let Some(Birth { mut events, .. }) = self.birth.take() else { return started };
        started.drain_with(|event| _ = events.emit(event));
        events
    }
}

/// What became of a commit of a registration.
enum Step {
    Done(Revision),
    /// Something has changed: look again.
    Again,
    /// The run may have been made, and nothing more.
    PerhapsMade(InfraError),
    /// It may have been applied, or may still be.
    Unknown(InfraError),
}

impl StoredCoordinator {
    /// Registers the shards of a run. `adopt` looks at the run that is there, if one is, and gives
    /// the one that is to be made; what it makes is stored together with its shards, or at least
    /// with the room for them, so that nothing is left behind where there is none.
    pub(crate) async fn register<R: From<RegisterShardsError>>(
        &self,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
        adopt: impl Adopt<R>,
    ) -> Result<IdempotentOutcome<()>, R> {
        let mut open = Open::default();
        for conflicts in 0..=self.core.config.conflict_retries {
            self.core.back_off(conflicts).await;
            let now = self.core.now().await.map_err(|error| open.failure(error))?;
            let call = RunCall { now, tenant };
            let found = self.core.load_run(tenant, run, OPERATION).await;
            let found = found.map_err(|error| open.failure(error))?;
            let record = found.as_ref().map(|found| &found.record);
            if let Some(events) = record.and_then(|record| open.started.take_applied(record)) {
                self.core.publisher.publish(events);
                return Ok(IdempotentOutcome::Executed(()));
            }
            if let Some(events) = record.and_then(|record| open.made.take_applied(record)) {
                self.core.publisher.publish(events);
            }
            let mut events = self.core.publisher.collector();
            let newborn = adopt(&call, record, &mut events)?;
            let newborn = newborn.map(|record| Birth { record, events });
            let Some(base) = base(newborn, found) else {
                return Err(open.not_found(run).into());
            };
            let pending = match ops::register_shards(&call, &base.record, shards, op)? {
                RegisterStep::Replayed => {
                    if let Some(events) = open.started.take_logged(&base.record) {
                        self.core.publisher.publish(events);
                    }
                    return Ok(IdempotentOutcome::Replayed(()));
                }
                RegisterStep::Ready(pending) => pending,
            };
            let logged_before = base.record.op_log.clone();
            let planned = self.plan(&call, base, shards, pending);
            let (mut plan, started) = planned.map_err(|error| open.failure(error))?;
            match self.carry_out(&mut plan).await {
                Ok(Step::Done(_)) => {
                    self.core.publisher.publish(plan.events(started));
                    return Ok(IdempotentOutcome::Executed(()));
                }
                Ok(Step::Again) => open.has_made |= plan.has_made,
                Ok(Step::PerhapsMade(error)) => {
                    if let Some(Birth { record, events }) = plan.birth {
                        let (basis, logged) = (None, None);
                        open.made.push(UnknownChange { basis, record, logged, events, error });
                    }
                }
                Ok(Step::Unknown(error)) => {
                    let (basis, events) = (plan.basis(), plan.events(started));
                    let record = plan.record;
                    let logged = newly_logged(&logged_before, &record.op_log);
                    open.started.push(UnknownChange { basis, record, logged, events, error });
                }
                Err(RegisterShardsError::BackendError(error)) => {
                    open.has_made |= plan.has_made;
                    return Err(open.failure(error).into());
                }
                Err(refusal) => {
                    return Err(open.may_come(plan.basis()).map_or(refusal, Into::into).into());
                }
            }
        }
        Err(open.failure(fault::contention(OPERATION)).into())
    }

    /// Everything that is to be stored, and the events that tell of the run's start.
    fn plan(
        &self,
        call: &RunCall,
        base: Base,
        shards: &[InitialShardInput<'_>],
        pending: RegisterPending,
    ) -> Result<(Plan, EventCollector), InfraError> {
        let Base { mut record, run_expect, birth } = base;
        let (tenant, run, attempt) = (record.tenant, record.run, pending.attempt());
        let shards = records(tenant, run, &record, shards)?;
        let mut started = self.core.publisher.collector();
        pending.apply(call, &mut record, &mut started);
        let stage = Stage { op: attempt.op, payload_hash: attempt.payload_hash };
        let has_made = false;
        Ok((Plan { tenant, run, run_expect, birth, has_made, record, shards, stage }, started))
    }

    /// Registers in one commit or in many.
    async fn carry_out(&self, plan: &mut Plan) -> Result<Step, RegisterShardsError> {
        let count = plan.shards.len();
        let (tenant, run) = (plan.tenant, plan.run);
        let (stage, stage_expect) = self.load_stage(tenant, run).await?;
        let room = self.core.room_for_manifest(tenant, run, count, OPERATION).await??;
        if stage.is_none()
            && let Ok(commit) = self.whole(plan, &room)
        {
            return Ok(self.apply(plan.address(), commit).await?);
        }
        if stage.is_some() && plan.birth.is_some() {
            // There is no stage without a run, so the run was looked for in an older state.
            return Ok(Step::Again);
        }
        let is_ours = stage.is_some_and(|stage| stage == plan.stage);
        let stage_at = match stage_expect {
            Expect::At(at) if is_ours => at,
            expect => match self.set_up(plan, room, expect).await? {
                Step::Done(at) => at,
                Step::Unknown(error) if plan.birth.is_some() => {
                    return Ok(Step::PerhapsMade(error));
                }
                // A stage alone starts nothing, so nobody has to know whether there is one.
                Step::Again | Step::Unknown(_) | Step::PerhapsMade(_) => return Ok(Step::Again),
            },
        };
        if let Some(birth) = plan.birth.take() {
            // The run was made by the commit that set up the stage.
            plan.run_expect = Expect::At(stage_at);
            plan.has_made = true;
            self.core.publisher.publish(birth.events);
        }
        // Whoever set up the stage, or we ourselves, may have died before all was cleared.
        if stage.is_some() && !self.clear(plan, stage_at).await? {
            return Ok(Step::Again);
        }
        if !self.write_shards(plan, stage_at).await? {
            return Ok(Step::Again);
        }
        let stage_key = self.core.keys.stage(tenant, run);
        let last =
            Commit::builder().expect(stage_key.clone(), Expect::At(stage_at)).delete(stage_key);
        let last = self.start(last, plan).build();
        let last = last.map_err(|error| fault::corrupt(OPERATION, error.to_string()))?;
        Ok(self.apply(plan.address(), last).await?)
    }

    /// The whole registration as one commit, if the store takes it.
    fn whole(&self, plan: &Plan, room: &Room) -> Result<Commit, InfraError> {
        let stage = self.core.keys.stage(plan.tenant, plan.run);
        let mut commit = self.start(Commit::builder().expect(stage, Expect::Absent), plan);
        for shard in &plan.shards {
            commit = effects::insert(commit, &self.core.keys, plan.tenant, shard);
        }
        let commit = room.clone().add_to(commit).build();
        let commit = commit.map_err(|error| fault::corrupt(OPERATION, error.to_string()))?;
        let fits = commit.check(&self.core.store.limits());
        fits.map_err(|error| fault::commit(OPERATION, &CommitError::TooLarge(error)))?;
        Ok(commit)
    }

    /// Adds what starts the run.
    fn start(&self, commit: CommitBuilder, plan: &Plan) -> CommitBuilder {
        let (keys, tenant, run) = (&self.core.keys, plan.tenant, plan.run);
        commit
            .expect(keys.run(tenant, run), plan.run_expect)
            .put(keys.run(tenant, run), Run::encode_of(&plan.record, false))
            .put(keys.manifest(tenant, run), Manifest::encode_of(&plan.record))
            .put(keys.gate(tenant, run), Gate::of(&plan.record).encode())
    }

    async fn load_stage(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> Result<(Option<Stage>, Expect), InfraError> {
        let key = self.core.keys.stage(tenant, run);
        let loaded = self.core.store.load(std::slice::from_ref(&key)).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        let Some(found) = values.into_iter().next().flatten() else {
            return Ok((None, Expect::Absent));
        };
        let stage = Stage::decode(&found.value);
        let stage = stage.map_err(|error| fault::decode(OPERATION, &error))?;
        Ok((Some(stage), Expect::At(found.revision)))
    }

    /// Sets up the stage, in place of another one if there is one, and reserves room.
    async fn set_up(&self, plan: &Plan, room: Room, expect: Expect) -> Result<Step, InfraError> {
        let (keys, tenant, run) = (&self.core.keys, plan.tenant, plan.run);
        let commit = Commit::builder()
            .expect(keys.run(tenant, run), plan.run_expect)
            .expect(keys.stage(tenant, run), expect)
            .put(keys.stage(tenant, run), plan.stage.encode());
        let commit = match &plan.birth {
            Some(Birth { record, .. }) => commit
                .put(keys.run(tenant, run), Run::encode_of(record, false))
                .put(keys.gate(tenant, run), Gate::of(record).encode()),
            None => commit,
        };
        let commit = room.add_to(commit).build();
        let commit = commit.map_err(|error| fault::corrupt(OPERATION, error.to_string()))?;
        self.apply(plan.address(), commit).await
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
                if planted::is_active(Defect::StartedBeforeStaged) {
                    return Ok(true);
                }
            }
            commit = effects::insert(commit, &self.core.keys, plan.tenant, shard);
            writes += WRITES_PER_SHARD;
            bytes += size;
        }
        self.write_chunk(plan, commit).await
    }

    async fn write_chunk(&self, plan: &Plan, commit: CommitBuilder) -> Result<bool, InfraError> {
        let commit =
            commit.build().map_err(|error| fault::corrupt(OPERATION, error.to_string()))?;
        self.core.repeat(plan.address(), commit, OPERATION).await
    }

    async fn apply(&self, address: RunAddress, commit: Commit) -> Result<Step, InfraError> {
        let writes = commit.writes().to_vec();
        match self.core.store.commit(commit).await {
            Ok(revision) => {
                // Somebody may have looked for work here before there was any.
                self.core.note_commit(address.tenant, address.run, revision, &writes);
                Ok(Step::Done(revision))
            }
            Err(CommitError::Conflict(_)) => Ok(Step::Again),
            Err(error @ CommitError::Unknown(_)) => {
                Ok(Step::Unknown(fault::commit(OPERATION, &error)))
            }
            Err(error) => Err(fault::commit(OPERATION, &error)),
        }
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
