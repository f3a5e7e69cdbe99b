//! Group commit: commits that wait at the same moment go to the engine together.
//!
//! Callers queue up in the order in which they come. One of them leads: it takes as many from the
//! front as may go together and has the engine start them. When a leader has its own answer and
//! others still wait, it hands the lead to the first of them. So a caller that is alone commits
//! where it stands, with no thread and no task in between, and there is no task of the batcher
//! that could die.
//!
//! Two commits go together only if neither writes what the other looks at or writes. Engines judge
//! all commits of a batch against the state before it, so two that exclude each other would both
//! pass. A commit that clashes closes the batch and leads the next one; nobody overtakes.
//!
//! A caller may stop waiting at any time. What it has queued is then left out, or runs to its end
//! unheard; if it leads, or was just told to, the lead goes on to the next.

mod queue;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::sync::oneshot;

use self::queue::{Leadership, Member, Queue, Reply};
use crate::commit::Commit;
use crate::error::{CommitError, Fault, FaultKind};
use crate::store::Revision;

/// How much a batch carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchSize {
    /// Commits.
    pub commits: usize,
    /// Expectations and writes of all commits.
    pub operations: usize,
    /// The most expectations, or writes, that one commit has.
    pub longest: usize,
    /// Bytes of all keys and values.
    pub bytes: usize,
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
pub trait BatchEngine: Send + Sync + 'static {
    /// Whether a batch of this size may be sent. One commit alone is always sent.
    fn fits(&self, size: &BatchSize) -> bool;

    /// How many batches may be under way at the same time.
    fn in_flight(&self) -> usize;

    /// Carries a batch out, at once or somewhere else, but without waiting for anything but a disk.
    ///
    /// What waits longer moves the batch to a task or a thread. The caller that happens to lead may
    /// go away at any time, so nothing of the batch may depend on it.
    fn start(self: &Arc<Self>, batch: Batch);
}

/// Puts commits together for an engine.
#[derive(Debug)]
pub struct Batcher<E> {
    engine: Arc<E>,
    queue: Arc<Queue>,
}

impl<E: BatchEngine> Batcher<E> {
    /// Serves an engine.
    pub fn new(engine: Arc<E>) -> Self {
        Self { engine, queue: Arc::default() }
    }

    /// The engine.
    pub const fn engine(&self) -> &Arc<E> {
        &self.engine
    }

    /// Commits, perhaps together with others. If the future is dropped, the commit may or may not
    /// happen.
    pub async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        let (sender, mut reply) = oneshot::channel();
        let mut member = Some(Member::new(commit, sender));
        let joined = poll_fn(|context| {
            Poll::Ready(member.take().map(|member| self.queue.join(member, context.waker())))
        });
        let Some(joined) = joined.await else { return Err(interrupted()) };
        let mut leadership = joined.leadership;
        if leadership.is_some() && joined.has_company {
            // Others commit as well. Those that are ready to run may come along.
            let_others_run().await;
        }
        loop {
            if let Some(leadership) = leadership.take() {
                self.lead(leadership, &mut reply);
            }
            match reply.await {
                Ok(Reply::Decided(result)) => return result,
                Ok(Reply::Lead(next, lead)) => {
                    reply = next;
                    leadership = Some(lead);
                }
                Err(_) => return Err(interrupted()),
            }
        }
    }

    /// Starts batches until the leader has its own answer, or nothing more can be started.
    fn lead(&self, mut leadership: Leadership, own: &mut oneshot::Receiver<Reply>) {
        let slots = self.engine.in_flight().max(1);
        let fits = |size: &BatchSize| self.engine.fits(size);
        while let Some((batch, lead)) = leadership.next_batch(slots, &fits) {
            leadership = lead;
            self.engine.start(batch);
            if !own.is_empty() {
                // Dropping the leadership hands it on.
                return;
            }
        }
    }
}

impl<E> Clone for Batcher<E> {
    fn clone(&self) -> Self {
        Self { engine: Arc::clone(&self.engine), queue: Arc::clone(&self.queue) }
    }
}

/// Commits that go to the engine together; no two of them clash.
///
/// A batch that is dropped without an answer answers all its callers that the outcome is unknown.
#[derive(Debug)]
#[must_use = "callers wait for the answer"]
pub struct Batch {
    members: Vec<Member>,
    queue: Arc<Queue>,
}

impl Batch {
    /// The commits, in the order in which they came.
    pub fn commits(&self) -> impl ExactSizeIterator<Item = &Commit> {
        self.members.iter().map(|member| &member.commit)
    }

    /// Answers each commit, in their order.
    pub fn finish(mut self, results: impl IntoIterator<Item = Result<Revision, CommitError>>) {
        let mut results = results.into_iter();
        for member in self.members.drain(..) {
            member.answer(results.next().unwrap_or_else(|| Err(interrupted())));
        }
    }

    /// Answers all commits alike.
    pub fn fail(mut self, error: &CommitError) {
        for member in self.members.drain(..) {
            member.answer(Err(error.clone()));
        }
    }

    /// The engine has applied none of the commits, for a reason that one of them has. If there is
    /// only one, that is its answer; else each is sent again, alone.
    pub fn refuse(mut self, error: CommitError) {
        if self.members.len() > 1 {
            self.queue.return_alone(std::mem::take(&mut self.members));
        } else if let Some(member) = self.members.pop() {
            member.answer(Err(error));
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        for member in self.members.drain(..) {
            member.answer(Err(interrupted()));
        }
        Queue::release(&self.queue);
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
        Waker::wake_by_ref(context.waker());
        Poll::Pending
    })
    .await;
}
