//! One worker of a process: it works on each run in turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use shardwright_contracts::{RunId, ShardId, WorkerId};
use shardwright_coordination::{
    AsyncRunManagement as _, Backend as _, RestoredShardState, RunQueryError, RunStatus,
    ShardFilter, ShardSummary,
};
use tokio::time::{sleep, timeout};

use super::caller::{Caller, Returned};
use super::holding::Holding;
use crate::history::{Action, Outcome, Refusal};
use crate::plan::{self, TENANT};

/// Bits for the operation ids of one worker.
const OPERATIONS: u32 = 24;

pub(super) struct WorkerTask<'w> {
    pub(super) caller: Caller,
    pub(super) rng: fastrand::Rng,
    finishing: &'w AtomicBool,
    operations: u64,
}

/// Whether a run has ended.
#[derive(PartialEq, Eq)]
enum Run {
    Active,
    Ended,
}

impl<'w> WorkerTask<'w> {
    pub(super) const fn new(caller: Caller, rng: fastrand::Rng, finishing: &'w AtomicBool) -> Self {
        Self { caller, rng, finishing, operations: 0 }
    }

    /// Works until the controller requests to finish and no run is left.
    pub(super) async fn work(mut self) -> Result<()> {
        let mut run = 1;
        loop {
            match self.caller.coordinator.get_run(TENANT, RunId::from_raw(run)).await {
                Ok(record) => match record.status {
                    RunStatus::Active => self.work_on(run).await?,
                    RunStatus::Initializing => self.register(run).await?,
                    RunStatus::Done => run += 1,
                    RunStatus::Failed | RunStatus::Cancelled => {
                        bail!("run {run} failed or was cancelled, which no worker requests")
                    }
                },
                Err(RunQueryError::RunNotFound(_)) => {
                    if self.finishing.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    self.register(run).await?;
                }
                Err(RunQueryError::BackendError(_)) => self.pause(20..150).await,
                Err(error) => bail!("run {run}: {error}"),
            }
        }
    }

    async fn register(&mut self, run: u64) -> Result<()> {
        let op = plan::registration(RunId::from_raw(run)).as_raw();
        let action = Action::Register { op, roots: plan::roots(run) };
        match self.caller.call(run, None, &action).await?.0 {
            Outcome::Done(_) => {}
            Outcome::NotApplied(_) | Outcome::Unknown(_) | Outcome::Refused(_) => {
                self.pause(20..150).await;
            }
            Outcome::Corrupt(text) => bail!("run {run}: {text}"),
        }
        Ok(())
    }

    async fn work_on(&mut self, run: u64) -> Result<()> {
        loop {
            let action = self.choose_acquire(run).await;
            let (outcome, returned) = self.caller.call(run, None, &action).await?;
            match (outcome, returned) {
                (Outcome::Done(_), Returned { state: Some(state), .. }) => {
                    self.hold(run, state).await?;
                }
                (Outcome::Refused(Refusal::RunEnded), _) => return Ok(()),
                (Outcome::Refused(_), _) => {
                    if self.idle(run).await? == Run::Ended {
                        return Ok(());
                    }
                }
                _ => self.pause(10..120).await,
            }
        }
    }

    async fn hold(&mut self, run: u64, state: RestoredShardState) -> Result<()> {
        Holding::new(self, run, state).work().await
    }

    /// Mostly claims, sometimes acquires a candidate, sometimes any active shard.
    async fn choose_acquire(&mut self, run: u64) -> Action {
        let (coordinator, id) = (&self.caller.coordinator, RunId::from_raw(run));
        let worker = WorkerId::from_raw(self.caller.worker);
        let roll = self.rng.u32(..100);
        let shards: Vec<ShardId> = if roll < 70 {
            Vec::new()
        } else if roll < 90 {
            let found = coordinator.collect_claim_candidates(TENANT, id, worker, 8).await;
            found.map(|(shards, _)| shards).unwrap_or_default()
        } else {
            let found = coordinator.list_shards(TENANT, id, ShardFilter::active()).await;
            found.unwrap_or_default().iter().map(|summary| summary.shard).collect()
        };
        match self.rng.choice(&shards) {
            Some(shard) => Action::Acquire { shard: shard.as_raw() },
            None => Action::Claim,
        }
    }

    /// The actions of a worker without a shard.
    async fn idle(&mut self, run: u64) -> Result<Run> {
        let id = RunId::from_raw(run);
        let listed = self.caller.coordinator.list_shards(TENANT, id, ShardFilter::all()).await;
        let Ok(shards) = listed else {
            self.pause(20..150).await;
            return Ok(Run::Active);
        };
        let parked: Vec<&ShardSummary> =
            shards.iter().filter(|shard| shard.park_reason.is_some()).collect();
        let leased: Vec<&ShardSummary> =
            shards.iter().filter(|shard| shard.lease_deadline.is_some()).collect();
        let is_over = shards.iter().all(|shard| shard.status.is_terminal()) && parked.is_empty();
        if is_over || self.rng.u32(..100) < 3 {
            return self.complete_run(run).await;
        }
        if let Some(shard) = self.rng.choice(&parked).filter(|_| self.rng.bool()) {
            let action = Action::Unpark { shard: shard.shard.as_raw(), op: self.operation() };
            self.call_until_known(run, &action).await?;
        } else if let Some(shard) = self.rng.choice(&leased)
            && self.rng.u32(..100) < 40
        {
            let action = Action::RequestSplit { shard: shard.shard.as_raw() };
            self.caller.call(run, None, &action).await?;
        }
        let limit = Duration::from_millis(self.rng.u64(50..400));
        let waited = timeout(limit, self.caller.coordinator.claimable(TENANT, id)).await;
        if waited.is_ok() {
            // All tasks wake up together. A pause spreads them.
            self.pause(1..30).await;
        }
        Ok(Run::Active)
    }

    async fn complete_run(&mut self, run: u64) -> Result<Run> {
        let action = Action::CompleteRun { op: self.operation() };
        Ok(match self.call_until_known(run, &action).await? {
            Outcome::Done(_) | Outcome::Refused(Refusal::RunEnded) => Run::Ended,
            _ => {
                self.pause(20..100).await;
                Run::Active
            }
        })
    }

    /// Calls, and retries with the same operation id while the outcome is not known.
    async fn call_until_known(&mut self, run: u64, action: &Action) -> Result<Outcome> {
        loop {
            let (outcome, _) = self.caller.call(run, None, action).await?;
            let is_open = matches!(outcome, Outcome::Unknown(_) | Outcome::NotApplied(_));
            if !is_open || self.rng.u32(..100) < 30 {
                return Ok(outcome);
            }
            self.pause(10..100).await;
        }
    }

    /// A new operation id.
    pub(super) const fn operation(&mut self) -> u64 {
        self.operations += 1;
        self.caller.worker << OPERATIONS | self.operations
    }

    pub(super) async fn pause(&mut self, millis: std::ops::Range<u64>) {
        sleep(Duration::from_millis(self.rng.u64(millis))).await;
    }
}
