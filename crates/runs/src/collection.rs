//! Deleting runs after their retention.
//!
//! A run is marked first, so that nothing can be added to it. Then its shards are deleted, some at
//! a time, and the run's record last. An interrupted collection leaves a marked run, and any
//! process can continue. Every coordinator collects periodically, according to its retention.

use std::sync::{Arc, Weak};
use std::time::Duration;

use shardwright_contracts::{Env, LogicalTime, RunId, TenantId};
use shardwright_coordination::{InfraError, RunStatus};
use shardwright_engine::codec::Record;
use shardwright_engine::transact::{self, Decided, Decision, Read, Settled, Transaction, Tries};
use shardwright_engine::{Operation, operation};
use shardwright_engine::{fault, listing};
use shardwright_store::{
    Commit, CommitBuilder, Conflict, Continuation, Expect, Key, Revision, ScanError, ScanFrom,
    ScanPage, Store, StoreRange,
};

use crate::coordinator::{Core, StoredCoordinator};
use crate::reading::RECORDS_PER_PAGE;
use crate::records::RunHeadRecord;

const OPERATION: Operation = operation!("collect");
/// Most keys deleted per commit.
const DELETES: usize = 500;
/// Shortest interval between collections.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Tenant and id of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunAddress {
    /// The tenant.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
}

/// Retention of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Time after its end, in milliseconds; `u64::MAX` for ever.
    pub ended_ms: u64,
    /// Time that a run may wait for its shards, in milliseconds; `u64::MAX` for ever.
    pub initializing_ms: u64,
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

impl Retention {
    /// Deletes nothing.
    pub const FOREVER: Self = Self { ended_ms: u64::MAX, initializing_ms: u64::MAX };
}

/// Thirty days after the end of a run, and a day for a run without shards.
impl Default for Retention {
    fn default() -> Self {
        Self { ended_ms: 30 * DAY_MS, initializing_ms: DAY_MS }
    }
}

/// Parameters of a deletion of a run's keys.
pub(crate) struct DeleteRange {
    pub(crate) address: RunAddress,
    /// Keys that existed at this revision are found.
    pub(crate) since: Revision,
    /// Expectation of every commit.
    pub(crate) guard: (Key, Expect),
}

impl StoredCoordinator {
    /// Lists the active runs into `out`, by tenant and id.
    pub async fn list_active_runs_into(&self, out: &mut Vec<RunAddress>) -> Result<(), InfraError> {
        out.clear();
        let runs = self.core.all_runs(operation!("list_active_runs")).await?;
        let active = runs.into_iter().filter(|found| found.status == RunStatus::Active);
        out.extend(active.map(|found| found.address));
        Ok(())
    }

    /// Deletes runs that have waited for their shards for `older_than_ms` or longer, and lists them
    /// into `out`.
    pub async fn gc_stale_initializing_runs_into(
        &self,
        older_than_ms: u64,
        out: &mut Vec<RunAddress>,
    ) -> Result<(), InfraError> {
        let retention = Retention { ended_ms: u64::MAX, initializing_ms: older_than_ms };
        self.collect_into(retention, out).await
    }

    /// Deletes runs past their retention, and lists them into `out`. A failed deletion does not
    /// stop the others. Returns the first failure.
    pub async fn collect_into(
        &self,
        retention: Retention,
        out: &mut Vec<RunAddress>,
    ) -> Result<(), InfraError> {
        out.clear();
        let now = self.core.now_at_most().await;
        self.core.cache.forget_expired(now);
        let mut failure = None;
        for found in self.core.all_runs(OPERATION).await? {
            if !found.is_due(now, retention) {
                if found.status == RunStatus::Cancelled {
                    // The process that cancelled it may have died before it removed its shards.
                    self.remove_registration(found.address, found.at, OPERATION).await;
                }
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

/// Collects periodically until the coordinator is dropped.
pub(crate) async fn collect_periodically(core: Weak<Core>, env: Arc<dyn Env>, every: Duration) {
    let every = every.max(SHORTEST_INTERVAL);
    loop {
        // Jitter spreads the coordinators that share a store.
        let quarter_ms = u64::try_from(every.as_millis() / 4).unwrap_or(u64::MAX);
        let more = Duration::from_millis(env.random() % quarter_ms.max(1));
        env.sleep(every.saturating_add(more)).await;
        let Some(core) = core.upgrade() else { return };
        let retention = core.config.retention;
        if retention == Retention::FOREVER {
            core.cache.forget_expired(core.now_at_most().await);
        } else {
            // A failed deletion is repeated by the next collection.
            let _failed = StoredCoordinator { core }.collect_into(retention, &mut Vec::new()).await;
        }
    }
}

/// State of a run that collection needs.
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
    async fn all_runs(&self, operation: Operation) -> Result<Vec<FoundRun>, InfraError> {
        let (_, entries) = self.list(&self.keys.runs(), operation).await?;
        let mut runs = Vec::with_capacity(entries.len());
        for (key, found) in entries {
            // A record that cannot be read is left for an operator.
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

    /// Deletes a run; false if it has changed in between.
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

    /// Deletes the rest of a run after its shards; false if the run has changed.
    async fn delete_last(&self, address: RunAddress, at: Revision) -> Result<bool, InfraError> {
        let run_key = self.keys.run(address.tenant, address.run);
        let (is_overtaken, outcome) = (false, None);
        let mut last = LastDelete { core: self, address, at, run_key, is_overtaken, outcome };
        self.driver.transact(&mut last).await
    }

    /// Marks a run, so that nothing can be added to it and reads no longer find it; none if it has
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
        // A full store may still accept deletes, and reads do not find an ended run without a gate.
        // The run's reservation remains until writes succeed again.
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

    /// Sends a commit of a run until its outcome is known, and updates the view.
    pub(crate) async fn settle_run(
        &self,
        RunAddress { tenant, run }: RunAddress,
        commit: &Commit,
        operation: Operation,
    ) -> Result<Settled, InfraError> {
        let settled = self.driver.settle(operation, commit, Tries::UntilKnown).await?;
        if let Settled::Stored(revision) = settled {
            self.note_commit(tenant, run, revision, commit.writes());
        }
        Ok(settled)
    }

    /// Stores a commit of a run that is harmless to repeat; false if its guard does not hold.
    pub(crate) async fn store_under_guard(
        &self,
        address: RunAddress,
        commit: CommitBuilder,
        operation: Operation,
    ) -> Result<bool, InfraError> {
        let commit = transact::build(operation, commit)?;
        match self.settle_run(address, &commit, operation).await? {
            Settled::Stored(_) => Ok(true),
            Settled::Conflict(_) | Settled::Overtaken(_) => Ok(false),
            settled => Err(settled.into_failure(operation)),
        }
    }

    /// Deletes the keys of a range that `is_left` selects, while the guard holds; false if it no
    /// longer holds. Reads page by page, so that memory stays bounded.
    pub(crate) async fn delete_range(
        &self,
        DeleteRange { address, since, guard }: &DeleteRange,
        keys: &StoreRange,
        is_left: impl Fn(&Key) -> bool + Send + Sync,
        operation: Operation,
    ) -> Result<bool, InfraError> {
        let most = DELETES.min(self.store.limits().writes).max(1);
        let first = listing::page_since(&self.driver, keys, RECORDS_PER_PAGE, *since, operation);
        let mut page = first.await?;
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

    /// The next page of a range, at the revision of the previous pages. A store keeps few revisions
    /// for scans, so a newer one is used only if that one is gone.
    async fn page_after(
        &self,
        next: Continuation,
        keys: &StoreRange,
        since: Revision,
        operation: Operation,
    ) -> Result<ScanPage, InfraError> {
        let rest = after(&next.after, keys);
        let page = ScanFrom { after: Some(next), ..ScanFrom::first(RECORDS_PER_PAGE) };
        match self.store.scan(keys, page).await {
            Err(ScanError::Moved) => {
                listing::page_since(&self.driver, &rest, RECORDS_PER_PAGE, since, operation).await
            }
            page => page.map_err(|error| fault::scan(operation, &error)),
        }
    }
}

/// The last commit of a deletion: the run's record, name and reservation.
struct LastDelete<'c> {
    core: &'c Core,
    address: RunAddress,
    /// Revision of the marked record.
    at: Revision,
    run_key: Key,
    /// Whether an attempt had an unknown outcome.
    is_overtaken: bool,
    /// Whether the run is deleted, once its marked record has changed.
    outcome: Option<bool>,
}

impl Transaction for LastDelete<'_> {
    /// The commit, which follows from the reads.
    type Basis = Option<CommitBuilder>;
    type Answer = bool;
    type Output = bool;
    type Error = InfraError;

    fn operation(&self) -> Operation {
        OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        if self.is_overtaken {
            let (found, as_of) = self.core.load_one(&self.run_key, OPERATION).await?;
            self.outcome = match found {
                None if as_of >= self.at => Some(true),
                // Another collection marked a run that a full store had left unmarked.
                Some(found) if found.revision > self.at => Some(false),
                // The next commit decides, because the read may be stale.
                None | Some(_) => None,
            };
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
            .delete(keys.label(tenant, run))
            .delete(keys.gate(tenant, run));
        let last = match self.core.name_of(tenant, run, self.at, OPERATION).await? {
            Some((name, expect)) => last.expect(name.clone(), expect).delete(name),
            None => last,
        };
        Ok((Some(self.core.return_shards(tenant, run, last, OPERATION).await?), read))
    }

    async fn decide(&mut self, commit: &Self::Basis) -> Decided<bool, InfraError> {
        Ok(match (self.outcome, commit) {
            (None, Some(commit)) => Decision::Commit(commit.clone(), true),
            (outcome, _) => Decision::Answer(outcome.unwrap_or_default()),
        })
    }

    fn not_stored(&mut self, _: bool, settled: &Settled) {
        match settled {
            Settled::Conflict(conflict) => match found_at(conflict, &self.run_key) {
                // Another process reserved shards, returned some, or reassigned the name.
                Some(at) if at == self.at => {}
                Some(_) => self.outcome = Some(false),
                None => self.outcome = Some(self.is_overtaken),
            },
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
        self.core.note_stored(self.address.tenant, self.address.run, stored);
        is_gone
    }
}

/// Revision at which a conflict has found a key; none if the key is absent.
fn found_at(conflict: &Conflict, key: &Key) -> Option<Revision> {
    let (_, found) = conflict.found.iter().find(|(found, _)| found == key)?;
    found.as_ref().map(|found| found.revision)
}

/// The part of a range that comes after a key.
fn after(key: &Key, range: &StoreRange) -> StoreRange {
    let mut next = key.as_bytes().to_vec();
    next.push(0);
    StoreRange::new(Key::from(next), range.end().cloned())
}
