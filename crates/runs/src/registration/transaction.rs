//! A registration as a transaction: what precedes its last commit, and that commit.

use std::marker::PhantomData;

use shardwright_contracts::{InitialShardInput, OpId, RunId};
use shardwright_coordination::error::reason::RunNotFound;
use shardwright_coordination::ops::{self, RegisterStep, RunCall};
use shardwright_coordination::{
    EventCollector, IdempotentOutcome, InfraError, OpLogEntry, RegisterShardsError, RunRecord,
};
use shardwright_engine::transact::{self, Decided, Decision, Read, Settled, Transaction};
use shardwright_store::{Commit, CommitBuilder, Expect, Revision};

use super::{Adopt, NewRun, OPERATION, Plan, base};
use crate::coordinator::StoredCoordinator;
use crate::quota::Reservation;
use crate::reading::StoredRun;
use crate::runs::{Attempt, newly_logged, take_logged};

/// What comes after the steps of a registration that precede its last commit.
enum Next {
    /// The last commit.
    Commit(CommitBuilder),
    /// Something has changed: decide again.
    Reload,
    /// There is no room.
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
    pub(super) adopt: A,
    /// The run that an overtaken attempt may have made, with what tells of it.
    pub(super) made: Option<(NewRun, InfraError)>,
    /// Whether the run was made by this call.
    pub(super) has_made: bool,
    /// Attempts to start the run that were overtaken.
    pub(super) attempts: Vec<Attempt>,
    /// The newest revision of the run that one of them was based on.
    pub(super) overtaken_at: Option<Revision>,
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

    fn operation(&self) -> &'static str {
        OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        let core = &self.backend.core;
        self.call.now = core.now().await?;
        Ok((core.load_run(self.call.tenant, self.run, OPERATION).await?, read))
    }

    async fn decide(&mut self, found: &Self::Basis) -> Decided<Registered, Ended<R>> {
        let core = &self.backend.core;
        let record = found.as_ref().map(|found| &found.record);
        self.tell_if_made(record);
        let mut events = core.publisher.collector();
        let new_run = match (self.adopt)(&self.call, record, &mut events) {
            Ok(new_run) => new_run.map(|record| NewRun { record, events }),
            Err(refusal) => return Ok(Decision::Refuse(Ended::Refused(refusal))),
        };
        let Some(base) = base(new_run, found.as_ref()) else { return self.not_found() };
        let pending = match ops::register_shards(&self.call, &base.record, self.shards, self.op) {
            Ok(RegisterStep::Ready(pending)) => pending,
            Ok(RegisterStep::Replayed) => {
                let events = take_logged(&mut self.attempts, &base.record.op_log);
                let events = events.unwrap_or_else(|| core.publisher.collector());
                let (outcome, logged) = (IdempotentOutcome::Replayed(()), None);
                return Ok(Decision::Answer(Registered { basis: None, logged, events, outcome }));
            }
            Err(refusal) => return Ok(Decision::Refuse(Ended::Refused(refusal.into()))),
        };
        let logged_before = base.record.op_log.clone();
        let (mut plan, started) = self.backend.plan(&self.call, base, self.shards, pending)?;
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
            self.overtaken_at = self.overtaken_at.max(basis);
            self.attempts.push(Attempt { logged, events, error: error.clone() });
        }
    }

    fn failed(&self, error: InfraError) -> InfraError {
        match (&self.made, error) {
            (Some((_, unknown)), _) => unknown.clone(),
            // The run exists now, so nothing may be reported as not applied. The same call resumes
            // where this one ended.
            (None, InfraError::NotApplied { operation, message }) if self.has_made => {
                let message = format!("the run was made, and not all of its shards: {message}");
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
        if let Some((commit, revision)) = stored {
            // A worker may have looked for work here before there was any.
            core.note_commit(self.call.tenant, self.run, revision, commit.writes());
        }
        core.publisher.publish(events);
        outcome
    }
}

impl<R: From<RegisterShardsError>, A> Registration<'_, R, A> {
    /// Publishes that the run was made, if an overtaken attempt has made the one that is there.
    fn tell_if_made(&mut self, found: Option<&RunRecord>) {
        let is_ours = |(new_run, _): &mut (NewRun, InfraError)| Some(&new_run.record) == found;
        if let Some((new_run, _)) = self.made.take_if(is_ours) {
            self.backend.core.publisher.publish(new_run.events);
            self.has_made = true;
        }
    }

    /// A run that is not there. An attempt may have been applied to it before.
    fn not_found(&self) -> Decided<Registered, Ended<R>> {
        let made = self.made.as_ref().map(|(_, error)| error);
        match self.attempts.last().map(|attempt| &attempt.error).or(made) {
            Some(error) => Err(error.clone()),
            None => {
                let refusal = RegisterShardsError::from(RunNotFound { run: self.run });
                Ok(Decision::Refuse(Ended::Refused(refusal.into())))
            }
        }
    }

    /// A refusal, unless it is decided on a state of before an overtaken attempt: the attempt may
    /// have been applied since.
    fn refuse(
        &self,
        basis: Option<Revision>,
        refusal: RegisterShardsError,
    ) -> Decided<Registered, Ended<R>> {
        let started = self.attempts.last().filter(|_| self.overtaken_at >= basis);
        let made = self.made.as_ref().filter(|_| basis.is_none()).map(|(_, error)| error);
        match started.map(|attempt| &attempt.error).or(made) {
            Some(error) => Err(error.clone()),
            None => Ok(Decision::Refuse(Ended::Refused(refusal.into()))),
        }
    }

    /// Does all but the last commit of a registration: nothing, if one commit takes all of it.
    async fn carry_out(&mut self, plan: &mut Plan) -> Result<Next, InfraError> {
        let (backend, count) = (self.backend, plan.shards.len());
        let (tenant, run) = (plan.tenant, plan.run);
        let (stage, stage_expect) = backend.load_stage(tenant, run).await?;
        let room = backend.core.room_for_manifest(tenant, run, count, OPERATION).await?;
        let room = match room {
            Ok(room) => room,
            Err(violation) => return Ok(Next::Refuse(violation.into())),
        };
        if stage.is_none()
            && let Some(commit) = backend.whole(plan, &room)?
        {
            return Ok(Next::Commit(commit));
        }
        if stage.is_some() && plan.new_run.is_some() {
            // There is no stage without a run, so the run was looked for in an older state.
            return Ok(Next::Reload);
        }
        let is_ours = stage.is_some_and(|stage| stage == plan.stage);
        let stage_at = match stage_expect {
            Expect::At(at) if is_ours => at,
            expect => match self.set_up(plan, room, expect).await? {
                Some(at) => at,
                None => return Ok(Next::Reload),
            },
        };
        // Whoever set up the stage, or we ourselves, may have died before all was cleared.
        if stage.is_some() && !backend.clear(plan, stage_at).await? {
            return Ok(Next::Reload);
        }
        if !backend.write_shards(plan, stage_at).await? {
            return Ok(Next::Reload);
        }
        let stage_key = backend.core.keys.stage(tenant, run);
        let last =
            Commit::builder().expect(stage_key.clone(), Expect::At(stage_at)).delete(stage_key);
        Ok(Next::Commit(backend.start(last, plan)))
    }

    /// Sets up the stage and reserves room. With the stage comes the run, if there is none yet.
    /// None if something has changed.
    async fn set_up(
        &mut self,
        plan: &mut Plan,
        room: Reservation,
        expect: Expect,
    ) -> Result<Option<Revision>, InfraError> {
        let commit = transact::build(OPERATION, self.backend.stage(plan, room, expect))?;
        let core = &self.backend.core;
        let settled = match core.settle_run(plan.address(), &commit, OPERATION).await {
            // A stage alone starts nothing, so its outcome need not be known.
            Err(InfraError::Unknown { .. }) if plan.new_run.is_none() => return Ok(None),
            settled => settled?,
        };
        match settled {
            Settled::Stored(at) => {
                if let Some(new_run) = plan.new_run.take() {
                    // The run was made by the commit that set up the stage.
                    plan.run_expect = Expect::At(at);
                    self.has_made = true;
                    core.publisher.publish(new_run.events);
                }
                Ok(Some(at))
            }
            Settled::Overtaken(error) => {
                if let Some(new_run) = plan.new_run.take() {
                    self.made = Some((new_run, error));
                }
                Ok(None)
            }
            Settled::Conflict(_) => Ok(None),
            settled => Err(settled.into_failure(OPERATION)),
        }
    }
}
