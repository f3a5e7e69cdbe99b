//! What operators do to runs.

use shardwright_contracts::{LogicalTime, OpId, RunId, TenantId};
use shardwright_coordination::error::reason::RunNotFound;
use shardwright_coordination::operation::{
    CreateRun, CreateRunWithShards, GetRun, GetRunProgress, ListShards, RegisterShards,
};
use shardwright_coordination::ops::{self, RunCall, RunChange};
use shardwright_coordination::{
    CreateRunError, CreateRunWithShardsError, EventCollector, IdempotentOutcome, InfraError,
    RegisterShardsError, RunProgress, RunQueryError, RunRecord, RunTransition, RunTransitionError,
    ShardRecord, ShardSummary,
};
use shardwright_store::{Commit, CommitBuilder, CommitError, Expect, Revision, Store};

use crate::codec::{Gate, Record, Run};
use crate::coordinator::{Core, StoredCoordinator};
use crate::fault;
use crate::planted::{self, Defect};
use crate::reading::StoredRun;
use crate::unknown::{UnknownChange, UnknownChanges, newly_logged};

impl StoredCoordinator {
    pub(crate) async fn create_run(
        &self,
        tenant: TenantId,
        request: CreateRun,
    ) -> Result<(), CreateRunError> {
        let CreateRun { run, config } = request;
        const OPERATION: &str = "create_run";
        let core = &self.core;
        let mut unknown = UnknownChanges::default();
        for conflicts in 0..=core.config.conflict_retries {
            core.back_off(conflicts).await;
            let now = core.now().await.map_err(|error| unknown.or(error))?;
            let call = RunCall { now, tenant };
            let existing = core.load_run(tenant, run, OPERATION).await;
            let existing = existing.map_err(|error| unknown.or(error))?.map(|found| found.record);
            if let Some(events) = existing.as_ref().and_then(|found| unknown.take_applied(found)) {
                core.publisher.publish(events);
                return Ok(());
            }
            let mut events = core.publisher.collector();
            let made = ops::create_run(&call, run, config, existing.as_ref(), &mut events);
            // What exists may be what an attempt of this call has made, and others have changed.
            let record = made.map_err(|refusal| unknown.any().map_or(refusal, Into::into))?;
            let commit = Commit::builder()
                .expect(core.keys.run(tenant, run), Expect::Absent)
                .put(core.keys.run(tenant, run), Run::encode_of(&record, false))
                .put(core.keys.gate(tenant, run), Gate::of(&record).encode())
                .build()
                .map_err(|error| fault::corrupt(OPERATION, error.to_string()))?;
            match core.store.commit(commit).await {
                Ok(_) => {
                    core.publisher.publish(events);
                    return Ok(());
                }
                Err(CommitError::Conflict(_)) => {}
                Err(error @ CommitError::Unknown(_)) => {
                    let error = fault::commit(OPERATION, &error);
                    let logged = None;
                    unknown.push(UnknownChange { basis: None, record, logged, events, error });
                }
                Err(error) => return Err(unknown.or(fault::commit(OPERATION, &error)).into()),
            }
        }
        Err(unknown.or(fault::contention(OPERATION)).into())
    }

    pub(crate) async fn register_shards(
        &self,
        tenant: TenantId,
        request: RegisterShards<&[u8]>,
    ) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
        let RegisterShards { run, shards, op } = request;
        let shards = &shards;
        let found = |_: &RunCall, _: Option<&RunRecord>, _: &mut EventCollector| Ok(None);
        self.register(tenant, run, shards, op, found).await
    }

    pub(crate) async fn create_run_with_shards(
        &self,
        tenant: TenantId,
        request: CreateRunWithShards<&[u8]>,
    ) -> Result<IdempotentOutcome<()>, CreateRunWithShardsError> {
        let CreateRunWithShards { run, config, shards, op } = request;
        let shards = &shards;
        let made = |call: &RunCall, found: Option<&RunRecord>, events: &mut EventCollector| {
            Ok(ops::adopt_run(call, run, config, found, events)?)
        };
        self.register(tenant, run, shards, op, made).await
    }

    pub(crate) async fn get_run(
        &self,
        tenant: TenantId,
        request: GetRun,
    ) -> Result<RunRecord, RunQueryError> {
        let run = request.run;
        let mut record = self.core.look_at(tenant, run, "get_run").await?.record;
        if planted::is_active(Defect::RootsHidden) {
            record.root_shards.clear();
        }
        Ok(record)
    }

    pub(crate) async fn get_run_progress(
        &self,
        tenant: TenantId,
        request: GetRunProgress,
    ) -> Result<RunProgress, RunQueryError> {
        let run = request.run;
        const OPERATION: &str = "get_run_progress";
        let now = self.core.now_at_most().await;
        let found = self.core.look_at(tenant, run, OPERATION).await?;
        let progress = self.core.progress_of(&found, now, OPERATION).await?;
        Ok(progress.ok_or(RunNotFound { run })?)
    }

    pub(crate) async fn list_shards(
        &self,
        tenant: TenantId,
        request: ListShards,
    ) -> Result<Vec<ShardSummary>, RunQueryError> {
        let ListShards { run, filter } = request;
        const OPERATION: &str = "list_shards";
        let now = self.core.now_at_most().await;
        let found = self.core.look_at(tenant, run, OPERATION).await?;
        let fence_floor = self.core.fence_floor();
        let summary = |shard: ShardRecord| {
            Some(ShardSummary::of(&shard, now, fence_floor)).filter(|it| filter.admits(it))
        };
        let listed = self.core.all_shards(&found, OPERATION, summary).await?;
        let mut listed = listed.ok_or(RunNotFound { run })?;
        ShardSummary::sort(&mut listed);
        if planted::is_active(Defect::ListHidesParks) {
            listed.iter_mut().for_each(|shard| shard.park_reason = None);
        }
        Ok(listed)
    }
}

impl StoredCoordinator {
    /// The shards of a run as they are stored, in key order.
    pub async fn inspect_shards(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> Result<Vec<ShardRecord>, RunQueryError> {
        const OPERATION: &str = "inspect_shards";
        let found = self.core.look_at(tenant, run, OPERATION).await?;
        let shards = self.core.all_shards(&found, OPERATION, Some).await?;
        let mut shards = shards.ok_or(RunNotFound { run })?;
        shards.sort_by(|a, b| {
            let (a, b) = ((a.spec.as_spec_ref(), a), (b.spec.as_spec_ref(), b));
            (a.0.start(), a.1.head.key).cmp(&(b.0.start(), b.1.head.key))
        });
        Ok(shards)
    }

    pub(crate) async fn change(
        &self,
        tenant: TenantId,
        run: RunId,
        change: RunTransition,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        let (core, operation) = (&self.core, change.name());
        let mut unknown = UnknownChanges::default();
        for conflicts in 0..=core.config.conflict_retries {
            core.back_off(conflicts).await;
            let now = core.now().await.map_err(|error| unknown.or(error))?;
            let found = core.load_run_alone(tenant, run, operation).await;
            let found = found.map_err(|error| unknown.or(error))?;
            let Some(found) = found.filter(|found| !found.collecting) else {
                return Err(unknown.or_not_found(run));
            };
            if let Some(events) = unknown.take_applied(&found.record) {
                core.changed_to(&found.record, events).await;
                return Ok(IdempotentOutcome::Executed(()));
            }
            let progress = self.progress_for(change, &found, now, op).await;
            let Some(progress) = progress.map_err(|error| unknown.or(error))? else {
                return Err(unknown.or_not_found(run));
            };
            let StoredRun { mut record, at, has_gate, .. } = found;
            let before = has_gate.then(|| Gate::of(&record));
            let mut events = core.publisher.collector();
            let call = RunCall { now, tenant };
            let change = RunChange::of(change, &progress);
            let logged_before = record.op_log.clone();
            match ops::change_run(&call, &mut record, change, op, &mut events) {
                Ok(IdempotentOutcome::Executed(())) => {}
                Ok(replayed @ IdempotentOutcome::Replayed(())) => {
                    if let Some(events) = unknown.take_logged(&record) {
                        core.publisher.publish(events);
                    }
                    return Ok(replayed);
                }
                Err(refusal) => {
                    return Err(unknown.may_come(Some(at)).map_or(refusal, Into::into));
                }
            }
            let commit = core.changed(&record, at, before).build();
            let commit = commit.map_err(|error| fault::corrupt(operation, error.to_string()))?;
            let writes = commit.writes().to_vec();
            match core.store.commit(commit).await {
                Ok(revision) => {
                    core.note_commit(tenant, run, revision, &writes);
                    core.changed_to(&record, events).await;
                    return Ok(IdempotentOutcome::Executed(()));
                }
                Err(CommitError::Conflict(_)) => {}
                Err(error @ CommitError::Unknown(_)) => {
                    let error = fault::commit(operation, &error);
                    let logged = newly_logged(&logged_before, &record.op_log);
                    unknown.push(UnknownChange { basis: Some(at), record, logged, events, error });
                }
                Err(error) => return Err(unknown.or(fault::commit(operation, &error)).into()),
            }
        }
        Err(unknown.or(fault::contention(operation)).into())
    }

    /// What a change has to know of a run's shards; none if the run is being taken away. What was
    /// done before is answered by the op log, and nobody has to count.
    async fn progress_for(
        &self,
        change: RunTransition,
        found: &StoredRun,
        now: LogicalTime,
        op: OpId,
    ) -> Result<Option<RunProgress>, InfraError> {
        if change != RunTransition::Complete || is_logged(&found.record, op) {
            return Ok(Some(RunProgress::default()));
        }
        self.core.progress_of(found, now, change.name()).await
    }
}

impl Core {
    /// What stores a run that was changed, and its gate if that is another one now, or was gone.
    fn changed(&self, record: &RunRecord, at: Revision, before: Option<Gate>) -> CommitBuilder {
        let RunRecord { tenant, run, .. } = *record;
        let (key, after) = (self.keys.run(tenant, run), Gate::of(record));
        let commit = Commit::builder()
            .expect(key.clone(), Expect::At(at))
            .put(key, Run::encode_of(record, false));
        if before == Some(after) || planted::is_active(Defect::GateNotWritten) {
            return commit;
        }
        commit.put(self.keys.gate(tenant, run), after.encode())
    }

    /// Tells that a run was changed. One that has ended needs no more room than it uses.
    async fn changed_to(&self, record: &RunRecord, events: EventCollector) {
        self.publisher.publish(events);
        if record.status.is_terminal() {
            self.return_unused_room(record.tenant, record.run).await;
        }
    }

    /// Reads a run for whoever looks at it.
    async fn look_at(
        &self,
        tenant: TenantId,
        run: RunId,
        operation: &'static str,
    ) -> Result<StoredRun, RunQueryError> {
        let found = self.load_run(tenant, run, operation).await?;
        Ok(found.filter(|found| !found.collecting).ok_or(RunNotFound { run })?)
    }
}

fn is_logged(record: &RunRecord, op: OpId) -> bool {
    record.op_log.entries().any(|entry| entry.op == op)
}
