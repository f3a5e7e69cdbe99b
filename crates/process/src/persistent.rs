//! Programs that stay up and are fed items.
//!
//! One program for each place of a worker. It is told what to do in lines of JSON on a descriptor
//! of its own and answers on another, so that its output stays its own. One that misbehaves or
//! dies is replaced, and what it had in hand is given to its successor: item by item, so that the
//! one that kills programs is found out and no other suffers for it.

mod error;
mod link;
mod message;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use error::PersistentError;
use shardwright_contracts::{FenceEpoch, RunId, ShardId, WorkerId};
use tokio::sync::RwLock;
use tokio::time::timeout;

use self::link::{Answers, Done, Link};
use self::start::Program;
use super::item::{failure_line, line};
use super::output::Output;
use super::run::{Finished, without_program};
use super::spill::Spill;
use super::template::Template;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Assignment, Batch, Handler, ItemFailure, Outcome};

/// Most items that are handed over at once. More would wait for each other.
const BATCH_ITEMS: usize = 64;
/// Batches that a program has in hand at a time, if it may have many items.
const BATCHES: usize = 4;
/// How long a program has to end when there is nothing more to do.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Feeds items to programs that stay up.
pub struct PersistentProcess {
    program: Program,
    spill: Spill,
    in_flight: usize,
    places: Mutex<BTreeMap<WorkerId, Arc<Place>>>,
}

/// The program of one place of a worker.
#[derive(Default)]
struct Place {
    /// Shared by those whose items may be in a program's hands together.
    company: RwLock<()>,
    starting: tokio::sync::Mutex<()>,
    state: Mutex<PlaceState>,
}

#[derive(Default)]
struct PlaceState {
    link: Option<Arc<Link>>,
    /// Items that a program died of when it had nothing else in hand.
    suspects: BTreeSet<(ShardId, FenceEpoch, u64)>,
}

impl Place {
    fn state(&self) -> MutexGuard<'_, PlaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.state().link.clone().filter(|link| link.ended().is_none())
    }
}

impl PersistentProcess {
    /// Runs `template` with up to `in_flight` items in its hands. What it writes goes to files in
    /// `logs`; when items are taken from it, it has to let go of them within `grace`.
    #[must_use]
    pub fn new(
        template: Template,
        logs: impl Into<PathBuf>,
        spill: Spill,
        in_flight: usize,
        grace: Duration,
    ) -> Self {
        let program = Program { template, logs: logs.into(), grace };
        Self { program, spill, in_flight: in_flight.max(1), places: Mutex::default() }
    }

    /// How many batches to hand over at a time, so that as many items as were asked for are in a
    /// program's hands.
    #[must_use]
    pub fn batches_in_flight(&self) -> usize {
        self.in_flight / self.batch_size()
    }

    /// Starts a program and ends it again, to learn whether it speaks the protocol at all.
    pub async fn try_out(&self, run: RunId) -> Result<(), PersistentError> {
        let link = self.program.start(run, WorkerId::from_raw(0)).await?;
        close(&link).await;
        Ok(())
    }

    fn place(&self, worker: WorkerId) -> Arc<Place> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(places.entry(worker).or_default())
    }

    /// The program of a place, which is started if there is none.
    async fn link(
        &self,
        place: &Place,
        assignment: &Assignment,
    ) -> Result<Arc<Link>, PersistentError> {
        if let Some(link) = place.link() {
            return Ok(link);
        }
        let _one_at_a_time = place.starting.lock().await;
        if let Some(link) = place.link() {
            return Ok(link);
        }
        let link = self.program.start(assignment.run, assignment.worker).await?;
        place.state().link = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Has a program work on a batch, once.
    async fn pass(&self, place: &Place, batch: &Batch<'_>) -> Result<Answers, ItemFailure> {
        let link = self.link(place, batch.assignment).await.map_err(|error| unready(&error))?;
        Ok(link.submit(batch).answers().await)
    }

    /// Has a program work on an item and on nothing else.
    async fn alone(&self, place: &Place, batch: &Batch<'_>) -> Outcome {
        let suspect = (batch.assignment.shard, batch.assignment.fence, batch.sequence);
        let Answers { answers, lost, was_alone } = {
            let _alone = place.company.write().await;
            self.pass(place, batch).await?
        };
        if let Some(Some(answer)) = answers.into_iter().next() {
            place.state().suspects.remove(&suspect);
            let done = answer?;
            return self.record(batch, 0, done).await;
        }
        if was_alone {
            place.state().suspects.insert(suspect);
        }
        Err(lost.map_or_else(unanswered, |error| failure(&error)))
    }

    /// The line of an item that is done.
    async fn record(&self, batch: &Batch<'_>, index: usize, done: Done) -> Outcome {
        let Done { took, output } = done;
        let output = if output.len() <= self.spill.inline_bytes {
            Output::Inline(output)
        } else {
            let sequence = batch.sequence + index as u64;
            let mut file = self.spill.begin(batch.assignment, sequence)?;
            file.append(&output)?;
            Output::File(file.finish().await?)
        };
        let item = batch.items.get(index).ok_or_else(unanswered)?;
        line(item, &Finished { took, output }, batch.attempt, None)
    }

    fn tell(&self, assignment: &Assignment, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(link) = self.place(assignment.worker).link() {
            link.tell(write);
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
        let place = self.place(batch.assignment.worker);
        let suspect = (batch.assignment.shard, batch.assignment.fence, batch.sequence);
        if batch.attempt > 1 && place.state().suspects.contains(&suspect) {
            return vec![self.alone(&place, &batch).await];
        }
        let passed = {
            let _in_company = place.company.read().await;
            self.pass(&place, &batch).await
        };
        let Answers { answers, lost, was_alone } = match passed {
            Ok(passed) => passed,
            Err(failure) => return batch.items.iter().map(|_| Err(failure.clone())).collect(),
        };
        let mut outcomes = Vec::with_capacity(batch.items.len());
        for (index, answer) in answers.into_iter().enumerate() {
            let sequence = batch.sequence + index as u64;
            let outcome = match (answer, &lost) {
                (Some(Ok(done)), _) => self.record(&batch, index, done).await,
                (Some(Err(failure)), _) => Err(failure),
                (None, Some(error)) if was_alone => {
                    let Assignment { shard, fence, .. } = *batch.assignment;
                    place.state().suspects.insert((shard, fence, sequence));
                    Err(failure(error))
                }
                // It need not have been this one, and whoever it was shows when it is alone.
                (None, _) => {
                    let items = batch.items.get(index..=index).unwrap_or_default();
                    self.alone(&place, &Batch { sequence, items, ..batch }).await
                }
            };
            outcomes.push(outcome);
        }
        outcomes
    }

    fn committed(&self, assignment: &Assignment, key: &[u8]) {
        self.tell(assignment, |out| message::checkpoint(out, assignment, key));
    }

    fn divided(&self, assignment: &Assignment, end: &[u8]) {
        self.tell(assignment, |out| message::split(out, assignment, end));
    }

    async fn close(&self) {
        let places =
            std::mem::take(&mut *self.places.lock().unwrap_or_else(PoisonError::into_inner));
        let links: Vec<Arc<Link>> = places.values().filter_map(|place| place.link()).collect();
        // All at once: each has something to finish.
        futures_util::future::join_all(links.iter().map(|link| close(link))).await;
    }
}

/// Nobody feeds them any more, so they may end.
impl Drop for PersistentProcess {
    fn drop(&mut self) {
        let places = self.places.get_mut().unwrap_or_else(PoisonError::into_inner);
        places.values().filter_map(|place| place.link()).for_each(|link| link.close());
    }
}

/// Lets a program end by itself, but not for ever.
async fn close(link: &Link) {
    link.close();
    if timeout(CLOSE_WAIT, link.is_gone.notified()).await.is_err() {
        link.end(PersistentError::Closed);
        link.is_gone.notified().await;
    }
}

/// There is no program to give items to, so none of them can be the cause.
fn unready(error: &PersistentError) -> ItemFailure {
    match error {
        PersistentError::Start { error: reason, .. } => without_program(reason, error.to_string()),
        _ => ItemFailure::retryable(error.to_string()).of_worker(),
    }
}

/// The program was lost with what it had in hand.
fn failure(error: &PersistentError) -> ItemFailure {
    ItemFailure::retryable(error.to_string())
}

fn unanswered() -> ItemFailure {
    ItemFailure::retryable("the worker did not say what came of this item")
}
