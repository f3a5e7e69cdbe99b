//! Taking away runs that nobody needs any more.
//!
//! A run is marked first, so that nothing can be added to it; then its shards go, some at a time;
//! and the run itself goes last. Whoever is interrupted leaves a marked run behind, with which
//! anybody can go on.

use shardwright_contracts::{Env, LogicalTime, RunId, TenantId};
use shardwright_coordination::{InfraError, RunStatus};
use shardwright_store::{Commit, CommitError, Expect, Key, Revision, Store};

use crate::codec::{Record, Run};
use crate::coordinator::{Core, StoredCoordinator};
use crate::fault;
use crate::planted::{self, Defect};

const OPERATION: &str = "collect";
/// Most keys that are deleted at a time.
const DELETES: usize = 500;

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
    /// How long after its end, in milliseconds.
    pub ended_ms: u64,
    /// How long a run may wait for its shards, in milliseconds.
    pub initializing_ms: u64,
}

impl<S: Store, E: Env> StoredCoordinator<S, E> {
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
        let now = self.core.now().await?;
        self.core.served.forget_expired(now);
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

/// What collection needs to know of a run.
struct FoundRun {
    address: RunAddress,
    at: Revision,
    status: RunStatus,
    since: LogicalTime,
    collecting: bool,
    stored: Run,
}

impl FoundRun {
    fn is_due(&self, now: LogicalTime, retention: Retention) -> bool {
        let kept_ms = match self.status {
            RunStatus::Initializing => retention.initializing_ms,
            RunStatus::Done | RunStatus::Failed | RunStatus::Cancelled => retention.ended_ms,
            RunStatus::Active if planted::is_active(Defect::ActiveCollected) => retention.ended_ms,
            RunStatus::Active => return false,
        };
        self.collecting || (kept_ms < u64::MAX && now.millis_since(self.since) >= kept_ms)
    }
}

impl<S: Store, E: Env> Core<S, E> {
    async fn all_runs(&self) -> Result<Vec<FoundRun>, InfraError> {
        let (_, entries) = self.list(&self.keys.runs()).await?;
        let mut runs = Vec::with_capacity(entries.len());
        for (key, found) in entries {
            // One that cannot be read is somebody's to look at, not ours to take away.
            let (Some((tenant, run)), Ok(stored)) =
                (self.keys.parse_run(&key), Run::decode(&found.value))
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
        let at = if found.collecting {
            found.at
        } else {
            let marked = Run { collecting: true, ..found.stored.clone() };
            let mark = Commit::builder()
                .expect(run_key.clone(), Expect::At(found.at))
                .put(run_key.clone(), marked.encode())
                .delete(self.keys.stage(tenant, run))
                .build()
                .map_err(|error| fault::corrupt(OPERATION, error.to_string()))?;
            match self.store.commit(mark).await {
                Ok(at) => at,
                Err(CommitError::Conflict(_)) => return Ok(false),
                Err(error) => return Err(fault::commit(OPERATION, &error)),
            }
        };
        let guard = (run_key.clone(), Expect::At(at));
        let gate = self.keys.gate(tenant, run);
        let ranges = [
            self.keys.shards(tenant, run),
            self.keys.view(tenant, run),
            self.keys.estimates(tenant, run),
        ];
        for range in ranges {
            let entries = self.list_since(&range, at, OPERATION).await?;
            let left = entries.into_iter().map(|(key, _)| key).filter(|key| *key != gate);
            let left = left.filter(|_| !planted::is_active(Defect::RunDeletedFirst));
            if !self.delete_all(found.address, left, &guard, OPERATION).await? {
                return Ok(false);
            }
        }
        let last = Commit::builder()
            .expect(run_key.clone(), Expect::At(at))
            .delete(run_key)
            .delete(self.keys.manifest(tenant, run))
            .delete(self.keys.watermark(tenant, run))
            .delete(self.keys.purpose(tenant, run))
            .delete(gate);
        let last = match self.name_of(tenant, run).await? {
            Some((name, expect)) => last.expect(name.clone(), expect).delete(name),
            None => last,
        };
        let last = self.return_room(tenant, run, last, OPERATION).await?.build();
        let last = last.map_err(|error| fault::corrupt(OPERATION, error.to_string()))?;
        let writes = last.writes().to_vec();
        match self.store.commit(last).await {
            Ok(revision) => {
                self.note_commit(tenant, run, revision, &writes);
                Ok(true)
            }
            Err(CommitError::Conflict(_)) => Ok(false),
            Err(error) => Err(fault::commit(OPERATION, &error)),
        }
    }

    /// Deletes keys of a run for as long as the guard holds; false if it does not any more.
    pub(crate) async fn delete_all(
        &self,
        address: RunAddress,
        keys: impl Iterator<Item = Key> + Send,
        guard: &(Key, Expect),
        operation: &'static str,
    ) -> Result<bool, InfraError> {
        let most = DELETES.min(self.store.limits().writes);
        let mut left = keys.peekable();
        while left.peek().is_some() {
            let mut commit = Commit::builder().guard(guard.0.clone(), guard.1);
            for key in left.by_ref().take(most) {
                commit = commit.delete(key);
            }
            let commit =
                commit.build().map_err(|error| fault::corrupt(operation, error.to_string()))?;
            if !self.repeat(address, commit, operation).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies a commit to a run that may be applied twice, until it was; false if its guard does
    /// not hold.
    pub(crate) async fn repeat(
        &self,
        RunAddress { tenant, run }: RunAddress,
        commit: Commit,
        operation: &'static str,
    ) -> Result<bool, InfraError> {
        for failures in 0..=self.config.conflict_retries {
            self.back_off(failures).await;
            match self.store.commit(commit.clone()).await {
                Ok(revision) => {
                    self.note_commit(tenant, run, revision, commit.writes());
                    return Ok(true);
                }
                Err(CommitError::Conflict(_)) => return Ok(false),
                Err(CommitError::Unknown(_)) => {}
                Err(error) => return Err(fault::commit(operation, &error)),
            }
        }
        Err(fault::contention(operation))
    }
}
