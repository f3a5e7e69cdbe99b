//! Operations on runs.

use shardwright_contracts::{LogicalTime, OpId, RunId, TenantId};
use shardwright_coordination::error::reason::RunNotFound;
use shardwright_coordination::operation::{
    CreateRun, CreateRunWithShards, GetRun, GetRunProgress, ListShards, RegisterShards,
};
use shardwright_coordination::ops::{self, RunCall, RunChange};
use shardwright_coordination::{
    CreateRunError, CreateRunWithShardsError, EventCollector, IdempotentOutcome, InfraError,
    OpLogEntry, RegisterShardsError, RunConfig, RunProgress, RunQueryError, RunRecord, RunStatus,
    RunTransition, RunTransitionError, ShardRecord, ShardSummary,
};
use shardwright_engine::codec::Record;
use shardwright_engine::transact::{self, Decided, Decision, Read, Settled, Transaction};
use shardwright_engine::{Operation, operation};
use shardwright_store::{Commit, CommitBuilder, Expect, Revision};

use crate::attempts::{Attempts, newly_logged};
use crate::collection::RunAddress;
use crate::coordinator::{Core, StoredCoordinator};
use crate::reading::StoredRun;
use crate::records::{RunHeadRecord, RunStateRecord};

const CREATE: Operation = operation!("create_run");

impl StoredCoordinator {
    pub(crate) async fn create_run(
        &self,
        tenant: TenantId,
        request: CreateRun,
    ) -> Result<(), CreateRunError> {
        let CreateRun { run, config } = request;
        let mut creation =
            Creation { core: &self.core, call: None, tenant, run, config, overtaken: None };
        self.core.driver.transact(&mut creation).await
    }

    pub(crate) async fn register_shards(
        &self,
        tenant: TenantId,
        request: RegisterShards<&[u8]>,
    ) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
        let RegisterShards { run, shards, op } = request;
        let shards = &shards;
        let found = |_: &RunCall, _: Option<&RunRecord>, _: &mut EventCollector| Ok(None);
        self.register(tenant, run, shards, op, operation!("register_shards"), found).await
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
        self.register(tenant, run, shards, op, operation!("create_run_with_shards"), made).await
    }

    pub(crate) async fn get_run(
        &self,
        tenant: TenantId,
        request: GetRun,
    ) -> Result<RunRecord, RunQueryError> {
        let run = request.run;
        Ok(self.core.look_at(tenant, run, operation!("get_run")).await?.record)
    }

    pub(crate) async fn get_run_progress(
        &self,
        tenant: TenantId,
        request: GetRunProgress,
    ) -> Result<RunProgress, RunQueryError> {
        let run = request.run;
        const OPERATION: Operation = operation!("get_run_progress");
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
        const OPERATION: Operation = operation!("list_shards");
        let now = self.core.now_at_most().await;
        let found = self.core.look_at(tenant, run, OPERATION).await?;
        let terms = self.core.takeover_terms(now);
        let summary = |shard: ShardRecord, owner| {
            Some(ShardSummary::of(&shard, &terms, owner)).filter(|it| filter.admits(it))
        };
        let listed = self.core.all_shards(&found, OPERATION, summary).await?;
        let mut listed = listed.ok_or(RunNotFound { run })?;
        ShardSummary::sort(&mut listed);
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
        const OPERATION: Operation = operation!("inspect_shards");
        let found = self.core.look_at(tenant, run, OPERATION).await?;
        let shards = self.core.all_shards(&found, OPERATION, |shard, _| Some(shard)).await?;
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
        let call = RunCall { now: LogicalTime::ZERO, tenant };
        let attempts = Attempts::default();
        let mut transition =
            Transition { backend: self, call, run, change, op, attempts, ended_at: None };
        let outcome = self.core.driver.transact(&mut transition).await;
        // Also after a replay or a refusal, because the process that ended the run may have died
        // before.
        if let Some(ended_at) = transition.ended_at {
            let address = RunAddress { tenant, run };
            self.remove_registration(address, ended_at, operation_of(change)).await;
            self.core.return_unused_shards(tenant, run).await;
        }
        outcome
    }

    /// The progress that a change needs; none if the run is being deleted. A change that is
    /// replayed or refused needs no count.
    async fn progress_for(
        &self,
        change: RunTransition,
        found: &StoredRun,
        now: LogicalTime,
        op: OpId,
    ) -> Result<Option<RunProgress>, InfraError> {
        let is_active = found.record.status == RunStatus::Active;
        if change != RunTransition::Complete || !is_active || is_logged(&found.record, op) {
            return Ok(Some(RunProgress::default()));
        }
        self.core.progress_of(found, now, operation_of(change)).await
    }
}

impl Core {
    /// The commit of a changed run. Also writes the gate if it changes or is missing.
    fn changed(
        &self,
        record: &RunRecord,
        at: Revision,
        before: Option<RunStateRecord>,
    ) -> CommitBuilder {
        let RunRecord { tenant, run, .. } = *record;
        let (key, after) = (self.keys.run(tenant, run), RunStateRecord::of(record));
        let commit = Commit::builder()
            .expect(key.clone(), Expect::At(at))
            .put(key, RunHeadRecord::encode_of(record, false));
        if before == Some(after) {
            return commit;
        }
        commit.put(self.keys.gate(tenant, run), after.encode())
    }

    /// Reads a run for a query.
    async fn look_at(
        &self,
        tenant: TenantId,
        run: RunId,
        operation: Operation,
    ) -> Result<StoredRun, RunQueryError> {
        let found = self.load_run(tenant, run, operation).await?;
        Ok(found.filter(|found| !found.collecting).ok_or(RunNotFound { run })?)
    }
}

/// Creates a run without shards.
struct Creation<'c> {
    core: &'c Core,
    call: Option<RunCall>,
    tenant: TenantId,
    run: RunId,
    config: RunConfig,
    overtaken: Option<InfraError>,
}

impl Transaction for Creation<'_> {
    type Basis = Option<RunRecord>;
    type Answer = EventCollector;
    type Output = ();
    type Error = CreateRunError;

    fn operation(&self) -> Operation {
        CREATE
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        let now = self.core.now().await?;
        self.call = Some(RunCall { now, tenant: self.tenant });
        let existing = self.core.load_run(self.tenant, self.run, CREATE).await?;
        Ok((existing.map(|found| found.record), read))
    }

    async fn decide(&mut self, existing: &Self::Basis) -> Decided<EventCollector, CreateRunError> {
        let (keys, tenant, run) = (&self.core.keys, self.tenant, self.run);
        let Some(call) = &self.call else { return Ok(Decision::Reload) };
        let mut events = self.core.publisher.collector();
        let made = ops::create_run(call, run, self.config, existing.as_ref(), &mut events);
        let record = match made {
            Ok(record) => record,
            // The existing run may be the one that an attempt of this call created and others
            // changed.
            Err(refusal) => return transact::refuse(refusal, self.overtaken.as_ref()),
        };
        let commit = Commit::builder()
            .expect(keys.run(tenant, run), Expect::Absent)
            .put(keys.run(tenant, run), RunHeadRecord::encode_of(&record, false))
            .put(keys.gate(tenant, run), RunStateRecord::of(&record).encode());
        Ok(Decision::Commit(commit, events))
    }

    fn not_stored(&mut self, _: EventCollector, settled: &Settled) {
        if let Settled::Overtaken(error) = settled {
            self.overtaken = Some(error.clone());
        }
    }

    fn finish(&mut self, _: Self::Basis, events: EventCollector, _: Option<(&Commit, Revision)>) {
        self.core.publisher.publish(events);
    }
}

/// Changes an existing run.
struct Transition<'c> {
    backend: &'c StoredCoordinator,
    call: RunCall,
    run: RunId,
    change: RunTransition,
    op: OpId,
    /// Attempts that were overtaken.
    attempts: Attempts<Option<Revision>>,
    /// Revision of the run that has ended, if it has.
    ended_at: Option<Revision>,
}

/// A run, and the progress that its change needs.
struct RunBasis {
    found: StoredRun,
    progress: RunProgress,
}

/// A changed run.
struct Changed {
    /// Revision of the run before the change.
    at: Revision,
    /// Whether the run has ended.
    has_ended: bool,
    logged: Option<OpLogEntry>,
    events: EventCollector,
    outcome: IdempotentOutcome<()>,
}

impl Transaction for Transition<'_> {
    type Basis = Option<RunBasis>;
    type Answer = Changed;
    type Output = IdempotentOutcome<()>;
    type Error = RunTransitionError;

    fn operation(&self) -> Operation {
        operation_of(self.change)
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        let (core, operation) = (&self.backend.core, self.operation());
        self.call.now = core.now().await?;
        let found = core.load_run_alone(self.call.tenant, self.run, operation).await?;
        let Some(found) = found.filter(|found| !found.collecting) else { return Ok((None, read)) };
        let progress = self.backend.progress_for(self.change, &found, self.call.now, self.op);
        Ok((progress.await?.map(|progress| RunBasis { found, progress }), read))
    }

    async fn decide(&mut self, basis: &Self::Basis) -> Decided<Changed, RunTransitionError> {
        let Some(RunBasis { found, progress }) = basis else {
            return self.attempts.refuse_missing(RunNotFound { run: self.run }.into());
        };
        let core = &self.backend.core;
        let mut record = found.record.clone();
        let before = found.has_gate.then(|| RunStateRecord::of(&record));
        let mut events = core.publisher.collector();
        let change = RunChange::of(self.change, progress);
        match ops::change_run(&self.call, &mut record, change, self.op, &mut events) {
            Ok(outcome @ IdempotentOutcome::Executed(())) => {
                let commit = core.changed(&record, found.at, before);
                let commit = match found.record.status {
                    // Its registration has reserved shards, which will never exist.
                    RunStatus::Initializing => {
                        let RunRecord { tenant, run, .. } = record;
                        core.return_shards(tenant, run, commit, self.operation()).await?
                    }
                    _ => commit,
                };
                let logged = newly_logged(&found.record.op_log, &record.op_log);
                let (at, has_ended) = (found.at, record.status.is_terminal());
                Ok(Decision::Commit(commit, Changed { at, has_ended, logged, events, outcome }))
            }
            Ok(outcome @ IdempotentOutcome::Replayed(())) => {
                let events = self.attempts.take_events(&record.op_log).unwrap_or(events);
                let (at, has_ended) = (found.at, record.status.is_terminal());
                let logged = None;
                Ok(Decision::Answer(Changed { at, has_ended, logged, events, outcome }))
            }
            Err(refusal) => {
                let refused = self.attempts.refuse_at(&Some(found.at), refusal);
                let has_ended = refused.is_ok() && record.status.is_terminal();
                self.ended_at = has_ended.then_some(found.at);
                refused
            }
        }
    }

    fn not_stored(&mut self, changed: Changed, settled: &Settled) {
        let Changed { at, logged, events, .. } = changed;
        if let Settled::Overtaken(error) = settled {
            self.attempts.note(Some(at), logged.map(|entry| (entry, events)), error);
        }
    }

    fn finish(
        &mut self,
        _: Self::Basis,
        Changed { at, has_ended, events, outcome, .. }: Changed,
        stored: Option<(&Commit, Revision)>,
    ) -> IdempotentOutcome<()> {
        let core = &self.backend.core;
        core.note_stored(self.call.tenant, self.run, stored);
        core.publisher.publish(events);
        let stored_at = stored.map_or(at, |(_, stored_at)| stored_at);
        self.ended_at = has_ended.then_some(stored_at);
        outcome
    }
}

const fn operation_of(change: RunTransition) -> Operation {
    match change {
        RunTransition::Complete => operation!("complete_run"),
        RunTransition::Fail => operation!("fail_run"),
        RunTransition::Cancel => operation!("cancel_run"),
        RunTransition::Pause => operation!("pause_run"),
        RunTransition::Resume => operation!("resume_run"),
    }
}

fn is_logged(record: &RunRecord, op: OpId) -> bool {
    record.op_log.entries().any(|entry| entry.op == op)
}
