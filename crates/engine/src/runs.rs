//! What operators do to runs.

use std::sync::Arc;

use shardwright_contracts::{
    Env, InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey, TenantId, WorkerId,
};
use shardwright_coordination::error::reason::RunNotFound;
use shardwright_coordination::ops::{self, RunCall, RunChange};
use shardwright_coordination::{
    AsyncRunManagement, ClaimOutlook, CreateRunError, CreateRunWithShardsError, EventCollector,
    IdempotentOutcome, InfraError, ProgressCounter, RegisterShardsError, RunConfig, RunProgress,
    RunQueryError, RunRecord, RunTransitionError, ShardFilter, ShardRecord, ShardSummary,
    UnparkError,
};
use shardwright_store::{Commit, CommitError, Expect, Revision, Snapshot, Store, Versioned};

use crate::codec::{Gate, Manifest, Record, Run, join_run};
use crate::coordinator::{Core, StoredCoordinator};
use crate::fault;
use crate::keyspace::ShardPart;
use crate::planted::{self, Defect};
use crate::shard::{Place, decode_shard};
use crate::unknown::{UnknownChange, UnknownChanges};

/// What finding out how far a run has come is called.
const OPERATION: &str = "get_run_progress";

/// A run as it is stored.
pub(crate) struct StoredRun {
    pub(crate) record: RunRecord,
    pub(crate) at: Revision,
    /// Whether it is being deleted.
    pub(crate) collecting: bool,
}

/// Which change of a run is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Complete,
    Fail,
    Cancel,
    Pause,
    Resume,
}

impl Change {
    const fn operation(self) -> &'static str {
        match self {
            Self::Complete => "complete_run",
            Self::Fail => "fail_run",
            Self::Cancel => "cancel_run",
            Self::Pause => "pause_run",
            Self::Resume => "resume_run",
        }
    }
}

impl<S: Store, E: Env> AsyncRunManagement for StoredCoordinator<S, E> {
    async fn create_run(
        &self,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
    ) -> Result<(), CreateRunError> {
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
                    unknown.push(UnknownChange { basis: None, record, events, error });
                }
                Err(error) => return Err(unknown.or(fault::commit(OPERATION, &error)).into()),
            }
        }
        Err(unknown.or(fault::contention(OPERATION)).into())
    }

    async fn register_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
        let found = |_: &RunCall, _: Option<&RunRecord>, _: &mut EventCollector| Ok(None);
        self.register(tenant, run, shards, op, found).await
    }

    async fn create_run_with_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CreateRunWithShardsError> {
        let made = |call: &RunCall, found: Option<&RunRecord>, events: &mut EventCollector| {
            Ok(ops::adopt_run(call, run, config, found, events)?)
        };
        self.register(tenant, run, shards, op, made).await
    }

    async fn get_run(&self, tenant: TenantId, run: RunId) -> Result<RunRecord, RunQueryError> {
        let found = self.core.load_run(tenant, run, "get_run").await?;
        Ok(found.ok_or(RunNotFound { run })?.record)
    }

    async fn get_run_progress(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> Result<RunProgress, RunQueryError> {
        self.core.progress(tenant, run).await
    }

    async fn list_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        filter: ShardFilter,
    ) -> Result<Vec<ShardSummary>, RunQueryError> {
        let now = self.core.now().await?;
        let found = self.core.load_run(tenant, run, "list_shards").await?;
        let found = found.ok_or(RunNotFound { run })?;
        let shards = self.core.all_shards(&found, "list_shards").await?;
        let mut listed: Vec<ShardSummary> = shards
            .iter()
            .map(|shard| ShardSummary::of(shard, now, self.core.fence_floor))
            .filter(|summary| filter.admits(summary))
            .collect();
        ShardSummary::sort(&mut listed);
        Ok(listed)
    }

    async fn complete_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.change(tenant, run, Change::Complete, op).await
    }

    async fn fail_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.change(tenant, run, Change::Fail, op).await
    }

    async fn cancel_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.change(tenant, run, Change::Cancel, op).await
    }

    async fn pause_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.change(tenant, run, Change::Pause, op).await
    }

    async fn resume_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.change(tenant, run, Change::Resume, op).await
    }

    async fn collect_claim_candidates(
        &self,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        limit: usize,
    ) -> Result<(Vec<ShardId>, ClaimOutlook), RunQueryError> {
        self.candidates(tenant, run, worker, limit).await
    }

    async fn unpark_shard(
        &self,
        tenant: TenantId,
        key: ShardKey,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, UnparkError> {
        self.unpark(Place { tenant, key }, op).await
    }
}

impl<S: Store, E: Env> StoredCoordinator<S, E> {
    /// The shards of a run as they are stored, in key order.
    pub async fn inspect_shards(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> Result<Vec<ShardRecord>, RunQueryError> {
        const OPERATION: &str = "inspect_shards";
        let found = self.core.load_run(tenant, run, OPERATION).await?;
        let found = found.ok_or(RunNotFound { run })?;
        let mut shards = self.core.all_shards(&found, OPERATION).await?;
        shards.sort_by(|a, b| {
            let (a, b) = ((a.spec.as_spec_ref(), a), (b.spec.as_spec_ref(), b));
            (a.0.start(), a.1.head.key).cmp(&(b.0.start(), b.1.head.key))
        });
        Ok(shards)
    }

    async fn change(
        &self,
        tenant: TenantId,
        run: RunId,
        change: Change,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        let (core, operation) = (&self.core, change.operation());
        let mut unknown = UnknownChanges::default();
        for conflicts in 0..=core.config.conflict_retries {
            core.back_off(conflicts).await;
            let now = core.now().await.map_err(|error| unknown.or(error))?;
            let found = core.load_run(tenant, run, operation).await;
            let found = found.map_err(|error| unknown.or(error))?;
            let Some(found) = found.filter(|found| !found.collecting) else {
                return Err(unknown.or_not_found(run));
            };
            if let Some(events) = unknown.take_applied(&found.record) {
                core.publisher.publish(events);
                return Ok(IdempotentOutcome::Executed(()));
            }
            let progress = match change {
                Change::Complete => {
                    let progress = core.progress_of(&found, now).await;
                    Some(progress.map_err(|error| unknown.or(error))?)
                }
                Change::Fail | Change::Cancel | Change::Pause | Change::Resume => None,
            };
            let StoredRun { mut record, at, .. } = found;
            let before = Gate::of(&record);
            let mut events = core.publisher.collector();
            let call = RunCall { now, tenant };
            let change = protocol_change(change, progress.as_ref());
            match ops::change_run(&call, &mut record, change, op, &mut events) {
                Ok(IdempotentOutcome::Executed(())) => {}
                Ok(replayed @ IdempotentOutcome::Replayed(())) => return Ok(replayed),
                Err(refusal) => {
                    return Err(unknown.may_come(Some(at)).map_or(refusal, Into::into));
                }
            }
            let mut commit = Commit::builder()
                .expect(core.keys.run(tenant, run), Expect::At(at))
                .put(core.keys.run(tenant, run), Run::encode_of(&record, false));
            let after = Gate::of(&record);
            if before != after && !planted::is_active(Defect::GateNotWritten) {
                commit = commit.put(core.keys.gate(tenant, run), after.encode());
            }
            let commit =
                commit.build().map_err(|error| fault::corrupt(operation, error.to_string()))?;
            let writes = commit.writes().to_vec();
            match core.store.commit(commit).await {
                Ok(revision) => {
                    core.note_commit(tenant, run, revision, &writes);
                    core.publisher.publish(events);
                    return Ok(IdempotentOutcome::Executed(()));
                }
                Err(CommitError::Conflict(_)) => {}
                Err(error @ CommitError::Unknown(_)) => {
                    let error = fault::commit(operation, &error);
                    unknown.push(UnknownChange { basis: Some(at), record, events, error });
                }
                Err(error) => return Err(unknown.or(fault::commit(operation, &error)).into()),
            }
        }
        Err(unknown.or(fault::contention(operation)).into())
    }
}

impl<S: Store, E: Env> Core<S, E> {
    /// Reads a run; none if there is none, or only what is left of one.
    pub(crate) async fn load_run(
        &self,
        tenant: TenantId,
        run: RunId,
        operation: &'static str,
    ) -> Result<Option<StoredRun>, InfraError> {
        let keys = [self.keys.run(tenant, run), self.keys.manifest(tenant, run)];
        let loaded = self.store.load(&keys).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(operation, &error))?;
        let Ok([run_value, manifest]) = <[Option<Versioned>; 2]>::try_from(values) else {
            return Err(fault::corrupt(operation, "the store answered for other keys than asked"));
        };
        let Some(found) = run_value else { return Ok(None) };
        let damaged = |error: String| fault::corrupt(operation, format!("run {run}: {error}"));
        let stored = Run::decode(&found.value).map_err(|error| damaged(error.to_string()))?;
        if (stored.tenant, stored.run) != (tenant, run) {
            return Err(damaged("what is stored there is another run".to_owned()));
        }
        let manifest = match manifest {
            Some(manifest) => {
                Manifest::decode(&manifest.value).map_err(|error| damaged(error.to_string()))?
            }
            None => Manifest { root_shards: Vec::new() },
        };
        let collecting = stored.collecting;
        let record = join_run(stored, manifest).map_err(|error| damaged(error.to_string()))?;
        Ok(Some(StoredRun { record, at: found.revision, collecting }))
    }

    /// Reads every shard of a run, all at one moment, and none before the run was as it was found.
    pub(crate) async fn all_shards(
        &self,
        StoredRun { record, at, .. }: &StoredRun,
        operation: &'static str,
    ) -> Result<Vec<ShardRecord>, InfraError> {
        let RunRecord { tenant, run, .. } = *record;
        if record.root_shards.is_empty() {
            // What is staged is not there yet.
            return Ok(Vec::new());
        }
        let entries = self.list_since(&self.keys.shards(tenant, run), *at, operation).await?;
        let mut shards = Vec::with_capacity(entries.len() / 2);
        let mut definition: Option<(ShardKey, Versioned)> = None;
        for (key, found) in entries {
            match self.keys.parse_shard(&key) {
                Some((_, key, ShardPart::Definition)) => definition = Some((key, found)),
                Some((_, key, ShardPart::Progress)) => {
                    // A definition comes right before the progress of the same shard.
                    let defined = definition.take().filter(|(defined, _)| *defined == key);
                    let (_, defined) = defined.ok_or_else(|| {
                        let message = format!("shard {} of run {run}: not defined", key.shard);
                        fault::corrupt(operation, message)
                    })?;
                    shards.push(decode_shard(Place { tenant, key }, &defined, &found, operation)?);
                }
                None => {
                    let message = format!("{key} is no key of ours");
                    return Err(fault::corrupt(operation, message));
                }
            }
        }
        Ok(shards)
    }

    async fn progress(
        self: &Arc<Self>,
        tenant: TenantId,
        run: RunId,
    ) -> Result<RunProgress, RunQueryError> {
        let now = self.now().await?;
        let found = self.load_run(tenant, run, OPERATION).await?;
        Ok(self.progress_of(&found.ok_or(RunNotFound { run })?, now).await?)
    }

    /// How far a run has come, at the moment at which it was found or later.
    async fn progress_of(
        self: &Arc<Self>,
        found: &StoredRun,
        now: LogicalTime,
    ) -> Result<RunProgress, InfraError> {
        let RunRecord { tenant, run, .. } = found.record;
        let shards = self.all_shards(found, OPERATION).await?;
        let mut counter = ProgressCounter::new(now, self.fence_floor);
        for ShardRecord { head, spec, cursor } in &shards {
            counter.add(head, spec.as_spec_ref(), cursor.as_update());
        }
        let told = self.watermark(tenant, run).await?;
        let before = told.as_ref().map(|(reached, _)| reached.as_ref());
        let remembered = before.filter(|_| !planted::is_active(Defect::WatermarkGoesBack));
        let mut progress = counter.finish(remembered);
        if progress.watermark.as_deref() != before {
            progress.watermark = self.raise_watermark(tenant, run, progress.watermark).await?;
        }
        Ok(progress)
    }
}

fn protocol_change(change: Change, progress: Option<&RunProgress>) -> RunChange<'_> {
    match (change, progress) {
        (Change::Complete, Some(progress)) => RunChange::Complete(progress),
        (Change::Complete | Change::Fail, _) => RunChange::Fail,
        (Change::Cancel, _) => RunChange::Cancel,
        (Change::Pause, _) => RunChange::Pause,
        (Change::Resume, _) => RunChange::Resume,
    }
}
