//! The items that a program holds, and the messages to and from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shardwright_coordination::ParkReason;
use shardwright_worker::handler::{Batch, ItemFailure};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::PersistentError;
use super::message::{self, Incoming, VERSION};

/// The outcome of an item.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) took: Duration,
    /// Its output.
    pub(super) outcome: Result<Vec<u8>, ItemFailure>,
}

/// The answers for a batch. A missing answer was lost with the program.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) answers: Vec<Option<Answer>>,
    /// Why some are missing.
    pub(super) lost: Option<Arc<PersistentError>>,
    /// Whether the missing items were all that the program held.
    pub(super) was_alone: bool,
}

/// One running program, from its start to its end.
pub(super) struct Link {
    state: Mutex<State>,
    /// Notified when there is something to write, or nothing will follow.
    pub(super) to_write: Notify,
    /// Notified when the program must be killed.
    pub(super) is_over: Notify,
    /// Notified when the program has exited.
    pub(super) is_gone: Notify,
    grace: Duration,
    /// The longest time without an answer.
    timeout: Option<Duration>,
    /// Notified when the program gets items while it has none.
    is_busy: Notify,
    runtime: Handle,
}

struct State {
    next_id: u64,
    /// Unanswered batches, by the id of their first item.
    waiting: BTreeMap<u64, Waiting>,
    /// Revoked items that the program still holds.
    revoked: BTreeSet<u64>,
    /// When the program got its first items, or answered last.
    silent_since: Instant,
    out: Vec<u8>,
    hello: Option<oneshot::Sender<()>>,
    is_closing: bool,
    ended: Option<Arc<PersistentError>>,
}

/// An unanswered batch.
struct Waiting {
    answers: Vec<Option<Answer>>,
    missing: usize,
    begun: Instant,
    sender: oneshot::Sender<Answers>,
}

impl Link {
    pub(super) fn new(
        grace: Duration,
        timeout: Option<Duration>,
        hello: oneshot::Sender<()>,
        first_line: Vec<u8>,
    ) -> Self {
        let state = State {
            next_id: 1,
            waiting: BTreeMap::new(),
            revoked: BTreeSet::new(),
            silent_since: Instant::now(),
            out: first_line,
            hello: Some(hello),
            is_closing: false,
            ended: None,
        };
        Self {
            state: Mutex::new(state),
            to_write: Notify::new(),
            is_over: Notify::new(),
            is_gone: Notify::new(),
            grace,
            timeout,
            is_busy: Notify::new(),
            runtime: Handle::current(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the program ended. None while it runs.
    pub(super) fn ended(&self) -> Option<Arc<PersistentError>> {
        self.state().ended.clone()
    }

    /// Takes the reason out, for the only holder of the link.
    pub(super) fn take_ended(&self) -> Option<PersistentError> {
        let mut state = self.state();
        state.is_closing = true;
        state.out.clear();
        state.ended.take().and_then(Arc::into_inner)
    }

    /// Passes a batch to the program.
    pub(super) fn submit(self: &Arc<Self>, batch: &Batch<'_>) -> Ticket {
        let (sender, answers) = oneshot::channel();
        let mut state = self.state();
        let (first, count) = (state.next_id, batch.items.len());
        state.next_id += count as u64;
        let mut waiting =
            Waiting { answers: Vec::new(), missing: count, begun: Instant::now(), sender };
        waiting.answers.resize_with(count, || None);
        match &state.ended {
            Some(ended) => waiting.lose(Arc::clone(ended), false),
            None => {
                message::items(&mut state.out, first, batch);
                let was_idle = state.waiting.is_empty();
                if was_idle {
                    state.silent_since = waiting.begun;
                }
                state.waiting.insert(first, waiting);
                drop(state);
                self.to_write.notify_one();
                if was_idle && self.timeout.is_some() {
                    self.is_busy.notify_one();
                }
            }
        }
        Ticket { link: Arc::clone(self), first, answers }
    }

    /// Sends the program a message, if its input is open.
    pub(super) fn send(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        if state.ended.is_none() && !state.is_closing {
            write(&mut state.out);
            drop(state);
            self.to_write.notify_one();
        }
    }

    /// Processes lines of the program.
    pub(super) fn receive<'l>(
        &self,
        lines: impl Iterator<Item = &'l [u8]>,
    ) -> Result<(), PersistentError> {
        let mut state = self.state();
        if self.timeout.is_some() {
            state.silent_since = Instant::now();
        }
        lines.map(message::parse).try_for_each(|message| state.receive(message?))
    }

    /// How long the program has answered nothing. None if it holds no items.
    fn silent(&self) -> Option<Duration> {
        let state = self.state();
        (!state.waiting.is_empty()).then(|| state.silent_since.elapsed())
    }

    /// Waits until the program has answered nothing for too long while it held items. Returns the
    /// timeout.
    pub(super) async fn timed_out(&self) -> Duration {
        let Some(limit) = self.timeout else { return std::future::pending().await };
        loop {
            match self.silent().map(|silent| limit.saturating_sub(silent)) {
                None => self.is_busy.notified().await,
                Some(Duration::ZERO) => return limit,
                Some(left) => tokio::time::sleep(left).await,
            }
        }
    }

    /// Revokes the items of a dropped batch, and kills the program if it does not give them up.
    fn withdraw(self: &Arc<Self>, first: u64) {
        let mut state = self.state();
        let Some(waiting) = state.waiting.remove(&first) else { return };
        let unanswered = (first..).zip(&waiting.answers).filter(|(_, answer)| answer.is_none());
        let ids: Vec<u64> = unanswered.map(|(id, _)| id).collect();
        state.revoked.extend(&ids);
        message::revoke(&mut state.out, &ids);
        drop(state);
        self.to_write.notify_one();
        let link = Arc::clone(self);
        // The future may be dropped outside of the runtime.
        self.runtime.spawn(async move {
            tokio::time::sleep(link.grace).await;
            if ids.iter().any(|id| link.state().revoked.contains(id)) {
                link.end(PersistentError::Deaf { milliseconds: link.grace.as_millis() });
            }
        });
    }

    /// Takes the pending output; none if nothing will follow.
    pub(super) fn take_output(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        let is_last = state.ended.is_some() || state.is_closing && state.out.is_empty();
        (!is_last).then(|| std::mem::take(&mut state.out))
    }

    /// Closes the input of the program, so that it exits.
    pub(super) fn close(&self) {
        self.state().is_closing = true;
        self.to_write.notify_one();
    }

    /// Kills the program and fails all pending batches with the error.
    pub(super) fn end(&self, error: PersistentError) {
        let mut state = self.state();
        if state.ended.is_none() {
            let error = Arc::new(error);
            state.ended = Some(Arc::clone(&error));
            state.hello = None;
            let waiting = std::mem::take(&mut state.waiting);
            let in_hand: usize = waiting.values().map(|waiting| waiting.missing).sum();
            for waiting in waiting.into_values() {
                waiting.lose(Arc::clone(&error), in_hand + state.revoked.len() == 1);
            }
        }
        drop(state);
        self.to_write.notify_one();
        self.is_over.notify_one();
    }
}

impl State {
    fn receive(&mut self, message: Incoming<'_>) -> Result<(), PersistentError> {
        match message {
            Incoming::Hello { version: VERSION } => match self.hello.take() {
                // The receiver may have timed out.
                Some(hello) => {
                    let _gone = hello.send(());
                    Ok(())
                }
                None => Err(PersistentError::Malformed { line: "a second hello".to_owned() }),
            },
            Incoming::Hello { version: found } => Err(PersistentError::Version { found }),
            _ if self.hello.is_some() => Err(PersistentError::HelloNotFirst),
            Incoming::Done { id, output } => self.answer(id, Ok(output)),
            Incoming::Failed { id, detail, may_retry } => {
                let failure = if may_retry {
                    ItemFailure::retryable(detail)
                } else {
                    ItemFailure::permanent(ParkReason::Other, detail)
                };
                self.answer(id, Err(failure.own()))
            }
            Incoming::Revoked { id } => {
                if self.revoked.remove(&id) {
                    return Ok(());
                }
                Err(PersistentError::UnknownItem { id })
            }
        }
    }

    fn answer(
        &mut self,
        id: u64,
        outcome: Result<Vec<u8>, ItemFailure>,
    ) -> Result<(), PersistentError> {
        // A late answer to a revoked item is valid.
        if self.revoked.remove(&id) {
            return Ok(());
        }
        let unknown = PersistentError::UnknownItem { id };
        let batch = self.waiting.range_mut(..=id).next_back();
        let Some((first, waiting)) = batch else { return Err(unknown) };
        let (first, took) = (*first, waiting.begun.elapsed());
        let slot = usize::try_from(id - first).ok().and_then(|at| waiting.answers.get_mut(at));
        match slot {
            Some(slot @ None) => *slot = Some(Answer { took, outcome }),
            Some(Some(_)) | None => return Err(unknown),
        }
        waiting.missing -= 1;
        if waiting.missing == 0
            && let Some(Waiting { answers, sender, .. }) = self.waiting.remove(&first)
        {
            // The receiver may have been dropped.
            let _gone = sender.send(Answers { answers, lost: None, was_alone: false });
        }
        Ok(())
    }
}

impl Waiting {
    fn lose(self, error: Arc<PersistentError>, was_alone: bool) {
        let Self { answers, sender, .. } = self;
        let _gone = sender.send(Answers { answers, lost: Some(error), was_alone });
    }
}

/// A batch that a program holds. Dropping it revokes the unanswered items.
pub(super) struct Ticket {
    link: Arc<Link>,
    first: u64,
    answers: oneshot::Receiver<Answers>,
}

impl Ticket {
    pub(super) async fn answers(mut self) -> Answers {
        // The sender was used, or is in the link, which this ticket holds.
        (&mut self.answers).await.unwrap_or_default()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.link.withdraw(self.first);
    }
}
