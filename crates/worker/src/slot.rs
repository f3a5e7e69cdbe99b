//! A slot of a worker: holds one shard at a time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, select_biased};
use shardwright_contracts::{OpId, ShardKey, WorkerId};
use shardwright_coordination::{
    AsyncCoordinationBackend as _, AsyncRunManagement as _, AsyncShardClaiming as _,
    AsyncWorkEstimates as _, Backend as _, ClaimError, RunStatus, RunTerminalEvaluation,
    RunTransitionError, SplitRequestError, evaluate_run_terminal,
};

use crate::error::WorkerError;
use crate::event::WorkerEvent;
use crate::hold::Holder;
use crate::straggler::worth_splitting;
use crate::turns::Loans;
use crate::worker::{RunOutcome, Shared};

/// First wait of an idle slot before it checks again by itself.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// Longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Time until a split request expires.
const SPLIT_REQUEST_MS: u64 = 10_000;

/// A slot of a worker.
pub(crate) struct Slot {
    shared: Arc<Shared>,
    number: usize,
    worker: WorkerId,
}

/// What to do after a claim.
enum Next {
    Claim,
    End(RunOutcome),
}

impl Slot {
    pub(crate) fn new(shared: Arc<Shared>, number: usize) -> Self {
        // Random, so that no other slot ever had the id.
        let worker = WorkerId::from_raw(shared.env.random());
        Self { shared, number, worker }
    }

    /// Claims and processes shards until nothing is left.
    pub(crate) async fn run(&self) -> Result<RunOutcome, WorkerError> {
        let shared = &self.shared;
        let holder = Holder { shared, slot: self.number, worker: self.worker };
        let (mut failures, mut failing_since) = (0, None);
        let mut loans = Loans::default();
        let mut wait = SHORTEST_WAIT;
        while !shared.stop.is_stopped() {
            // A slot whose room is all lent has none for a shard.
            while loans.len() >= shared.options.in_flight.max(1) {
                loans.returned().await;
            }
            let turn = Arc::clone(&shared.claiming).lock_owned().await;
            if shared.stop.is_stopped() {
                break;
            }
            let requested_at = shared.env.monotonic();
            let claimed =
                shared.backend.claim_next_available(shared.tenant, shared.run, self.worker).await;
            // A slot that got no shard drops its turn.
            let next = match claimed.map(|state| (state, turn)) {
                Ok((state, turn)) => {
                    wait = SHORTEST_WAIT;
                    holder.hold(state, requested_at, turn, &mut loans).await.map(|()| Next::Claim)
                }
                Err(ClaimError::NoneAvailable(_)) => {
                    self.idle(&holder, &mut wait, &mut loans).await
                }
                Err(ClaimError::Throttled(throttled)) => {
                    let now = shared.env.wall_clock();
                    let wait = throttled.retry_after.millis_since(now).clamp(1, 1_000);
                    self.rest(Duration::from_millis(wait)).await;
                    Ok(Next::Claim)
                }
                Err(ClaimError::RunPaused(_)) => {
                    holder.report(WorkerEvent::Paused);
                    self.wait_for_work(LONGEST_WAIT, &mut loans).await;
                    Ok(Next::Claim)
                }
                Err(ClaimError::RunNotActive(ended)) => return ended_as(ended.status),
                Err(error) => Err(WorkerError::coordination(error)),
            };
            match next {
                Ok(Next::Claim) => failing_since = None,
                Ok(Next::End(outcome)) => return Ok(outcome),
                Err(WorkerError::Store(error)) if error.is_retryable() => {
                    let now = shared.env.monotonic();
                    let since = *failing_since.get_or_insert(now);
                    if now.saturating_sub(since) > shared.options.store_timeout {
                        return Err(error.into());
                    }
                    holder.pause_after(&mut failures, &error).await;
                    continue;
                }
                Err(error) => return Err(error),
            }
            failures = 0;
        }
        Ok(RunOutcome::Stopped)
    }

    /// Checks whether anything is left, requests a split of it, and waits.
    async fn idle(
        &self,
        holder: &Holder<'_>,
        wait: &mut Duration,
        loans: &mut Loans,
    ) -> Result<Next, WorkerError> {
        let shared = &*self.shared;
        let progress = shared.backend.get_run_progress(shared.tenant, shared.run).await;
        let progress = progress.map_err(WorkerError::coordination)?;
        match evaluate_run_terminal(&progress) {
            RunTerminalEvaluation::AllDone => return self.finish().await,
            RunTerminalEvaluation::HasFailures => {
                return Ok(Next::End(RunOutcome::Parked { shards: progress.parked }));
            }
            RunTerminalEvaluation::StillActive => {}
        }
        holder.report(WorkerEvent::Idle);
        // No split is needed while shards can be claimed.
        if progress.leased == progress.active {
            self.request_split().await?;
        }
        self.wait_for_work(*wait, loans).await;
        *wait = wait.saturating_mul(2).min(LONGEST_WAIT);
        Ok(Next::Claim)
    }

    /// Completes the run.
    async fn finish(&self) -> Result<Next, WorkerError> {
        let shared = &*self.shared;
        let op = OpId::from_raw(shared.env.random());
        match shared.backend.complete_run(shared.tenant, shared.run, op).await {
            Ok(_) => Ok(Next::End(RunOutcome::Done)),
            Err(RunTransitionError::RunTerminal(ended)) => ended_as(ended.status).map(Next::End),
            // A shard was unparked meanwhile.
            Err(RunTransitionError::RunUnfinished(_)) => Ok(Next::Claim),
            Err(error) => Err(WorkerError::coordination(error)),
        }
    }

    /// Requests a split of the shard that will take longest.
    async fn request_split(&self) -> Result<(), WorkerError> {
        let shared = &*self.shared;
        let estimates = shared.backend.list_estimates(shared.tenant, shared.run).await?;
        let least = shared.options.least_split.saturating_mul(2).as_millis();
        let least = u64::try_from(least).unwrap_or(u64::MAX);
        for shard in worth_splitting(&estimates, shared.env.wall_clock(), least) {
            let key = ShardKey::new(shared.run, shard);
            let (tenant, worker) = (shared.tenant, self.worker);
            match shared.backend.request_split(tenant, key, worker, SPLIT_REQUEST_MS).await {
                Ok(()) => {
                    shared.wake_ups.wake(shard);
                    return Ok(());
                }
                Err(SplitRequestError::BackendError(error)) => return Err(error.into()),
                // Requested by another worker, or not held any more: try the next.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Waits for a shard to claim. Meanwhile, holds without a slot get its turns.
    async fn wait_for_work(&self, longest: Duration, loans: &mut Loans) {
        let shared = &*self.shared;
        let mut work = pin!(shared.backend.claimable(shared.tenant, shared.run).fuse());
        let mut enough = pin!(self.rest(longest).fuse());
        let mut wanted = pin!(shared.turns.wanted().fuse());
        select_biased! {
            () = work => {}
            () = enough => {}
            () = wanted => {
                let most = shared.options.in_flight.max(1);
                while loans.len() < most && loans.lend(&shared.turns, self.worker) {}
            }
        }
    }

    async fn rest(&self, longest: Duration) {
        let mut stopped = pin!(self.shared.stop.stopped().fuse());
        let mut enough = pin!(self.shared.env.sleep(longest).fuse());
        select_biased! {
            () = stopped => {}
            () = enough => {}
        }
    }
}

fn ended_as(status: RunStatus) -> Result<RunOutcome, WorkerError> {
    match status {
        RunStatus::Done => Ok(RunOutcome::Done),
        status => Err(WorkerError::RunEnded { status }),
    }
}
