//! Persistent programs, which process many items.
//!
//! Each slot of a worker has one program. It reads lines of JSON from a descriptor of its own and
//! answers on another, so that its stdout stays free. A program that violates the protocol or dies
//! is replaced, and its unfinished items go to its successor one by one. So an item that kills
//! programs is found, and no other item is blamed for it.

mod error;
mod link;
mod message;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use error::PersistentError;
pub use message::{Incoming, parse as parse_line};
use shardwright_contracts::{FenceEpoch, RunId, ShardId, WorkerId};
use tokio::sync::RwLock;
use tokio::time::timeout;

use self::link::{Answer, Answers, Link};
use self::start::Program;
use super::guard::ProcessGuard;
use super::item::{done, failed_line, failure_line};
use super::limits::{Limits, wrote_too_much};
use super::output::{Gathered, Output, Stream};
use super::run::{Left, without_program};
use super::slots::Slots;
use super::spill::Spill;
use super::template::Template;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Assignment, Batch, Handler, ItemFailure, Outcome};

/// Most items per batch. The items of a larger batch would wait for each other.
const BATCH_ITEMS: usize = 64;
/// Batches that a program holds at a time, if it may hold many items.
const BATCHES: usize = 4;
/// How long a program may take to exit after its input was closed.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Passes items to persistent programs.
pub struct PersistentProcess {
    program: Program,
    spill: Spill,
    in_flight: usize,
    slots: Mutex<BTreeMap<WorkerId, Arc<ProcessSlot>>>,
}

/// The program of one slot of a worker.
#[derive(Default)]
struct ProcessSlot {
    /// Locked shared by batches that the program may hold together, exclusively by an item alone.
    company: RwLock<()>,
    starting: tokio::sync::Mutex<()>,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    link: Option<Arc<Link>>,
    /// Items that killed a program which held nothing else.
    suspects: BTreeSet<(ShardId, FenceEpoch, u64)>,
}

impl ProcessSlot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.state().link.clone().filter(|link| link.ended().is_none())
    }
}

impl PersistentProcess {
    /// Runs `template` under `guard`, with up to `in_flight` items per program. Its stdout and
    /// stderr go to files in `logs`. Items that are revoked must be given up within `grace`.
    #[must_use]
    pub fn new(
        template: Template,
        guard: Arc<ProcessGuard>,
        logs: impl Into<PathBuf>,
        spill: Spill,
        in_flight: usize,
        grace: Duration,
    ) -> Self {
        let program = Program {
            template,
            guard,
            logs: logs.into(),
            grace,
            limits: Limits::default(),
            slots: Slots::default(),
        };
        Self { program, spill, in_flight: in_flight.max(1), slots: Mutex::default() }
    }

    /// Sets limits of each program.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.program.limits = limits;
        self
    }

    /// How many batches to process at a time, so that a program holds as many items as requested.
    #[must_use]
    pub fn batches_in_flight(&self) -> usize {
        self.in_flight / self.batch_size()
    }

    /// Starts a program and ends it, to check that it speaks the protocol.
    pub async fn try_out(&self, run: RunId) -> Result<(), PersistentError> {
        let link = self.program.start(run, WorkerId::from_raw(0)).await?;
        close(&link).await;
        Ok(())
    }

    fn slot(&self, worker: WorkerId) -> Arc<ProcessSlot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(worker).or_default())
    }

    /// The program of a slot; starts one if there is none.
    async fn link(
        &self,
        slot: &ProcessSlot,
        assignment: &Assignment,
    ) -> Result<Arc<Link>, PersistentError> {
        if let Some(link) = slot.link() {
            return Ok(link);
        }
        let _one_at_a_time = slot.starting.lock().await;
        if let Some(link) = slot.link() {
            return Ok(link);
        }
        let link = self.program.start(assignment.run, assignment.worker).await?;
        slot.state().link = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Passes a batch to the program once.
    async fn pass(&self, slot: &ProcessSlot, batch: &Batch<'_>) -> Result<Answers, ItemFailure> {
        let link = self.link(slot, batch.assignment).await.map_err(|error| unready(&error))?;
        Ok(link.submit(batch).answers().await)
    }

    /// Passes an item to a program that holds nothing else.
    async fn alone(&self, slot: &ProcessSlot, batch: &Batch<'_>) -> Outcome {
        let suspect = (batch.assignment.shard, batch.assignment.fence, batch.sequence);
        let begun = Instant::now();
        let Answers { answers, lost, was_alone } = {
            let _alone = slot.company.write().await;
            self.pass(slot, batch).await?
        };
        if let Some(Some(answer)) = answers.into_iter().next() {
            slot.state().suspects.remove(&suspect);
            return self.outcome(batch, 0, answer).await;
        }
        if was_alone {
            slot.state().suspects.insert(suspect);
        }
        Err(lost_with(batch, 0, lost.as_deref(), begun.elapsed()))
    }

    /// The outcome of an answer, with a result line.
    async fn outcome(&self, batch: &Batch<'_>, index: usize, answer: Answer) -> Outcome {
        let Answer { took, outcome } = answer;
        let output = match outcome {
            Ok(output) => output,
            Err(failure) => {
                return Err(with_line(batch, index, failure, &Left { took, ..Left::default() }));
            }
        };
        let max = self.program.limits.max_output();
        if output.len() <= self.spill.inline_bytes && output.len() as u64 <= max {
            let left = Left { stdout: Output::Inline(output), ..success(took) };
            let item = batch.items.get(index).ok_or_else(unanswered)?;
            return done(item, batch.attempt, None, &left);
        }
        let sequence = batch.sequence + index as u64;
        let mut kept = Gathered::new(&self.spill, batch.assignment, sequence, Stream::Stdout, max);
        kept.add(&output)?;
        let left = Left { stdout: kept.finish().await?, ..success(took) };
        if output.len() as u64 > max {
            let failure = ItemFailure::retryable(wrote_too_much(max, Stream::Stdout.name())).own();
            return Err(with_line(batch, index, failure, &left));
        }
        let item = batch.items.get(index).ok_or_else(unanswered)?;
        done(item, batch.attempt, None, &left)
    }

    fn send(&self, assignment: &Assignment, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(link) = self.slot(assignment.worker).link() {
            link.send(write);
        }
    }
}

impl Handler for PersistentProcess {
    fn batch_size(&self) -> usize {
        (self.in_flight / BATCHES).clamp(1, BATCH_ITEMS)
    }

    fn failure_record(&self, item: &Item, failure: &ItemFailure) -> Outcome {
        failure_line(item, failure)
    }

    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let slot = self.slot(batch.assignment.worker);
        let suspect = (batch.assignment.shard, batch.assignment.fence, batch.sequence);
        if batch.attempt > 1 && slot.state().suspects.contains(&suspect) {
            return vec![self.alone(&slot, &batch).await];
        }
        let begun = Instant::now();
        let passed = {
            let _in_company = slot.company.read().await;
            self.pass(&slot, &batch).await
        };
        let Answers { answers, lost, was_alone } = match passed {
            Ok(passed) => passed,
            Err(failure) => return batch.items.iter().map(|_| Err(failure.clone())).collect(),
        };
        let mut outcomes = Vec::with_capacity(batch.items.len());
        for (index, answer) in answers.into_iter().enumerate() {
            let sequence = batch.sequence + index as u64;
            let outcome = match (answer, &lost) {
                (Some(answer), _) => self.outcome(&batch, index, answer).await,
                (None, Some(error)) if was_alone => {
                    let Assignment { shard, fence, .. } = *batch.assignment;
                    slot.state().suspects.insert((shard, fence, sequence));
                    Err(lost_with(&batch, index, Some(error), begun.elapsed()))
                }
                // Another item may have killed the program; passing each alone shows which.
                (None, _) => {
                    let items = batch.items.get(index..=index).unwrap_or_default();
                    self.alone(&slot, &Batch { sequence, items, ..batch }).await
                }
            };
            outcomes.push(outcome);
        }
        outcomes
    }

    fn committed(&self, assignment: &Assignment, key: &[u8]) {
        self.send(assignment, |out| message::checkpoint(out, assignment, key));
    }

    fn divided(&self, assignment: &Assignment, end: &[u8]) {
        self.send(assignment, |out| message::split(out, assignment, end));
    }

    async fn close(&self) {
        let slots = std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        let links: Vec<Arc<Link>> = slots.values().filter_map(|slot| slot.link()).collect();
        // In parallel: each program finishes its items first.
        futures_util::future::join_all(links.iter().map(|link| close(link))).await;
        self.program.guard.close().await;
    }
}

/// Closes the input of the programs, so that they exit.
impl Drop for PersistentProcess {
    fn drop(&mut self) {
        let slots = self.slots.get_mut().unwrap_or_else(PoisonError::into_inner);
        slots.values().filter_map(|slot| slot.link()).for_each(|link| link.close());
    }
}

/// Waits for a program to exit, and kills it after a timeout.
async fn close(link: &Link) {
    link.close();
    if timeout(CLOSE_WAIT, link.is_gone.notified()).await.is_err() {
        link.end(PersistentError::Closed);
        link.is_gone.notified().await;
    }
}

/// No program could be started, so no item is the cause.
fn unready(error: &PersistentError) -> ItemFailure {
    match error {
        PersistentError::Start { error: reason, .. } => without_program(reason, error.to_string()),
        _ => ItemFailure::retryable(error.to_string()).of_worker(),
    }
}

/// An item that is done, and has no output.
fn success(took: Duration) -> Left {
    Left { took, status: Some(ExitStatus::default()), ..Left::default() }
}

/// The failure of an item with which a program ended.
fn lost_with(
    batch: &Batch<'_>,
    index: usize,
    error: Option<&PersistentError>,
    took: Duration,
) -> ItemFailure {
    let failure = error.map_or_else(unanswered, |error| ItemFailure::retryable(error.to_string()));
    let mut left = Left { took, ..Left::default() };
    if let Some(PersistentError::Ended { status, stderr }) = error {
        left.status = Some(*status);
        left.stderr = Output::Inline(stderr.clone());
    }
    with_line(batch, index, failure, &left)
}

/// A failure with its result line.
fn with_line(batch: &Batch<'_>, index: usize, failure: ItemFailure, left: &Left) -> ItemFailure {
    let Some(item) = batch.items.get(index) else { return failure };
    let record = failed_line(batch.attempt, None)(item, Some(left), &failure.detail);
    failure.with_record(record)
}

fn unanswered() -> ItemFailure {
    ItemFailure::retryable("the worker returned no outcome for this item")
}
