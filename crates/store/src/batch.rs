//! Group commit: commits that wait at the same moment go to the engine together.
//!
//! Callers queue in the order in which they arrive, and each then leads if there is no leader: it
//! takes as many from the front as may go together and has the engine start them. So a single
//! caller commits on its own thread, and there is no task of the batcher that could die. When a
//! leader has its own answer and others still wait, it wakes the first of them. When a batch is
//! over that was carried out elsewhere, the engine starts the next.
//!
//! No caller leads while it waits for something, so that no caller holds up the others, whether it
//! is slow, goes away, or is never polled again. In that last case the wake-up is lost, and the
//! queue stands still until the next caller comes or [`Batcher::start_waiting`] is called. So
//! a leader of an engine that decides elsewhere wakes no caller: it starts all that can be started.
//!
//! An engine may carry out several batches at a time. The next is started beside others only if at
//! least as many wait for it as are under way: a request costs a server as much as dozens of
//! commits do, so a few do better to go with those who come back when a large batch is over. Of a
//! batch that takes unusually long the engine says so, and it does not count any more.
//!
//! Two commits go together only if neither writes what the other looks at or writes. Engines judge
//! all commits of a batch against the state before it, so two that exclude each other would both
//! pass. A commit that clashes closes the batch and is the first of the next one. None overtakes
//! another.
//!
//! What a caller that goes away has queued is left out, or runs to its end unheard.

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

/// How much a batch carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchSize {
    /// Commits.
    pub(crate) commits: usize,
    /// Expectations and writes of all commits.
    pub(crate) operations: usize,
    /// The most expectations, or writes, that one commit has.
    pub(crate) longest: usize,
    /// Bytes of all keys and values.
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

/// What carries batches out.
pub(crate) trait BatchEngine: Send + Sync + 'static {
    /// Whether a batch of this size may be sent. One commit alone is always sent.
    fn fits(&self, size: &BatchSize) -> bool;

    /// How many batches may be under way at the same time.
    fn in_flight(&self) -> usize;

    /// Whether batches are decided where they are started. Then a caller with its own answer leads
    /// no further, because it would do the work of others; and a thread with a clock has to call
    /// [`Batcher::start_waiting`] now and then.
    fn decides_in_start(&self) -> bool;

    /// Carries a batch out, at once or somewhere else, but without waiting for anything but a disk.
    ///
    /// What waits longer moves the batch to a task or a thread. The caller that happens to lead may
    /// go away at any time, so nothing of the batch may depend on it.
    fn start(self: &Arc<Self>, batch: CommitBatch);
}

/// Puts commits together for an engine.
pub(crate) struct Batcher<E> {
    core: Arc<Core<E>>,
}

struct Core<E> {
    engine: Arc<E>,
    queue: Queue,
}

/// What a batch comes back to.
trait BatchOwner: Send + Sync {
    /// A batch of so many is over; these of its members are to be sent again.
    fn welcome(self: Arc<Self>, commits: usize, again: Vec<Member>);

    /// So many commits that are under way are not worth waiting for.
    fn excuse(self: Arc<Self>, commits: usize);

    /// Has a caller see whether something can be started.
    fn wake_up(self: Arc<Self>);
}

impl<E: BatchEngine> Batcher<E> {
    /// Serves an engine.
    pub(crate) fn new(engine: Arc<E>) -> Self {
        Self { core: Arc::new(Core { engine, queue: Queue::default() }) }
    }

    /// The engine.
    #[must_use]
    pub(crate) fn engine(&self) -> &Arc<E> {
        &self.core.engine
    }

    /// Commits, perhaps together with others. If the future is dropped, the commit may or may not
    /// happen.
    pub(crate) async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        let (sender, mut reply) = oneshot::channel();
        let mut member = Some(Member::new(commit, sender));
        let has_company = poll_fn(|context| {
            let member = member.take();
            Poll::Ready(member.is_some_and(|it| self.core.queue.join(it, context.waker())))
        });
        if has_company.await {
            // Others commit as well. Those that are ready to run may come along.
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

    /// Starts what waits and could be under way. Callers do so themselves; this is for a
    /// thread with a clock, so that a caller that is never polled again does not block others.
    pub(crate) fn start_waiting(&self) {
        self.core.lead(None);
    }
}

impl<E: BatchEngine> Core<E> {
    /// Starts batches until the leader has its own answer, or nothing more can be started.
    fn lead(self: &Arc<Self>, own: Option<&oneshot::Receiver<Reply>>) {
        let is_answered = || own.is_some_and(|own| !own.is_empty());
        let is_done = || self.engine.decides_in_start() && is_answered();
        // Others have just come and will lead when they have let others join them; who has its
        // answer already would only break up their batch.
        if is_answered() || !self.queue.begin() {
            return;
        }
        let mut leading = Leading { core: self, given_up: false };
        let slots = self.slots();
        let fits = |size: &BatchSize| self.engine.fits(size);
        while let Some(members) = self.queue.next_batch(slots, &fits) {
            let (counted, owner) = (AtomicUsize::new(members.len()), Arc::clone(self) as _);
            self.engine.start(CommitBatch { members, counted, again: Vec::new(), owner });
            if is_done() {
                return;
            }
        }
        leading.given_up = true;
    }

    fn slots(&self) -> usize {
        self.engine.in_flight().max(1)
    }
}

impl<E: BatchEngine> BatchOwner for Core<E> {
    fn welcome(self: Arc<Self>, commits: usize, again: Vec<Member>) {
        self.queue.release(commits, again);
        self.lead(None);
    }

    fn excuse(self: Arc<Self>, commits: usize) {
        self.queue.excuse(commits);
        self.lead(None);
    }

    fn wake_up(self: Arc<Self>) {
        let wake_up = || LeaderWakeUp { owner: Some(Arc::clone(&self) as _) };
        self.queue.wake_up(self.slots(), wake_up);
    }
}

/// Leadership, until this is dropped. Then another caller may lead, if any waits.
struct Leading<'c, E: BatchEngine> {
    core: &'c Arc<Core<E>>,
    given_up: bool,
}

impl<E: BatchEngine> Drop for Leading<'_, E> {
    fn drop(&mut self) {
        if !self.given_up {
            self.core.queue.end();
            Arc::clone(self.core).wake_up();
        }
    }
}

/// Asks a caller to lead. If the caller goes away before it does, the next one is asked.
struct LeaderWakeUp {
    owner: Option<Arc<dyn BatchOwner>>,
}

impl LeaderWakeUp {
    /// It was heard, or never said.
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

/// Commits that go to the engine together; no two of them clash.
///
/// A batch that is dropped without an answer answers all its callers that the outcome is unknown.
#[must_use = "callers wait for the answer"]
pub(crate) struct CommitBatch {
    members: Vec<Member>,
    /// How many commits of it count as under way.
    counted: AtomicUsize,
    again: Vec<Member>,
    owner: Arc<dyn BatchOwner>,
}

impl CommitBatch {
    /// The commits, in the order in which they came.
    pub(crate) fn commits(&self) -> impl ExactSizeIterator<Item = &Commit> {
        self.members.iter().map(|member| &member.commit)
    }

    /// How long the one that came first has waited.
    #[must_use]
    pub(crate) fn waited(&self) -> Duration {
        let waited = self.members.iter().map(|member| member.since.elapsed());
        waited.max().unwrap_or_default()
    }

    /// It takes unusually long: later callers do not wait for it if there is another way.
    pub(crate) fn stalls(&self) {
        let counted = self.counted.swap(0, Ordering::Relaxed);
        Arc::clone(&self.owner).excuse(counted);
    }

    /// Answers each commit, in their order.
    pub(crate) fn finish(
        mut self,
        results: impl IntoIterator<Item = Result<Revision, CommitError>>,
    ) {
        let mut results = results.into_iter();
        for member in self.members.drain(..) {
            member.answer(results.next().unwrap_or_else(|| Err(interrupted())));
        }
    }

    /// Answers the commits that are decided, in their order, and ends the batch. The others are
    /// answered apart, and no caller waits for them.
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

    /// Answers all commits alike.
    pub(crate) fn fail(mut self, error: &CommitError) {
        for member in self.members.drain(..) {
            member.answer(Err(error.clone()));
        }
    }

    /// The engine has applied none of the commits, for a reason that one of them has. If there is
    /// only one, that is its answer; else each is sent again, alone.
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
        Arc::clone(&self.owner).welcome(counted, std::mem::take(&mut self.again));
    }
}

impl fmt::Debug for CommitBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitBatch").field("members", &self.members).finish_non_exhaustive()
    }
}

/// Commits of a batch that is over, whose callers still wait.
///
/// If they are dropped without an answer, the callers hear that the outcome is unknown.
#[must_use = "callers wait for the answer"]
pub(crate) struct Undecided {
    members: Vec<Member>,
}

impl Undecided {
    /// The commits, in the order in which they came.
    pub(crate) fn commits(&self) -> impl ExactSizeIterator<Item = &Commit> {
        self.members.iter().map(|member| &member.commit)
    }

    /// Answers each commit, in their order.
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

/// Lets the executor run what else is ready, once.
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
