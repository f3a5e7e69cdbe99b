//! Who waits, who leads, and how many batches are under way.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::oneshot;

use super::{Batch, BatchSize};
use crate::commit::Commit;
use crate::error::CommitError;
use crate::key::Key;
use crate::store::Revision;

/// What a waiting caller is told.
#[derive(Debug)]
pub(super) enum Reply {
    /// What became of its commit.
    Decided(Result<Revision, CommitError>),
    /// It leads now; its answer will come through the other channel. That stands first to be
    /// dropped first: a leadership that nobody takes must not come back to a caller that is gone.
    Lead(oneshot::Receiver<Self>, Leadership),
}

/// A commit and the caller that waits for it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) commit: Commit,
    reply: oneshot::Sender<Reply>,
    /// Whether it must not share a batch.
    alone: bool,
}

impl Member {
    pub(super) const fn new(commit: Commit, reply: oneshot::Sender<Reply>) -> Self {
        Self { commit, reply, alone: false }
    }

    pub(super) fn answer(self, result: Result<Revision, CommitError>) {
        // A caller that is gone needs no answer.
        let _gone = self.reply.send(Reply::Decided(result));
    }
}

/// The callers that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Member>,
    in_flight: usize,
    /// How many batches may be under way, as the last leader knew it.
    slots: usize,
    /// Whether a [`Leadership`] exists.
    led: bool,
    /// Who came last, to tell a caller that is alone from many that take turns.
    last_caller: Option<Waker>,
}

/// How a caller stands after it has joined the queue.
pub(super) struct Joined {
    /// There was no leader; the caller is it.
    pub(super) leadership: Option<Leadership>,
    /// Somebody else was here before.
    pub(super) has_company: bool,
}

impl Queue {
    pub(super) fn join(self: &Arc<Self>, member: Member, caller: &Waker) -> Joined {
        let mut state = self.lock();
        // `will_wake` also compares function tables, of which a compiler may keep several copies.
        let same = state.last_caller.as_ref().is_some_and(|last| last.data() == caller.data());
        let has_company = !same && state.last_caller.is_some();
        if !same {
            state.last_caller = Some(caller.clone());
        }
        state.waiting.push_back(member);
        let leads = !state.led && (state.in_flight == 0 || state.in_flight < state.slots);
        state.led |= leads;
        drop(state);
        Joined { leadership: leads.then(|| Leadership::new(self)), has_company }
    }

    /// Puts the members of a refused batch back in front, each to go alone.
    pub(super) fn return_alone(&self, members: Vec<Member>) {
        let mut state = self.lock();
        for mut member in members.into_iter().rev() {
            member.alone = true;
            state.waiting.push_front(member);
        }
    }

    /// A batch is over.
    pub(super) fn release(self: &Arc<Self>) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        let leaderless = !state.led && !state.waiting.is_empty();
        state.led |= leaderless;
        drop(state);
        if leaderless {
            drop(Leadership::new(self));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, and if it did, the state would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to start batches. There is at most one; dropping it hands it to the first caller that
/// still waits, if there is anything to start.
#[derive(Debug)]
pub(super) struct Leadership {
    queue: Arc<Queue>,
    given_up: bool,
}

impl Leadership {
    fn new(queue: &Arc<Queue>) -> Self {
        Self { queue: Arc::clone(queue), given_up: false }
    }

    /// Takes the next batch from the front. If there is none, or no room for one, the leadership
    /// is given up.
    pub(super) fn next_batch(
        mut self,
        slots: usize,
        fits: &dyn Fn(&BatchSize) -> bool,
    ) -> Option<(Batch, Self)> {
        let mut state = self.queue.lock();
        state.slots = slots;
        state.waiting.retain(|member| !member.reply.is_closed());
        if state.waiting.is_empty() || state.in_flight >= slots {
            state.led = false;
            drop(state);
            self.given_up = true;
            return None;
        }
        let count = count_together(&state.waiting, fits);
        let members = state.waiting.drain(..count).collect();
        state.in_flight += 1;
        drop(state);
        Some((Batch { members, queue: Arc::clone(&self.queue) }, self))
    }

    /// Hands the leadership to the first caller that still waits.
    fn pass_on(&mut self) {
        loop {
            let mut state = self.queue.lock();
            let full = state.in_flight > 0 && state.in_flight >= state.slots;
            while state.waiting.front().is_some_and(|member| member.reply.is_closed()) {
                state.waiting.pop_front();
            }
            let Some(first) = state.waiting.front_mut().filter(|_| !full) else {
                state.led = false;
                return;
            };
            let (reply, later) = oneshot::channel();
            let told = std::mem::replace(&mut first.reply, reply);
            drop(state);
            // Outside of the lock, for it wakes somebody.
            match told.send(Reply::Lead(later, Self::new(&self.queue))) {
                Ok(()) => return,
                // It went away just now. Its message carries a leadership that was never held.
                Err(Reply::Lead(_, mut unheard)) => unheard.given_up = true,
                Err(Reply::Decided(_)) => {}
            }
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        if !self.given_up {
            self.pass_on();
        }
    }
}

/// How many members from the front may go together; at least one, if there is any.
fn count_together(waiting: &VecDeque<Member>, fits: &dyn Fn(&BatchSize) -> bool) -> usize {
    if waiting.len() <= 1 || waiting.front().is_some_and(|first| first.alone) {
        return waiting.len().min(1);
    }
    let mut size = BatchSize::default();
    let mut looked_at: HashSet<&Key> = HashSet::new();
    let mut written: HashSet<&Key> = HashSet::new();
    for Member { commit, alone, .. } in waiting {
        let count = size.commits;
        size.add(commit);
        let clashes = commit.keys().any(|key| written.contains(key))
            || commit.writes().iter().any(|write| looked_at.contains(write.key()));
        if count > 0 && (*alone || clashes || !fits(&size)) {
            return count;
        }
        looked_at.extend(commit.keys());
        written.extend(commit.writes().iter().map(crate::commit::Write::key));
    }
    size.commits
}
