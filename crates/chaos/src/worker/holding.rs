//! A shard that a worker holds, or believes it holds.

use std::time::{Duration, Instant};

use anyhow::Result;
use shardwright_coordination::{HolderNotice, Lease, RestoredShardState};

use super::task::WorkerTask;
use crate::history;
use crate::history::{Action, Effect, Outcome, Piece};
use crate::plan;
use crate::plan::LEASE_MS;

pub(super) struct Holding<'h, 'w> {
    task: &'h mut WorkerTask<'w>,
    run: u64,
    lease: Lease,
    start: u64,
    end: u64,
    cursor: Option<u64>,
    renewed: Instant,
    notice: HolderNotice,
    /// Requests sent so far, for late repetitions.
    sent: Vec<Action>,
}

/// Whether the worker still believes it holds the shard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Held,
    Lost,
}

impl<'h, 'w> Holding<'h, 'w> {
    pub(super) fn new(task: &'h mut WorkerTask<'w>, run: u64, state: RestoredShardState) -> Self {
        let spec = state.spec.as_spec_ref();
        Self {
            task,
            run,
            lease: state.lease,
            start: plan::number(spec.start()),
            end: plan::number(spec.end()),
            cursor: state.cursor.as_update().last_key().map(plan::number),
            renewed: Instant::now(),
            notice: HolderNotice::default(),
            sent: Vec::new(),
        }
    }

    const fn shard(&self) -> u64 {
        self.lease.key().shard.as_raw()
    }

    const fn fence(&self) -> u64 {
        self.lease.fence().as_raw()
    }

    /// Processes keys in order until the shard is completed or lost.
    pub(super) async fn work(mut self) -> Result<()> {
        loop {
            let reached = self.process().await?;
            let (shard, fence, op) = (self.shard(), self.fence(), self.task.operation());
            let is_last = reached + 1 == self.end;
            let action = if is_last && self.task.rng.u32(..100) < 85 {
                Action::Complete { shard, fence, op, key: reached }
            } else {
                Action::Checkpoint { shard, fence, op, key: reached }
            };
            if self.settle(action).await? == Hold::Lost {
                return Ok(());
            }
            self.cursor = Some(reached);
            if self.random_call().await? == Hold::Lost {
                return Ok(());
            }
        }
    }

    /// Processes some keys. Returns the last of them.
    async fn process(&mut self) -> Result<u64> {
        let from = self.cursor.map_or(self.start, |cursor| cursor + 1);
        if from >= self.end {
            // All keys are processed, but the shard is not completed.
            return Ok(self.end - 1);
        }
        let to = (from + self.task.rng.u64(..5)).min(self.end - 1);
        let millis = (to - from + 1) * self.task.rng.u64(10..50);
        tokio::time::sleep(Duration::from_millis(millis)).await;
        let (run, shard, fence) = (self.run, self.shard(), self.fence());
        self.task.caller.recorder.effect(Effect {
            at: history::now(),
            run,
            shard,
            fence,
            from,
            to,
        })?;
        Ok(to)
    }

    /// Makes another random call of a holder, or none.
    async fn random_call(&mut self) -> Result<Hold> {
        let (shard, fence) = (self.shard(), self.fence());
        let half = Duration::from_millis(LEASE_MS / 2);
        if self.renewed.elapsed() > half && self.task.rng.u32(..100) < 80 {
            return self.settle(Action::Renew { shard, fence }).await;
        }
        if std::mem::take(&mut self.notice.split_request).is_some() {
            return if self.task.rng.bool() {
                self.split_residual().await
            } else {
                self.settle(Action::DeclineSplit { shard, fence }).await
            };
        }
        let op = self.task.operation();
        match self.task.rng.u32(..100) {
            0..2 => self.split_residual().await,
            2..4 => self.split_replace().await,
            4..6 => self.settle(Action::Park { shard, fence, op }).await,
            6..9 => self.settle(Action::Release { shard, fence, op }).await,
            9..17 => self.settle(Action::Renew { shard, fence }).await,
            17..22 => self.repeat().await,
            _ => Ok(Hold::Held),
        }
    }

    async fn split_residual(&mut self) -> Result<Hold> {
        let least = self.cursor.map_or(self.start, |cursor| cursor + 1).max(self.start + 1);
        if least + 1 >= self.end {
            return Ok(Hold::Held);
        }
        let at = self.task.rng.u64(least..self.end);
        let (shard, fence, op) = (self.shard(), self.fence(), self.task.operation());
        let (start, end) = (self.start, self.end);
        self.settle(Action::SplitResidual { shard, fence, op, start, at, end }).await
    }

    async fn split_replace(&mut self) -> Result<Hold> {
        let least = self.cursor.map_or(self.start, |cursor| cursor + 1).max(self.start + 1);
        if least + 1 >= self.end {
            return Ok(Hold::Held);
        }
        let mut cuts = vec![self.task.rng.u64(least..self.end)];
        cuts.push(self.task.rng.u64(least..self.end));
        cuts.sort_unstable();
        cuts.dedup();
        cuts.push(self.end);
        let mut start = self.start;
        let mut cursor = self.cursor;
        let mut children = Vec::new();
        for end in cuts {
            children.push(Piece { start, end, cursor: cursor.take() });
            start = end;
        }
        let (shard, fence, op) = (self.shard(), self.fence(), self.task.operation());
        self.settle(Action::SplitReplace { shard, fence, op, children }).await
    }

    /// Repeats an earlier request, like a network that delivers it late.
    async fn repeat(&mut self) -> Result<Hold> {
        if let Some(action) = self.task.rng.choice(&self.sent).cloned() {
            self.task.caller.call(self.run, Some(&self.lease), &action).await?;
        }
        Ok(Hold::Held)
    }

    /// Calls until the outcome is known, or the worker abandons the shard.
    async fn settle(&mut self, mut action: Action) -> Result<Hold> {
        loop {
            self.sent.push(action.clone());
            let (outcome, returned) =
                self.task.caller.call(self.run, Some(&self.lease), &action).await?;
            match outcome {
                Outcome::Done(_) => {
                    self.notice = returned.notice.unwrap_or(self.notice);
                    return Ok(self.done(&action));
                }
                Outcome::Refused(_) => return self.refused(&action).await,
                Outcome::Corrupt(text) => anyhow::bail!("shard {:x}: {text}", self.shard()),
                Outcome::NotApplied(_) | Outcome::Unknown(_) => {}
            }
            match self.task.rng.u32(..100) {
                // Abandon the shard. Another worker will see the outcome.
                0..12 => return Ok(Hold::Lost),
                12..30 => action = self.with_new_id(action),
                _ => {}
            }
            self.task.pause(5..150).await;
        }
    }

    fn done(&mut self, action: &Action) -> Hold {
        match action {
            Action::Renew { .. } => self.renewed = Instant::now(),
            Action::SplitResidual { at, .. } => self.end = *at,
            Action::Complete { .. }
            | Action::Park { .. }
            | Action::Release { .. }
            | Action::SplitReplace { .. } => return Hold::Lost,
            _ => {}
        }
        Hold::Held
    }

    /// Stops after a refusal. Some workers ignore it and must be refused again.
    async fn refused(&mut self, action: &Action) -> Result<Hold> {
        if matches!(action, Action::DeclineSplit { .. }) {
            return Ok(Hold::Held);
        }
        let mut ignores_refusal = self.task.rng.u32(..100) < 30;
        while ignores_refusal {
            let key = self.process().await?;
            let (shard, fence, op) = (self.shard(), self.fence(), self.task.operation());
            let action = match self.task.rng.u32(..4) {
                0 => Action::Renew { shard, fence },
                1 => Action::Release { shard, fence, op },
                2 if key + 1 == self.end => Action::Complete { shard, fence, op, key },
                _ => Action::Checkpoint { shard, fence, op, key },
            };
            self.task.caller.call(self.run, Some(&self.lease), &action).await?;
            ignores_refusal = self.task.rng.bool();
        }
        Ok(Hold::Lost)
    }

    /// The same request with a new operation id, like a worker that lost its state.
    fn with_new_id(&mut self, action: Action) -> Action {
        let next = self.task.operation();
        match action {
            Action::Checkpoint { shard, fence, key, .. } => {
                Action::Checkpoint { shard, fence, op: next, key }
            }
            Action::Complete { shard, fence, key, .. } => {
                Action::Complete { shard, fence, op: next, key }
            }
            Action::Park { shard, fence, .. } => Action::Park { shard, fence, op: next },
            Action::Release { shard, fence, .. } => Action::Release { shard, fence, op: next },
            Action::SplitReplace { shard, fence, children, .. } => {
                Action::SplitReplace { shard, fence, op: next, children }
            }
            Action::SplitResidual { shard, fence, start, at, end, .. } => {
                Action::SplitResidual { shard, fence, op: next, start, at, end }
            }
            same => same,
        }
    }
}
