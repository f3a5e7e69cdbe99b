//! Load, apply, commit, publish: the one loop through which everything is done to a shard.

use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{Env, FenceEpoch, LogicalTime};
use shardwright_coordination::error::reason::{ShardNotFound, SplitInvalid};
use shardwright_coordination::{
    AcquireError, CheckpointError, CompleteError, Context, EventCollector, InfraError, Lease,
    OpLogEntry, ParkError, ReleaseError, RenewError, ShardRecord, SplitError, UnparkError,
};
use shardwright_store::{Commit, CommitError, Revision, SessionId, Store, Write};

use crate::coordinator::Core;
use crate::effects::{self, Effects};
use crate::fault::{self, ShardFault};
use crate::planted::{self, Defect};
use crate::quota::{NoRoom, Room};
use crate::shard::{Basis, Loaded, Place};
use crate::unknown::{is_logged, newly_logged};

/// How often a record that is older than the lease shown is read again.
const STALE_READS: u32 = 3;

/// A shard while an operation is applied to it.
pub(crate) struct Draft {
    pub(crate) record: ShardRecord,
    pub(crate) events: EventCollector,
    /// Shards that come into being with the operation.
    pub(crate) newborn: Vec<ShardRecord>,
    /// What else is to be written.
    pub(crate) also: Vec<Write>,
}

/// What an operation came to.
pub(crate) enum Verdict<T> {
    /// The draft is to be stored.
    Store(T),
    /// There is nothing to store.
    Answer(T),
}

/// An operation that was done, or had been done before.
pub(crate) struct Done<T> {
    pub(crate) answer: T,
    pub(crate) now: LogicalTime,
    /// The shard as it is stored now.
    pub(crate) shard: Arc<Loaded>,
}

/// Why an operation on a shard is refused.
pub(crate) trait Refusal: From<ShardNotFound> + From<InfraError> + Send {
    /// There is no room for new shards.
    fn no_room(reason: SplitInvalid) -> Self;
}

macro_rules! makes_no_shards {
    ($($error:ty),+ $(,)?) => {$(
        impl Refusal for $error {
            fn no_room(reason: SplitInvalid) -> Self {
                // Only splits make shards, so only they can lack room for them.
                fault::corrupt("shard.insert", reason.to_string()).into()
            }
        }
    )+};
}

makes_no_shards! {
    AcquireError, RenewError, CheckpointError, CompleteError, ParkError, ReleaseError, UnparkError,
}

impl Refusal for SplitError {
    fn no_room(reason: SplitInvalid) -> Self {
        reason.into()
    }
}

/// An attempt whose outcome is not known, with all that is needed if it turns out well.
struct Attempt<T> {
    basis: Basis,
    /// When its basis was so.
    as_of: Revision,
    error: InfraError,
    draft: Draft,
    /// The fence that it grants, if it does.
    fence: Option<FenceEpoch>,
    session: Option<SessionId>,
    /// What is watched of what it writes.
    writes: Vec<Write>,
    /// By what it is known in the op log, if it has an id.
    logged: Option<OpLogEntry>,
    answer: T,
}

impl<T> Attempt<T> {
    fn new(
        before: &Loaded,
        draft: Draft,
        answer: T,
        error: InfraError,
        session: Option<SessionId>,
        writes: Vec<Write>,
    ) -> Self {
        let Loaded { basis, as_of, .. } = *before;
        let fence = draft.granted(before);
        let logged = newly_logged(&before.record.head.op_log, &draft.record.head.op_log);
        Self { basis, as_of, error, draft, fence, session, writes, logged, answer }
    }
}

/// What a look at the shard tells about attempts whose outcomes were not known.
enum Trace<T> {
    /// This one is stored.
    Stored(Box<Attempt<T>>),
    /// One that grants a lease was stored or may have been, and the lease is over already. It has
    /// no id by which anybody could tell, so it is neither refused nor done a second time.
    Overtaken(InfraError),
    /// None is stored.
    Nothing,
}

/// The attempts of one call whose outcomes are not known. As long as there are any, no failure may
/// be told as if nothing had been done.
struct Unknown<T>(Vec<Attempt<T>>);

impl<T> Unknown<T> {
    /// What to tell of a failure.
    fn or(&self, error: InfraError) -> InfraError {
        self.0.last().map_or(error, |attempt| attempt.error.clone())
    }

    /// What to tell of a shard that is not there. An attempt may have been applied to it before.
    fn or_not_found<R: Refusal>(&self, place: Place) -> R {
        let attempt = self.0.last().map(|attempt| attempt.error.clone());
        attempt.map_or_else(|| ShardNotFound { key: place.key }.into(), R::from)
    }

    /// Whether one of them may still be applied: as long as nothing has changed that it was based
    /// on, nobody can know. What is older than it says nothing about it.
    fn may_come(&self, current: &Loaded) -> Option<InfraError> {
        let may_come = self
            .0
            .iter()
            .find(|attempt| attempt.basis == current.basis || current.as_of < attempt.as_of);
        may_come.map(|attempt| attempt.error.clone())
    }

    /// The events of the one that a replay has found in the op log, unless that was another call's.
    fn take_logged(&mut self, current: &ShardRecord) -> Option<EventCollector> {
        let is_there = |attempt: &Attempt<T>| {
            attempt.logged.is_some_and(|logged| is_logged(&current.head.op_log, &logged))
        };
        let place = self.0.iter().position(is_there)?;
        Some(self.0.swap_remove(place).draft.events)
    }

    /// What has become of them, going by the shard as it is stored now.
    fn trace_in(&mut self, current: &Loaded) -> Trace<T> {
        let is_stored = |attempt: &Attempt<T>| {
            let bound = current.binding().and_then(|bound| bound.session);
            current.record == attempt.draft.record
                && (attempt.session.is_none() || attempt.session == bound)
        };
        if let Some(place) = self.0.iter().position(is_stored) {
            return Trace::Stored(Box::new(self.0.swap_remove(place)));
        }
        let head = &current.record.head;
        let is_overtaken = |attempt: &&Attempt<T>| {
            let was_granted = head.lease == attempt.draft.record.head.lease;
            attempt
                .fence
                .is_some_and(|fence| head.fence > fence || (head.fence == fence && was_granted))
        };
        let overtaken = self.0.iter().find(is_overtaken);
        overtaken.map_or(Trace::Nothing, |attempt| Trace::Overtaken(attempt.error.clone()))
    }
}

impl Core {
    /// Does something to a shard, however often others come between, up to a bound.
    pub(crate) async fn on_shard<T: Send, R: Refusal>(
        self: &Arc<Self>,
        place: Place,
        lease: Option<&Lease>,
        operation: &'static str,
        mut apply: impl FnMut(&Context<'_>, &mut Draft) -> Result<Verdict<T>, R> + Send,
    ) -> Result<Done<T>, R> {
        let mut unknown = Unknown(Vec::new());
        let mut remembered = self.served.get(place);
        let (mut conflicts, mut stale_reads) = (0, 0);
        loop {
            let now = self.now().await.map_err(|error| unknown.or(error))?;
            let is_fresh = remembered.is_none();
            let current = match remembered.take() {
                Some(current) => current,
                None => self.load_again::<T, R>(place, lease, &unknown, operation).await?,
            };
            match unknown.trace_in(&current) {
                Trace::Stored(attempt) => {
                    return Ok(self.found_applied(place, current, *attempt, now));
                }
                Trace::Overtaken(error) => return Err(error.into()),
                Trace::Nothing => {}
            }
            if is_older_than(&current, lease) && (!is_fresh || stale_reads < STALE_READS) {
                stale_reads += 1;
                self.back_off(stale_reads).await;
                continue;
            }
            let gate = current.run_gate(self.fence_floor());
            let context = current.context(now, place.tenant, &gate);
            let mut draft = Draft::new(&current, self.publisher.collector());
            let answer = match apply(&context, &mut draft) {
                // What is remembered may be out of date: decide again on what is stored.
                Err(_) if !is_fresh && !planted::is_active(Defect::CachedRefusalTold) => continue,
                Err(refusal) => return Err(self.refuse(place, &current, &unknown, refusal)),
                Ok(Verdict::Answer(answer)) => {
                    if let Some(events) = unknown.take_logged(&current.record) {
                        self.publisher.publish(events);
                    }
                    self.served.keep(place, Arc::clone(&current));
                    return Ok(Done { answer, now, shard: current });
                }
                Ok(Verdict::Store(answer)) => answer,
            };
            let tried = self.store_draft(place, &current, &mut draft, operation).await;
            match tried.map_err(|error| unknown.or(error))? {
                Tried::Stored(stored) => {
                    let shard = self.stored(place, &current, draft, &stored);
                    return Ok(Done { answer, now, shard });
                }
                Tried::Again => {}
                Tried::Unknown { error, session, writes } => {
                    let attempt = Attempt::new(&current, draft, answer, error, session, writes);
                    unknown.0.push(attempt);
                }
                Tried::Refused(_) if !is_fresh => continue,
                Tried::Refused(reason) => {
                    return Err(self.refuse(place, &current, &unknown, R::no_room(reason)));
                }
            }
            conflicts += 1;
            if conflicts > self.config.conflict_retries {
                return Err(unknown.or(fault::contention(operation)).into());
            }
            self.back_off(conflicts).await;
        }
    }

    /// Reads a shard to decide on, after attempts of which some may have been stored.
    async fn load_again<T: Send, R: Refusal>(
        &self,
        place: Place,
        lease: Option<&Lease>,
        unknown: &Unknown<T>,
        operation: &'static str,
    ) -> Result<Arc<Loaded>, R> {
        let loaded = self.load_known(place, lease, operation).await;
        match loaded.map_err(|error| unknown.or(error))? {
            Some(loaded) => Ok(Arc::new(loaded)),
            None => Err(unknown.or_not_found(place)),
        }
    }

    /// Reads a shard. Whoever shows a lease has seen it, so a read without it may be an old one.
    async fn load_known(
        &self,
        place: Place,
        lease: Option<&Lease>,
        operation: &'static str,
    ) -> Result<Option<Loaded>, InfraError> {
        let mut stale_reads = 0;
        loop {
            match self.load_shard(place, operation).await {
                Ok(None) if lease.is_some() && stale_reads < STALE_READS => {
                    stale_reads += 1;
                    self.back_off(stale_reads).await;
                }
                Ok(found) => return Ok(found),
                Err(ShardFault::Damaged(error)) => {
                    self.served.note_damaged(place);
                    return Err(error);
                }
                Err(ShardFault::Other(error)) => return Err(error),
            }
        }
    }

    /// Takes note of an attempt that turned out to be stored, and tells it.
    fn found_applied<T>(
        &self,
        place: Place,
        current: Arc<Loaded>,
        attempt: Attempt<T>,
        now: LogicalTime,
    ) -> Done<T> {
        let Attempt { draft, writes, answer, .. } = attempt;
        self.served.keep(place, Arc::clone(&current));
        self.note_commit(place.tenant, place.key.run, current.basis.progress, &writes);
        self.publisher.publish(draft.events);
        Done { answer, now, shard: current }
    }

    /// A refusal, unless an earlier attempt of the same call may still be applied.
    fn refuse<T, R: Refusal>(
        &self,
        place: Place,
        current: &Loaded,
        unknown: &Unknown<T>,
        refusal: R,
    ) -> R {
        self.served.forget(place);
        unknown.may_come(current).map_or(refusal, R::from)
    }

    /// Stores a draft, if nothing has changed since.
    async fn store_draft(
        self: &Arc<Self>,
        place: Place,
        current: &Loaded,
        draft: &mut Draft,
        operation: &'static str,
    ) -> Result<Tried, InfraError> {
        let (commit, session) = match self.prepare(place, current, draft, operation).await? {
            Prepared::Ready(commit, session) => (commit, session),
            Prepared::Refused(reason) => return Ok(Tried::Refused(reason)),
            Prepared::Moved => {
                self.served.forget(place);
                return Ok(Tried::Again);
            }
        };
        let writes = self.watched_writes(&commit);
        if planted::is_active(Defect::ToldBeforeStored) {
            self.publisher.publish(std::mem::take(&mut draft.events));
        }
        let error = match self.store.commit(commit).await {
            Ok(revision) => return Ok(Tried::Stored(Stored { revision, session, writes })),
            Err(error) => error,
        };
        self.served.forget(place);
        let failure = fault::commit(operation, &error);
        match error {
            CommitError::Conflict(_) => Ok(Tried::Again),
            CommitError::SessionGone(ended) => {
                self.sessions.forget(ended);
                Ok(Tried::Again)
            }
            CommitError::Unknown(_) if planted::is_active(Defect::UnknownToldAsDone) => {
                Ok(Tried::Stored(Stored { revision: current.basis.progress, session, writes }))
            }
            CommitError::Unknown(_) if planted::is_active(Defect::UnknownToldAsNotApplied) => {
                Err(fault::contention(operation))
            }
            CommitError::Unknown(_) => Ok(Tried::Unknown { error: failure, session, writes }),
            CommitError::TooLarge(_) | CommitError::NotApplied(_) | CommitError::Corrupt(_) => {
                Err(failure)
            }
        }
    }

    /// Puts together what is to be stored, or tells why it cannot be.
    async fn prepare(
        self: &Arc<Self>,
        place: Place,
        current: &Loaded,
        draft: &mut Draft,
        operation: &'static str,
    ) -> Result<Prepared, InfraError> {
        let effects = Effects::between(&current.record, &draft.record);
        let session = if effects.grants { self.session().await? } else { None };
        if effects.answers {
            let fence = current.record.head.fence;
            draft.also.push(self.answer_request(place, fence, operation).await?);
        }
        let is_uncounted = planted::is_active(Defect::SplitUncounted);
        let room = if draft.newborn.is_empty() || is_uncounted {
            Room::default()
        } else {
            match self.room_for_children(place, current.basis, &draft.newborn, operation).await? {
                Ok(room) => room,
                Err(NoRoom::Moved) => return Ok(Prepared::Moved),
                Err(NoRoom::Refused(reason)) => return Ok(Prepared::Refused(reason)),
            }
        };
        let commit = effects::commit(&self.keys, place, current, draft, &effects, session, room);
        let commit = commit.map_err(|error| fault::corrupt(operation, error.to_string()))?;
        if let Err(exceeded) = commit.check(&self.store.limits()) {
            let children = draft.newborn.len();
            if children == 0 {
                return Err(fault::commit(operation, &CommitError::TooLarge(exceeded)));
            }
            let max = children.saturating_mul(exceeded.limit) / exceeded.actual.max(1);
            let reason = SplitInvalid::BackendChildLimitExceeded { children, max };
            return Ok(Prepared::Refused(reason));
        }
        Ok(Prepared::Ready(commit, session))
    }

    /// Takes note of what is stored now, and tells it.
    fn stored(
        &self,
        place: Place,
        before: &Loaded,
        draft: Draft,
        Stored { revision, session, writes }: &Stored,
    ) -> Arc<Loaded> {
        let Draft { record, events, .. } = draft;
        let shard = Arc::new(effects::after(before, record, *revision, *session));
        self.served.keep(place, Arc::clone(&shard));
        self.note_commit(place.tenant, place.key.run, *revision, writes);
        if planted::is_active(Defect::ToldTwice) {
            self.publisher.publish(events.clone());
        }
        self.publisher.publish(events);
        shard
    }

    pub(crate) async fn back_off(&self, times: u32) {
        back_off(&self.env, times).await;
    }
}

/// Waits a little, longer each time, and not as long as the others.
pub(crate) async fn back_off(env: &dyn Env, times: u32) {
    if times > 1 {
        let most = 1_u64 << times.min(8);
        env.sleep(Duration::from_millis(1 + env.random() % most)).await;
    }
}

/// What came of trying to store a draft.
enum Tried {
    Stored(Stored),
    /// Nothing; decide anew.
    Again,
    /// It may have been stored, or may still be.
    Unknown {
        error: InfraError,
        session: Option<SessionId>,
        writes: Vec<Write>,
    },
    Refused(SplitInvalid),
}

/// A draft that is stored.
struct Stored {
    revision: Revision,
    session: Option<SessionId>,
    /// What is watched of what it wrote.
    writes: Vec<Write>,
}

enum Prepared {
    Ready(Commit, Option<SessionId>),
    /// Something has changed: decide anew.
    Moved,
    Refused(SplitInvalid),
}

impl Draft {
    fn new(current: &Loaded, events: EventCollector) -> Self {
        Self { record: current.record.clone(), events, newborn: Vec::new(), also: Vec::new() }
    }

    /// The fence of the lease that it grants, if it grants one.
    fn granted(&self, before: &Loaded) -> Option<FenceEpoch> {
        let head = &self.record.head;
        let is_granted = head.lease.is_some() && head.fence != before.record.head.fence;
        is_granted.then_some(head.fence)
    }
}

/// Whoever shows a lease that is newer than the record has seen more than we have.
fn is_older_than(current: &Loaded, lease: Option<&Lease>) -> bool {
    lease.is_some_and(|lease| lease.fence() > current.record.head.fence)
}
