//! Group commit: the batcher sends waiting commits to the engine in one batch.
//!
//! Callers queue in order of arrival. A caller leads if there is no leader: it takes as many
//! commits from the front as fit together, and starts them on the engine. A single caller thus
//! commits on its own thread, and no task of the batcher can die. A leader that has its own answer
//! wakes the first of the callers that still wait. When a batch that ran elsewhere is done, the
//! engine starts the next.
//!
//! A caller never leads while it waits, so a slow, cancelled or unpolled caller does not block the
//! others. A caller that is never polled again loses its wake-up. Then the queue stands still until
//! the next caller arrives or [`Batcher::start_waiting`] is called. So the leader of an engine that
//! decides elsewhere wakes no caller: it starts everything that can be started.
//!
//! An engine may run several batches at a time. The batcher starts one beside others only if it has
//! at least as many commits as are in flight. A request costs a server as much as dozens of
//! commits, so a few commits do better to join the next large batch. A batch that the engine
//! reports as stalled no longer counts as in flight.
//!
//! Two commits share a batch only if neither writes a key that the other expects or writes. Engines
//! judge all commits of a batch against the state before it, so two that exclude each other would
//! both pass. A conflicting commit closes the batch and starts the next one. No commit overtakes
//! another.
//!
//! A commit whose caller is dropped is skipped, or runs to its end without a receiver.

mod queue;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;

use self::queue::{Member, Queue, Reply};
use crate::commit::Commit;
use crate::error::{CommitError, Fault, FaultKind};
use crate::store::Revision;

/// The size of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchSize {
    /// The number of commits.
    pub(crate) commits: usize,
    /// The expectations and writes of all commits.
    pub(crate) operations: usize,
    /// The largest number of expectations, or of writes, of one commit.
    pub(crate) longest: usize,
    /// The bytes of all keys and values.
    pub(crate) bytes: usize,
}

impl BatchSize {
    fn add(&mut self, commit: &Commit) {
        let (expectations, writes) = (commit.expectations().len(), commit.writes().len());
        self.commits += 1;
        self.operations += expectations + writes;
        self.longest = self.longest.max(expectations).max(writes);
        self.bytes += commit.bytes();
    }
}

/// The store's side of a batcher: it applies batches.
pub(crate) trait BatchEngine: Send + Sync + 'static {
    /// Whether a batch of this size fits. A single commit is always sent.
    fn fits(&self, size: &BatchSize) -> bool;

    /// The largest number of batches in flight.
    fn in_flight(&self) -> usize;

    /// Whether `start` decides a batch before it returns. Then a leader stops once it has its own
    /// answer, because it would do the work of others. A thread with a clock has to call
    /// [`Batcher::start_waiting`] regularly.
    fn decides_in_start(&self) -> bool;

    /// Applies a batch, inside the call or elsewhere. The call may wait for a disk and for nothing
    /// else.
    ///
    /// An engine that waits longer moves the batch to a task or a thread. The batch must not depend
    /// on the caller that leads, because that caller may be dropped at any time.
    fn start(self: &Arc<Self>, batch: CommitBatch);
}

/// Joins commits into batches for an engine.
pub(crate) struct Batcher<E> {
    core: Arc<Core<E>>,
}

struct Core<E> {
    engine: Arc<E>,
    queue: Queue,
}

/// Receives the end of a batch.
trait BatchOwner: Send + Sync {
    /// A batch with `commits` counted commits is done. The members in `again` are sent again.
    fn finished(self: Arc<Self>, commits: usize, again: Vec<Member>);

    /// Stops counting `commits` commits as in flight, because their batch has stalled.
    fn discount(self: Arc<Self>, commits: usize);

    /// Wakes a caller, which starts a batch if one can be started.
    fn wake_up(self: Arc<Self>);
}

impl<E: BatchEngine> Batcher<E> {
    /// A batcher for an engine.
    pub(crate) fn new(engine: Arc<E>) -> Self {
        Self { core: Arc::new(Core { engine, queue: Queue::default() }) }
    }

    /// The engine.
    #[must_use]
    pub(crate) fn engine(&self) -> &Arc<E> {
        &self.core.engine
    }

    /// Commits, perhaps in a batch with others. If the future is dropped, the outcome is unknown.
    pub(crate) async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        let (sender, mut reply) = oneshot::channel();
        let mut member = Some(Member::new(commit, sender));
        let has_others = poll_fn(|context| {
            let member = member.take();
            Poll::Ready(member.is_some_and(|it| self.core.queue.join(it, context.waker())))
        });
        if has_others.await {
            // Other callers commit as well. Those that are ready to run may join the batch.
            let_others_run().await;
        }
        self.core.lead(Some(&reply));
        loop {
            match reply.await {
                Ok(Reply::Decided(result)) => return result,
                Ok(Reply::Lead(next, wake_up)) => {
                    reply = next;
                    wake_up.cancel();
                    self.core.lead(Some(&reply));
                }
                Err(_) => return Err(interrupted()),
            }
        }
    }

    /// Starts the batches that can be started. Callers do so themselves. This call is for a thread
    /// with a clock, so that a caller that is never polled again does not block others.
    pub(crate) fn start_waiting(&self) {
        self.core.lead(None);
    }
}

impl<E: BatchEngine> Core<E> {
    /// Starts batches until the leader has its own answer, or nothing more can be started.
    fn lead(self: &Arc<Self>, own: Option<&oneshot::Receiver<Reply>>) {
        let is_answered = || own.is_some_and(|own| !own.is_empty());
        let is_done = || self.engine.decides_in_start() && is_answered();
        // Callers that have just arrived lead after a yield. A leader that already has its answer
        // would only split their batch.
        if is_answered() || !self.queue.begin() {
            return;
        }
        let mut leading = Leading { core: self, ended: false };
        let slots = self.slots();
        let fits = |size: &BatchSize| self.engine.fits(size);
        while let Some(members) = self.queue.next_batch(slots, &fits) {
            let (counted, owner) = (AtomicUsize::new(members.len()), Arc::clone(self) as _);
            self.engine.start(CommitBatch { members, counted, again: Vec::new(), owner });
            if is_done() {
                return;
            }
        }
        leading.ended = true;
    }

    fn slots(&self) -> usize {
        self.engine.in_flight().max(1)
    }
}

impl<E: BatchEngine> BatchOwner for Core<E> {
    fn finished(self: Arc<Self>, commits: usize, again: Vec<Member>) {
        self.queue.release(commits, again);
        self.lead(None);
    }

    fn discount(self: Arc<Self>, commits: usize) {
        self.queue.discount(commits);
        self.lead(None);
    }

    fn wake_up(self: Arc<Self>) {
        let wake_up = || LeaderWakeUp { owner: Some(Arc::clone(&self) as _) };
        self.queue.wake_up(self.slots(), wake_up);
    }
}

/// Leadership, until this is dropped. Then another waiting caller may lead.
struct Leading<'c, E: BatchEngine> {
    core: &'c Arc<Core<E>>,
    ended: bool,
}

impl<E: BatchEngine> Drop for Leading<'_, E> {
    fn drop(&mut self) {
        if !self.ended {
            self.core.queue.end();
            Arc::clone(self.core).wake_up();
        }
    }
}

/// Wakes a caller to lead. If the caller is dropped before it does, the next one is woken.
struct LeaderWakeUp {
    owner: Option<Arc<dyn BatchOwner>>,
}

impl LeaderWakeUp {
    /// The wake-up was received, or is not needed.
    fn cancel(mut self) {
        self.owner = None;
    }
}

impl Drop for LeaderWakeUp {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.take() {
            owner.wake_up();
        }
    }
}

impl fmt::Debug for LeaderWakeUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderWakeUp").finish_non_exhaustive()
    }
}

impl<E> Clone for Batcher<E> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core) }
    }
}

impl<E> fmt::Debug for Batcher<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").field("queue", &self.core.queue).finish_non_exhaustive()
    }
}

/// Commits that the engine gets together. No two of them conflict.
///
/// Dropping a batch without an answer reports an unknown outcome to its callers.
#[must_use = "callers wait for the answer"]
pub(crate) struct CommitBatch {
    members: Vec<Member>,
    /// The number of commits that count as in flight.
    counted: AtomicUsize,
    again: Vec<Member>,
    owner: Arc<dyn BatchOwner>,
}

impl CommitBatch {
    /// The commits, in order of arrival.
    pub(crate) fn commits(&self) -> impl ExactSizeIterator<Item = &Commit> {
        self.members.iter().map(|member| &member.commit)
    }

    /// The waiting time of the first commit.
    #[must_use]
    pub(crate) fn waited(&self) -> Duration {
        let waited = self.members.iter().map(|member| member.since.elapsed());
        waited.max().unwrap_or_default()
    }

    /// Reports a stalled batch. Later callers do not wait for it if another batch can be started.
    pub(crate) fn report_stall(&self) {
        let counted = self.counted.swap(0, Ordering::Relaxed);
        Arc::clone(&self.owner).discount(counted);
    }

    /// Answers each commit, in the same order.
    pub(crate) fn finish(
        mut self,
        results: impl IntoIterator<Item = Result<Revision, CommitError>>,
    ) {
        let mut results = results.into_iter();
        for member in self.members.drain(..) {
            member.answer(results.next().unwrap_or_else(|| Err(interrupted())));
        }
    }

    /// Answers the decided commits in their order and ends the batch. The rest are answered later,
    /// and no other caller waits for them.
    pub(crate) fn part(
        mut self,
        decided: impl IntoIterator<Item = Option<Result<Revision, CommitError>>>,
    ) -> Undecided {
        let mut decided = decided.into_iter();
        let mut members = Vec::new();
        for member in self.members.drain(..) {
            match decided.next().unwrap_or_else(|| Some(Err(interrupted()))) {
                Some(result) => member.answer(result),
                None => members.push(member),
            }
        }
        Undecided { members }
    }

    /// Answers all commits with the same error.
    pub(crate) fn fail(mut self, error: &CommitError) {
        for member in self.members.drain(..) {
            member.answer(Err(error.clone()));
        }
    }

    /// The engine applied nothing, because of one of the commits. A single commit gets the error.
    /// Otherwise each commit is sent again in a batch of its own.
    pub(crate) fn refuse(mut self, error: CommitError) {
        if self.members.len() > 1 {
            self.again = std::mem::take(&mut self.members);
        } else if let Some(member) = self.members.pop() {
            member.answer(Err(error));
        }
    }
}

impl Drop for CommitBatch {
    fn drop(&mut self) {
        for member in self.members.drain(..) {
            member.answer(Err(interrupted()));
        }
        let counted = self.counted.load(Ordering::Relaxed);
        Arc::clone(&self.owner).finished(counted, std::mem::take(&mut self.again));
    }
}

impl fmt::Debug for CommitBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitBatch").field("members", &self.members).finish_non_exhaustive()
    }
}

/// Commits of a finished batch that still have no answer.
///
/// Dropping them reports an unknown outcome to their callers.
#[must_use = "callers wait for the answer"]
pub(crate) struct Undecided {
    members: Vec<Member>,
}

impl Undecided {
    /// The commits, in order of arrival.
    pub(crate) fn commits(&self) -> impl ExactSizeIterator<Item = &Commit> {
        self.members.iter().map(|member| &member.commit)
    }

    /// Answers each commit, in the same order.
    pub(crate) fn finish(
        mut self,
        results: impl IntoIterator<Item = Result<Revision, CommitError>>,
    ) {
        for (member, result) in self.members.drain(..).zip(results) {
            member.answer(result);
        }
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        for member in self.members.drain(..) {
            member.answer(Err(interrupted()));
        }
    }
}

impl fmt::Debug for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undecided").field("members", &self.members).finish_non_exhaustive()
    }
}

fn interrupted() -> CommitError {
    let message = "the commit was interrupted before the store answered";
    CommitError::Unknown(Fault::new(FaultKind::Other, message))
}

/// Yields once to the executor.
async fn let_others_run() {
    let mut ran = false;
    poll_fn(|context| {
        if std::mem::replace(&mut ran, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
