//! A registration as a transaction: what precedes its last commit, and that commit.

use std::marker::PhantomData;

use shardwright_contracts::{InitialShardInput, OpId, RunId};
use shardwright_coordination::error::reason::RunNotFound;
use shardwright_coordination::ops::{self, RegisterStep, RunCall};
use shardwright_coordination::{
    EventCollector, IdempotentOutcome, InfraError, OpLogEntry, RegisterShardsError, RunRecord,
};
use shardwright_engine::Operation;
use shardwright_engine::transact::{self, Decided, Decision, Read, Settled, Transaction};
use shardwright_store::{Commit, CommitBuilder, Expect, Revision};

use super::{Adopt, NewRun, Plan, base};
use crate::attempts::{Attempts, newly_logged};
use crate::coordinator::StoredCoordinator;
use crate::quota::{NotReserved, Reservation};
use crate::reading::StoredRun;

/// Next step of a registration.
enum Next {
    /// The last commit.
    Commit(CommitBuilder),
    /// The state has changed: decide again.
    Reload,
    /// A limit is exceeded.
    Refuse(RegisterShardsError),
}

/// Why a registration ended.
pub(super) enum Ended<R> {
    Refused(R),
    Failed(InfraError),
}

impl<R> From<InfraError> for Ended<R> {
    fn from(error: InfraError) -> Self {
        Self::Failed(error)
    }
}

/// The registration of a run's shards.
pub(super) struct Registration<'c, R, A> {
    pub(super) backend: &'c StoredCoordinator,
    pub(super) call: RunCall,
    pub(super) run: RunId,
    pub(super) shards: &'c [InitialShardInput<'c>],
    pub(super) op: OpId,
    pub(super) operation: Operation,
    pub(super) adopt: A,
    /// The runs that overtaken attempts may have created, and their events. At most one of them is
    /// stored.
    pub(super) made: Vec<(NewRun, InfraError)>,
    /// Whether this call has created the run.
    pub(super) has_made: bool,
    /// Attempts to start the run that were overtaken.
    pub(super) attempts: Attempts<Option<Revision>>,
    pub(super) refusal: PhantomData<fn() -> R>,
}

/// A run that is about to start.
pub(super) struct Registered {
    basis: Option<Revision>,
    logged: Option<OpLogEntry>,
    events: EventCollector,
    outcome: IdempotentOutcome<()>,
}

impl<R, A> Transaction for Registration<'_, R, A>
where
    R: From<RegisterShardsError> + Send,
    A: Adopt<R>,
{
    type Basis = Option<StoredRun>;
    type Answer = Registered;
    type Output = IdempotentOutcome<()>;
    type Error = Ended<R>;

    fn operation(&self) -> Operation {
        self.operation
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        let core = &self.backend.core;
        self.call.now = core.now().await?;
        Ok((core.load_run(self.call.tenant, self.run, self.operation).await?, read))
    }

    async fn decide(&mut self, found: &Self::Basis) -> Decided<Registered, Ended<R>> {
        let core = &self.backend.core;
        let record = found.as_ref().map(|found| &found.record);
        self.publish_if_created(record);
        let mut events = core.publisher.collector();
        let new_run = match (self.adopt)(&self.call, record, &mut events) {
            Ok(new_run) => new_run.map(|record| NewRun { record, events }),
            Err(refusal) => return Ok(Decision::Refuse(Ended::Refused(refusal))),
        };
        let Some(base) = base(new_run, found.as_ref()) else { return self.not_found() };
        let pending = match ops::register_shards(&self.call, &base.record, self.shards, self.op) {
            Ok(RegisterStep::Ready(pending)) => pending,
            Ok(RegisterStep::Replayed) => {
                let events = self.attempts.take_events(&base.record.op_log);
                let events = events.unwrap_or_else(|| core.publisher.collector());
                let (outcome, logged) = (IdempotentOutcome::Replayed(()), None);
                return Ok(Decision::Answer(Registered { basis: None, logged, events, outcome }));
            }
            Err(refusal) => return Ok(Decision::Refuse(Ended::Refused(refusal.into()))),
        };
        let logged_before = base.record.op_log.clone();
        let (mut plan, started) =
            self.backend.plan(&self.call, base, self.shards, pending, self.operation)?;
        let commit = match self.carry_out(&mut plan).await? {
            Next::Commit(commit) => commit,
            Next::Reload => return Ok(Decision::Reload),
            Next::Refuse(refusal) => return self.refuse(plan.basis(), refusal),
        };
        let (basis, events) = (plan.basis(), plan.events(started));
        let logged = newly_logged(&logged_before, &plan.record.op_log);
        let outcome = IdempotentOutcome::Executed(());
        Ok(Decision::Commit(commit, Registered { basis, logged, events, outcome }))
    }

    fn not_stored(&mut self, registered: Registered, settled: &Settled) {
        let Registered { basis, logged, events, .. } = registered;
        if let Settled::Overtaken(error) = settled {
            self.attempts.note(basis, logged.map(|entry| (entry, events)), error);
        }
    }

    fn failed(&self, error: InfraError) -> InfraError {
        match (self.made_error(), error) {
            (Some(unknown), _) => unknown.clone(),
            // The run exists now, so nothing may be reported as not applied. The same call resumes
            // where this one ended.
            (None, InfraError::NotApplied { operation, message }) if self.has_made => {
                let message = format!(
                    "the run was created, but not all of its shards; repeat the call: {message}"
                );
                InfraError::Unknown { operation, message: message.into() }
            }
            (None, error) => error,
        }
    }

    fn finish(
        &mut self,
        _: Self::Basis,
        Registered { events, outcome, .. }: Registered,
        stored: Option<(&Commit, Revision)>,
    ) -> IdempotentOutcome<()> {
        let core = &self.backend.core;
        // A worker of this process may already wait for the run's shards.
        core.note_stored(self.call.tenant, self.run, stored);
        core.publisher.publish(events);
        outcome
    }
}

impl<R: From<RegisterShardsError>, A> Registration<'_, R, A> {
    /// Publishes the creation of the run if an overtaken attempt has created it.
    fn publish_if_created(&mut self, found: Option<&RunRecord>) {
        let is_ours = |(new_run, _): &(NewRun, InfraError)| Some(&new_run.record) == found;
        if let Some(at) = self.made.iter().position(is_ours) {
            let (new_run, _) = self.made.swap_remove(at);
            self.made.clear();
            self.backend.core.publisher.publish(new_run.events);
            self.has_made = true;
        }
    }

    /// The error to report while an overtaken attempt may have created the run.
    fn made_error(&self) -> Option<&InfraError> {
        self.made.last().map(|(_, error)| error)
    }

    /// Refuses a missing run, unless an overtaken attempt may have been applied before.
    fn not_found(&self) -> Decided<Registered, Ended<R>> {
        let refusal = RegisterShardsError::from(RunNotFound { run: self.run });
        let unresolved = self.attempts.unresolved().or(self.made_error());
        transact::refuse(Ended::Refused(refusal.into()), unresolved)
    }

    /// Refuses the operation, unless the state is from before an overtaken attempt, which may have
    /// been applied since.
    fn refuse(
        &self,
        basis: Option<Revision>,
        refusal: RegisterShardsError,
    ) -> Decided<Registered, Ended<R>> {
        let made = self.made_error().filter(|_| basis.is_none());
        let unresolved = self.attempts.unresolved_since(&basis).or(made);
        transact::refuse(Ended::Refused(refusal.into()), unresolved)
    }

    /// Performs all but the last commit of a registration. If one commit is enough, it does
    /// nothing.
    async fn carry_out(&mut self, plan: &mut Plan) -> Result<Next, InfraError> {
        let (backend, count) = (self.backend, plan.shards.len());
        let (tenant, run) = (plan.tenant, plan.run);
        let (stage, stage_expect) = backend.load_stage(tenant, run, self.operation).await?;
        let reservation = backend.core.reserve_manifest(tenant, run, count, self.operation).await?;
        let reservation = match reservation {
            Ok(reservation) => reservation,
            Err(NotReserved::Moved) => return Ok(Next::Reload),
            Err(NotReserved::Refused(violation)) => return Ok(Next::Refuse(violation.into())),
        };
        if stage.is_none()
            && let Some(commit) = backend.whole(plan, &reservation)?
        {
            return Ok(Next::Commit(commit));
        }
        if stage.is_some() && plan.new_run.is_some() {
            // A stage implies a run, so the read of the run was stale.
            return Ok(Next::Reload);
        }
        let is_ours = stage.is_some_and(|stage| stage == plan.stage);
        let stage_at = match stage_expect {
            Expect::At(at) if is_ours => at,
            expect => match self.set_up(plan, reservation, expect).await? {
                Some(at) => at,
                None => return Ok(Next::Reload),
            },
        };
        // The process that stored the stage may have died before it deleted everything.
        if stage.is_some() {
            let since = (stage_at, stage_at);
            if !backend.clear(plan.address(), &plan.shards, since, plan.operation).await? {
                return Ok(Next::Reload);
            }
        }
        if !backend.write_shards(plan, stage_at).await? {
            return Ok(Next::Reload);
        }
        let stage_key = backend.core.keys.stage(tenant, run);
        let last =
            Commit::builder().expect(stage_key.clone(), Expect::At(stage_at)).delete(stage_key);
        Ok(Next::Commit(backend.start(last, plan)))
    }

    /// Stores the stage and reserves the shards. Also creates the run if it does not exist. None if
    /// something has changed.
    async fn set_up(
        &mut self,
        plan: &mut Plan,
        reservation: Reservation,
        expect: Expect,
    ) -> Result<Option<Revision>, InfraError> {
        let commit =
            transact::build(plan.operation, self.backend.stage(plan, reservation, expect))?;
        let core = &self.backend.core;
        let settled = match core.settle_run(plan.address(), &commit, plan.operation).await {
            // A stage alone starts nothing, so its outcome need not be known.
            Err(InfraError::Unknown { .. }) if plan.new_run.is_none() => return Ok(None),
            settled => settled?,
        };
        match settled {
            Settled::Stored(at) => {
                if let Some(new_run) = plan.new_run.take() {
                    // The commit that stored the stage has created the run.
                    plan.run_expect = Expect::At(at);
                    self.has_made = true;
                    core.publisher.publish(new_run.events);
                }
                Ok(Some(at))
            }
            Settled::Overtaken(error) => {
                if let Some(new_run) = plan.new_run.take() {
                    self.made.push((new_run, error));
                }
                Ok(None)
            }
            Settled::Conflict(_) => Ok(None),
            settled => Err(settled.into_failure(plan.operation)),
        }
    }
}
