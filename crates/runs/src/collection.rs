//! Taking away runs that nobody needs any more.
//!
//! A run is marked first, so that nothing can be added to it; then its shards go, some at a time;
//! and the run itself goes last. Whoever is interrupted leaves a marked run behind, with which
//! anybody can go on. Every coordinator does that by itself now and then, for runs that are older
//! than its retention.

use std::sync::{Arc, Weak};
use std::time::Duration;

use shardwright_contracts::{Env, LogicalTime, RunId, TenantId};
use shardwright_coordination::{InfraError, RunStatus};
use shardwright_engine::codec::Record;
use shardwright_engine::fault;
use shardwright_engine::transact::{self, Decided, Decision, Read, Settled, Transaction, Tries};
use shardwright_store::{
    Commit, CommitBuilder, Conflict, Continuation, Expect, Key, Revision, ScanError, ScanFrom,
    ScanPage, Store, StoreRange,
};

use crate::coordinator::{Core, StoredCoordinator};
use crate::records::RunHeadRecord;
use crate::view::RECORDS_PER_PAGE;

const OPERATION: &str = "collect";
/// Most keys that are deleted at a time.
const DELETES: usize = 500;
/// However often somebody wants it, nothing is looked for more often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// A run and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunAddress {
    /// Whose.
    pub tenant: TenantId,
    /// Which.
    pub run: RunId,
}

/// How long runs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long after its end, in milliseconds; for ever, if it is the greatest number.
    pub ended_ms: u64,
    /// How long a run may wait for its shards, in milliseconds; for ever, if it is the greatest
    /// number.
    pub initializing_ms: u64,
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

impl Retention {
    /// Nothing is taken away.
    pub const FOREVER: Self = Self { ended_ms: u64::MAX, initializing_ms: u64::MAX };
}

/// Runs are kept for thirty days after their end, and may wait for their shards for a day.
impl Default for Retention {
    fn default() -> Self {
        Self { ended_ms: 30 * DAY_MS, initializing_ms: DAY_MS }
    }
}

/// What is common to deletions of a run's keys.
pub(crate) struct DeleteRange {
    pub(crate) address: RunAddress,
    /// What was there at this moment is found.
    pub(crate) since: Revision,
    /// What has to hold all the while.
    pub(crate) guard: (Key, Expect),
}

impl StoredCoordinator {
    /// Puts the runs that are active into `out`, in the order of tenants and ids.
    pub async fn list_active_runs_into(&self, out: &mut Vec<RunAddress>) -> Result<(), InfraError> {
        out.clear();
        let runs = self.core.all_runs().await?;
        let active = runs.into_iter().filter(|found| found.status == RunStatus::Active);
        out.extend(active.map(|found| found.address));
        Ok(())
    }

    /// Takes away runs that have waited for their shards for `older_than_ms` or longer, and puts
    /// them into `out`.
    pub async fn gc_stale_initializing_runs_into(
        &self,
        older_than_ms: u64,
        out: &mut Vec<RunAddress>,
    ) -> Result<(), InfraError> {
        let retention = Retention { ended_ms: u64::MAX, initializing_ms: older_than_ms };
        self.collect_into(retention, out).await
    }

    /// Takes away what is not to be kept any longer, and puts it into `out`. A run that cannot be
    /// taken away keeps no other from it; the first failure is told in the end.
    pub async fn collect_into(
        &self,
        retention: Retention,
        out: &mut Vec<RunAddress>,
    ) -> Result<(), InfraError> {
        out.clear();
        let now = self.core.now_at_most().await;
        self.core.cache.forget_expired(now);
        let mut failure = None;
        for found in self.core.all_runs().await? {
            if !found.is_due(now, retention) {
                continue;
            }
            match self.core.collect(&found).await {
                Ok(true) => out.push(found.address),
                Ok(false) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Clears away, now and then, what nobody needs any more, for as long as the coordinator lives.
pub(crate) async fn collect_periodically(core: Weak<Core>, env: Arc<dyn Env>, every: Duration) {
    let every = every.max(SHORTEST_INTERVAL);
    loop {
        // Those who share a store do not all come at once.
        let quarter_ms = u64::try_from(every.as_millis() / 4).unwrap_or(u64::MAX);
        let more = Duration::from_millis(env.random() % quarter_ms.max(1));
        env.sleep(every.saturating_add(more)).await;
        let Some(core) = core.upgrade() else { return };
        let retention = core.config.retention;
        if retention == Retention::FOREVER {
            core.cache.forget_expired(core.now_at_most().await);
        } else {
            // What could not be taken away now is found the next time.
            let _failed = StoredCoordinator { core }.collect_into(retention, &mut Vec::new()).await;
        }
    }
}

/// What collection needs to know of a run.
struct FoundRun {
    address: RunAddress,
    at: Revision,
    status: RunStatus,
    since: LogicalTime,
    collecting: bool,
    stored: RunHeadRecord,
}

impl FoundRun {
    fn is_due(&self, now: LogicalTime, retention: Retention) -> bool {
        let kept_ms = match self.status {
            RunStatus::Initializing => retention.initializing_ms,
            RunStatus::Done | RunStatus::Failed | RunStatus::Cancelled => retention.ended_ms,
            RunStatus::Active => return false,
        };
        kept_ms < u64::MAX && (self.collecting || now.millis_since(self.since) >= kept_ms)
    }
}

impl Core {
    async fn all_runs(&self) -> Result<Vec<FoundRun>, InfraError> {
        let (_, entries) = self.list(&self.keys.runs()).await?;
        let mut runs = Vec::with_capacity(entries.len());
        for (key, found) in entries {
            // One that cannot be read is somebody's to look at, not ours to take away.
            let (Some((tenant, run)), Ok(stored)) =
                (self.keys.parse_run(&key), RunHeadRecord::decode(&found.value))
            else {
                continue;
            };
            runs.push(FoundRun {
                address: RunAddress { tenant, run },
                at: found.revision,
                status: stored.status,
                since: stored.completed_at.unwrap_or(stored.created_at),
                collecting: stored.collecting,
                stored,
            });
        }
        Ok(runs)
    }

    /// Takes a run away; false if it has changed in between.
    async fn collect(&self, found: &FoundRun) -> Result<bool, InfraError> {
        let RunAddress { tenant, run } = found.address;
        let run_key = self.keys.run(tenant, run);
        let at = match found.collecting {
            true => Some(found.at),
            false => self.mark(found).await?,
        };
        let Some(at) = at else { return Ok(false) };
        let guard = (run_key.clone(), Expect::At(at));
        let gate = self.keys.gate(tenant, run);
        let range = DeleteRange { address: found.address, since: at, guard };
        let is_left = |key: &Key| *key != gate;
        for keys in [
            self.keys.shards(tenant, run),
            self.keys.view(tenant, run),
            self.keys.estimates(tenant, run),
        ] {
            if !self.delete_range(&range, &keys, is_left, OPERATION).await? {
                return Ok(false);
            }
        }
        self.delete_last(found.address, at).await
    }

    /// Deletes what is left of a run when its shards are gone; false if the run has changed.
    async fn delete_last(&self, address: RunAddress, at: Revision) -> Result<bool, InfraError> {
        let run_key = self.keys.run(address.tenant, address.run);
        let (is_overtaken, outcome) = (false, None);
        let mut last = LastDelete { core: self, address, at, run_key, is_overtaken, outcome };
        self.driver.transact(&mut last).await
    }

    /// Marks a run, so that nothing can be added to it and nobody sees it any more; none if it has
    /// changed in between.
    async fn mark(&self, found: &FoundRun) -> Result<Option<Revision>, InfraError> {
        let RunAddress { tenant, run } = found.address;
        let (run_key, expect) = (self.keys.run(tenant, run), Expect::At(found.at));
        let marked = RunHeadRecord { collecting: true, ..found.stored.clone() };
        let mark = Commit::builder()
            .expect(run_key.clone(), expect)
            .put(run_key.clone(), marked.encode())
            .delete(self.keys.stage(tenant, run));
        let mark = transact::build(OPERATION, mark)?;
        let refusal = match self.settle_run(found.address, &mark, OPERATION).await? {
            Settled::Stored(at) => return Ok(Some(at)),
            Settled::Conflict(_) | Settled::Overtaken(_) => return Ok(None),
            Settled::Full(error) if found.status.is_terminal() => error,
            settled => return Err(settled.into_failure(OPERATION)),
        };
        // A full store may still take what only deletes, and a run that has ended and has no gate
        // is gone for everybody. How many shards it had reserved stays with it until there is room
        // again.
        let mark = Commit::builder()
            .guard(run_key, expect)
            .delete(self.keys.gate(tenant, run))
            .delete(self.keys.stage(tenant, run));
        let mark = transact::build(OPERATION, mark)?;
        match self.settle_run(found.address, &mark, OPERATION).await {
            Ok(Settled::Stored(_)) => Ok(Some(found.at)),
            Ok(Settled::Conflict(_) | Settled::Overtaken(_)) => Ok(None),
            Ok(Settled::SessionGone(_) | Settled::Full(_)) | Err(_) => Err(refusal),
        }
    }

    async fn revision_of(&self, key: &Key) -> Result<Option<Revision>, InfraError> {
        let loaded = self.store.load(std::slice::from_ref(key)).await;
        let snapshot = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        Ok(snapshot.values.into_iter().next().flatten().map(|found| found.revision))
    }

    /// Sends a commit about a run until its outcome is known, and takes note of what is stored.
    pub(crate) async fn settle_run(
        &self,
        RunAddress { tenant, run }: RunAddress,
        commit: &Commit,
        operation: &'static str,
    ) -> Result<Settled, InfraError> {
        let settled = self.driver.settle(operation, commit, Tries::UntilKnown).await?;
        if let Settled::Stored(revision) = settled {
            self.note_commit(tenant, run, revision, commit.writes());
        }
        Ok(settled)
    }

    /// Stores a commit about a run that may be applied twice; false if its guard does not hold.
    pub(crate) async fn store_under_guard(
        &self,
        address: RunAddress,
        commit: CommitBuilder,
        operation: &'static str,
    ) -> Result<bool, InfraError> {
        let commit = transact::build(operation, commit)?;
        match self.settle_run(address, &commit, operation).await? {
            Settled::Stored(_) => Ok(true),
            Settled::Conflict(_) | Settled::Overtaken(_) => Ok(false),
            settled => Err(settled.into_failure(operation)),
        }
    }

    /// Deletes those keys of a run that are in a range and left to delete, for as long as the guard
    /// holds; false if it does not any more. What is under them is never all in memory.
    pub(crate) async fn delete_range(
        &self,
        DeleteRange { address, since, guard }: &DeleteRange,
        keys: &StoreRange,
        is_left: impl Fn(&Key) -> bool + Send + Sync,
        operation: &'static str,
    ) -> Result<bool, InfraError> {
        let most = DELETES.min(self.store.limits().writes).max(1);
        let mut page = self.page_since(keys, *since, operation).await?;
        loop {
            let left: Vec<Key> =
                page.entries.into_iter().map(|(key, _)| key).filter(|key| is_left(key)).collect();
            for chunk in left.chunks(most) {
                let mut commit = Commit::builder().guard(guard.0.clone(), guard.1);
                for key in chunk {
                    commit = commit.delete(key.clone());
                }
                if !self.store_under_guard(*address, commit, operation).await? {
                    return Ok(false);
                }
            }
            let Some(next) = page.next else { return Ok(true) };
            page = self.page_after(next, keys, *since, operation).await?;
        }
    }

    /// The next page of a range, at the moment of those before. A store holds on to few moments, so
    /// a page of another one is asked for only if that is gone.
    async fn page_after(
        &self,
        next: Continuation,
        keys: &StoreRange,
        since: Revision,
        operation: &'static str,
    ) -> Result<ScanPage, InfraError> {
        let rest = after(&next.after, keys);
        let page = ScanFrom { after: Some(next), ..ScanFrom::first(RECORDS_PER_PAGE) };
        match self.store.scan(keys, page).await {
            Err(ScanError::Moved) => self.page_since(&rest, since, operation).await,
            page => page.map_err(|error| fault::scan(operation, &error)),
        }
    }

    /// The first page of a range as it was at a revision or later.
    async fn page_since(
        &self,
        range: &StoreRange,
        at: Revision,
        operation: &'static str,
    ) -> Result<ScanPage, InfraError> {
        let read = || async {
            let page = self.store.scan(range, ScanFrom::first(RECORDS_PER_PAGE)).await;
            let page = page.map_err(|error| fault::scan(operation, &error))?;
            Ok((page.revision >= at).then_some(page))
        };
        self.driver.read_until(operation, read).await
    }
}

/// What is deleted last of a run: its record, its name and its room.
struct LastDelete<'c> {
    core: &'c Core,
    address: RunAddress,
    /// The revision of the run's record, which carries the mark.
    at: Revision,
    run_key: Key,
    is_overtaken: bool,
    /// Known once the run's record is not as it was marked.
    outcome: Option<bool>,
}

impl Transaction for LastDelete<'_> {
    /// The commit: it follows from what is read.
    type Basis = Option<CommitBuilder>;
    type Answer = bool;
    type Output = bool;
    type Error = InfraError;

    fn operation(&self) -> &'static str {
        OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        if self.is_overtaken && self.core.revision_of(&self.run_key).await? != Some(self.at) {
            // Nothing but a collection changes a run that is marked.
            self.outcome = Some(true);
        }
        if self.outcome.is_some() {
            return Ok((None, read));
        }
        let (RunAddress { tenant, run }, keys) = (self.address, &self.core.keys);
        let last = Commit::builder()
            .expect(self.run_key.clone(), Expect::At(self.at))
            .delete(self.run_key.clone())
            .delete(keys.manifest(tenant, run))
            .delete(keys.watermark(tenant, run))
            .delete(keys.purpose(tenant, run))
            .delete(keys.gate(tenant, run));
        let last = match self.core.name_of(tenant, run, self.at).await? {
            Some((name, expect)) => last.expect(name.clone(), expect).delete(name),
            None => last,
        };
        Ok((Some(self.core.return_room(tenant, run, last, OPERATION).await?), read))
    }

    async fn decide(&mut self, commit: &Self::Basis) -> Decided<bool, InfraError> {
        Ok(match (self.outcome, commit) {
            (None, Some(commit)) => Decision::Commit(commit.clone(), true),
            (outcome, _) => Decision::Answer(outcome.unwrap_or_default()),
        })
    }

    fn not_stored(&mut self, _: bool, settled: &Settled) {
        match settled {
            // Other processes reserve room, give some back, or give the name away.
            Settled::Conflict(conflict) if is_at(conflict, &self.run_key, self.at) => {}
            Settled::Overtaken(_) => self.is_overtaken = true,
            _ => self.outcome = Some(false),
        }
    }

    fn finish(
        &mut self,
        _: Self::Basis,
        is_gone: bool,
        stored: Option<(&Commit, Revision)>,
    ) -> bool {
        if let Some((commit, revision)) = stored {
            let RunAddress { tenant, run } = self.address;
            self.core.note_commit(tenant, run, revision, commit.writes());
        }
        is_gone
    }
}

/// Whether a refused commit has found a key as it was at a revision.
fn is_at(conflict: &Conflict, key: &Key, at: Revision) -> bool {
    let found = conflict.found.iter().find(|(found, _)| found == key);
    let found = found.and_then(|(_, found)| found.as_ref());
    found.is_some_and(|found| found.revision == at)
}

/// The part of a range that comes after a key.
fn after(key: &Key, range: &StoreRange) -> StoreRange {
    let mut next = key.as_bytes().to_vec();
    next.push(0);
    StoreRange::new(Key::from(next), range.end().cloned())
}
