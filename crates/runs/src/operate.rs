//! Operations on a shard, each as a transaction.

use std::marker::PhantomData;
use std::sync::Arc;

use shardwright_contracts::{FenceEpoch, LogicalTime, WorkerId};
use shardwright_coordination::error::reason::{ShardNotFound, SplitInvalid};
use shardwright_coordination::{
    Context, EventCollector, InfraError, Lease, ShardRecord, SplitError,
};
use shardwright_engine::Operation;
use shardwright_engine::transact::{
    self, Decided, Decision, Driver, Read, Settled, Transaction, Tries,
};
use shardwright_store::{Commit, CommitBuilder, Revision, SessionId, Store, Write};

use crate::attempts::{Attempts, newly_logged};
use crate::coordinator::Core;
use crate::effects::{self, Effects};
use crate::quota::{NotReserved, Reservation};
use crate::shard::{Loaded, ShardAddress, ShardFault};

/// Repeated reads of a record that is older than the caller's lease.
const STALE_READS: u32 = 3;

/// A shard while an operation is applied to it.
pub(crate) struct Draft {
    pub(crate) record: ShardRecord,
    pub(crate) events: EventCollector,
    /// Shards that the operation creates.
    pub(crate) new_shards: Vec<ShardRecord>,
    /// Other writes.
    pub(crate) also: Vec<Write>,
}

/// Decision of a rule.
pub(crate) enum RuleDecision<T> {
    /// Store the draft.
    Store(T),
    /// Nothing needs to be stored.
    Answer(T),
}

/// An executed or replayed operation.
pub(crate) struct Done<T> {
    pub(crate) answer: T,
    pub(crate) now: LogicalTime,
    /// The shard as it is stored now.
    pub(crate) shard: Arc<Loaded>,
}

/// A rule that is applied to a shard.
pub(crate) trait Rule<T, R>:
    FnMut(&Context<'_>, &mut Draft) -> Result<RuleDecision<T>, R> + Send
{
}

impl<T, R, F> Rule<T, R> for F where
    F: FnMut(&Context<'_>, &mut Draft) -> Result<RuleDecision<T>, R> + Send
{
}

/// Converts an exceeded limit to the operation's refusal. Only splits have one.
type LimitRefusal<R> = fn(SplitInvalid) -> R;

/// An operation on a shard.
struct ShardTransaction<'c, T, R, F> {
    core: &'c Arc<Core>,
    address: ShardAddress,
    lease: Option<&'c Lease>,
    operation: Operation,
    rule: F,
    refuse_limit: Option<LimitRefusal<R>>,
    now: LogicalTime,
    is_fresh: bool,
    /// Attempts that were overtaken.
    attempts: Attempts<Arc<Loaded>>,
    /// Those of them that grant a lease.
    grants: Vec<Grant>,
    answer: PhantomData<fn() -> T>,
}

/// A lease granted by an overtaken attempt. The record contains no operation id of it.
struct Grant {
    fence: FenceEpoch,
    owner: WorkerId,
    error: InfraError,
}

/// An answer, with the shard before and after the operation.
struct Drafted<T> {
    answer: T,
    shard: Arc<Loaded>,
    draft: Option<Draft>,
    session: Option<SessionId>,
}

impl Core {
    /// Applies an operation that creates no shards.
    pub(crate) async fn on_shard<T, R>(
        self: &Arc<Self>,
        address: ShardAddress,
        lease: Option<&Lease>,
        operation: Operation,
        rule: impl Rule<T, R>,
    ) -> Result<Done<T>, R>
    where
        T: Send,
        R: From<ShardNotFound> + From<InfraError> + Send,
    {
        self.transact_shard(address, lease, operation, rule, None).await
    }

    /// Splits a shard. The new shards need a reservation.
    pub(crate) async fn split_shard<T: Send>(
        self: &Arc<Self>,
        address: ShardAddress,
        lease: &Lease,
        operation: Operation,
        rule: impl Rule<T, SplitError>,
    ) -> Result<Done<T>, SplitError> {
        self.transact_shard(address, Some(lease), operation, rule, Some(SplitError::from)).await
    }

    async fn transact_shard<T, R>(
        self: &Arc<Self>,
        address: ShardAddress,
        lease: Option<&Lease>,
        operation: Operation,
        rule: impl Rule<T, R>,
        refuse_limit: Option<LimitRefusal<R>>,
    ) -> Result<Done<T>, R>
    where
        T: Send,
        R: From<ShardNotFound> + From<InfraError> + Send,
    {
        let mut transaction = ShardTransaction {
            core: self,
            address,
            lease,
            operation,
            rule,
            refuse_limit,
            now: LogicalTime::ZERO,
            is_fresh: false,
            attempts: Attempts::default(),
            grants: Vec::new(),
            answer: PhantomData,
        };
        self.driver.transact(&mut transaction).await
    }

    /// Reads a shard. A read that is older than the caller's lease is stale and is repeated a few
    /// times. Then it counts, because the lease may be forged.
    async fn load_known(
        &self,
        address: ShardAddress,
        lease: Option<&Lease>,
        operation: Operation,
    ) -> Result<Option<Arc<Loaded>>, InfraError> {
        let most = STALE_READS.min(self.config.conflict_retries);
        let read = |stale_reads| async move {
            let found = match self.load_shard(address, operation).await {
                Ok(found) => found.map(Arc::new),
                Err(ShardFault::Damaged(error)) => {
                    self.cache.note_damaged(address);
                    return Err(error);
                }
                Err(ShardFault::Other(error)) => return Err(error),
            };
            let is_stale = match &found {
                Some(found) => is_older_than(found, lease),
                None => lease.is_some(),
            };
            Ok((!is_stale || stale_reads >= most).then_some(found))
        };
        self.driver.read_until(operation, read).await
    }

    /// Adds the session, the reservation and the answered split request of an operation, and builds
    /// its commit.
    async fn prepare<R>(
        self: &Arc<Self>,
        address: ShardAddress,
        current: &Loaded,
        draft: &mut Draft,
        operation: Operation,
        refuse_limit: Option<LimitRefusal<R>>,
    ) -> Result<Prepared<R>, InfraError> {
        let effects = Effects::between(&current.record, &draft.record);
        let session = if effects.grants { self.session().await? } else { None };
        if effects.answers {
            let fence = current.record.head.fence;
            draft.also.push(self.answer_request(address, fence, operation).await?);
        }
        let mut reservation = Reservation::default();
        if let Some(refuse) = refuse_limit
            && !draft.new_shards.is_empty()
        {
            match self
                .reserve_children(address, current.basis, &draft.new_shards, operation)
                .await?
            {
                Ok(found) => reservation = found,
                Err(NotReserved::Moved) => return Ok(Prepared::Moved),
                Err(NotReserved::Refused(reason)) => return Ok(Prepared::Refused(refuse(reason))),
            }
        }
        let commit =
            effects::commit(&self.keys, address, current, draft, &effects, session, reservation);
        if let Some(refuse) = refuse_limit {
            let children = draft.new_shards.len();
            let built = transact::build(operation, commit.clone())?;
            if let Err(exceeded) = built.check(&self.store.limits()) {
                let max = children.saturating_mul(exceeded.limit) / exceeded.actual.max(1);
                let reason = SplitInvalid::BackendChildLimitExceeded { children, max };
                return Ok(Prepared::Refused(refuse(reason)));
            }
        }
        Ok(Prepared::Ready(commit, session))
    }
}

/// A commit of a draft, or why there is none.
enum Prepared<R> {
    Ready(CommitBuilder, Option<SessionId>),
    /// The basis has changed: decide again.
    Moved,
    Refused(R),
}

impl<T, R, F> ShardTransaction<'_, T, R, F> {
    /// Refuses the operation at a state of the shard.
    fn refuse(&self, current: &Arc<Loaded>, refusal: R) -> Decided<Drafted<T>, R> {
        if self.is_fresh {
            self.core.cache.forget(self.address);
        }
        self.attempts.refuse_at(current, refusal)
    }

    /// The `Unknown` error to report if a lost attempt may have granted a lease that is over. No
    /// operation id shows whether it did. A lease of another worker at that fence proves that it
    /// did not.
    fn overtaken_grant(&self, current: &Loaded) -> Option<InfraError> {
        let head = &current.record.head;
        let is_held_by = |owner| head.lease.is_none_or(|lease| lease.owner == owner);
        let may_be_over = |grant: &&Grant| {
            head.fence > grant.fence || (head.fence == grant.fence && is_held_by(grant.owner))
        };
        self.grants.iter().find(may_be_over).map(|grant| grant.error.clone())
    }
}

impl<T, R, F> Transaction for ShardTransaction<'_, T, R, F>
where
    T: Send,
    R: From<ShardNotFound> + From<InfraError> + Send,
    F: Rule<T, R>,
{
    type Basis = Option<Arc<Loaded>>;
    type Answer = Drafted<T>;
    type Output = Done<T>;
    type Error = R;

    fn operation(&self) -> Operation {
        self.operation
    }

    fn first_read(&self) -> Read {
        Read::Cached
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        let (core, address) = (self.core, self.address);
        self.now = core.now().await?;
        let served = core.cache.get(address).filter(|_| read == Read::Cached);
        if let Some(current) = served.filter(|current| !is_older_than(current, self.lease)) {
            self.is_fresh = false;
            return Ok((Some(current), Read::Cached));
        }
        self.is_fresh = true;
        Ok((core.load_known(address, self.lease, self.operation).await?, Read::Fresh))
    }

    async fn decide(&mut self, basis: &Self::Basis) -> Decided<Drafted<T>, R> {
        let (core, address) = (self.core, self.address);
        let Some(current) = basis else {
            return self.attempts.refuse_missing(ShardNotFound { key: address.key }.into());
        };
        if let Some(unknown) = self.overtaken_grant(current) {
            return Err(unknown);
        }
        let gate = current.run_gate(core.fence_floor());
        let context = current.context(self.now, address.tenant, &gate);
        let mut draft = Draft::new(current, core.publisher.collector());
        let answer = match (self.rule)(&context, &mut draft) {
            Ok(RuleDecision::Store(answer)) => answer,
            Ok(RuleDecision::Answer(answer)) => {
                let shard = Arc::clone(current);
                let answer = Drafted { answer, shard, draft: None, session: None };
                return Ok(Decision::Answer(answer));
            }
            Err(refusal) => return self.refuse(current, refusal),
        };
        let prepared =
            core.prepare(address, current, &mut draft, self.operation, self.refuse_limit).await?;
        let (commit, session) = match prepared {
            Prepared::Ready(commit, session) => (commit, session),
            Prepared::Refused(refusal) => return self.refuse(current, refusal),
            Prepared::Moved => {
                core.cache.forget(address);
                return Ok(Decision::Reload);
            }
        };
        let shard = Arc::clone(current);
        Ok(Decision::Commit(commit, Drafted { answer, shard, draft: Some(draft), session }))
    }

    async fn commit(&mut self, driver: &Driver, commit: &Commit) -> Result<Settled, InfraError> {
        let settled = driver.settle(self.operation, commit, Tries::UntilKnown).await;
        if !matches!(settled, Ok(Settled::Stored(_))) {
            self.core.cache.forget(self.address);
        }
        settled
    }

    fn not_stored(&mut self, drafted: Drafted<T>, settled: &Settled) {
        self.core.forget_ended(settled);
        let (Settled::Overtaken(error), Some(draft)) = (settled, drafted.draft) else { return };
        let before = &drafted.shard;
        if let Some((fence, owner)) = draft.granted(before) {
            self.grants.push(Grant { fence, owner, error: error.clone() });
        }
        let logged = newly_logged(&before.record.head.op_log, &draft.record.head.op_log);
        let logged = logged.map(|entry| (entry, draft.events));
        self.attempts.note(drafted.shard, logged, error);
    }

    fn finish(
        &mut self,
        _: Self::Basis,
        Drafted { answer, shard: before, draft, session }: Drafted<T>,
        stored: Option<(&Commit, Revision)>,
    ) -> Done<T> {
        let (core, address, now) = (self.core, self.address, self.now);
        let shard = match (draft, stored) {
            (Some(draft), Some((commit, revision))) => {
                let writes = core.watched_writes(commit);
                core.stored(address, &before, draft, (revision, session), &writes)
            }
            _ => {
                if let Some(events) = self.attempts.take_events(&before.record.head.op_log) {
                    core.publisher.publish(events);
                }
                core.cache.keep(address, Arc::clone(&before));
                before
            }
        };
        Done { answer, now, shard }
    }
}

impl Core {
    /// Updates cache and view after a commit, and publishes the events.
    fn stored(
        &self,
        address: ShardAddress,
        before: &Loaded,
        draft: Draft,
        (revision, session): (Revision, Option<SessionId>),
        writes: &[Write],
    ) -> Arc<Loaded> {
        let Draft { record, events, .. } = draft;
        let shard = Arc::new(effects::after(before, record, revision, session));
        self.cache.keep(address, Arc::clone(&shard));
        self.note_commit(address.tenant, address.key.run, revision, writes);
        self.publisher.publish(events);
        shard
    }
}

impl Draft {
    fn new(current: &Loaded, events: EventCollector) -> Self {
        Self { record: current.record.clone(), events, new_shards: Vec::new(), also: Vec::new() }
    }

    /// Fence and owner of the granted lease, if any.
    fn granted(&self, before: &Loaded) -> Option<(FenceEpoch, WorkerId)> {
        let head = &self.record.head;
        let lease = head.lease.filter(|_| head.fence != before.record.head.fence)?;
        Some((head.fence, lease.owner))
    }
}

/// Whether a record is older than the caller's lease.
fn is_older_than(current: &Loaded, lease: Option<&Lease>) -> bool {
    lease.is_some_and(|lease| lease.fence() > current.record.head.fence)
}
