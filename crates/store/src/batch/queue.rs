//! Waiting callers, and the number of batches in flight.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use tokio::sync::oneshot;

use super::{BatchSize, LeaderWakeUp};
use crate::commit::Commit;
use crate::error::CommitError;
use crate::key::Key;
use crate::store::Revision;

/// Message to a waiting caller.
#[derive(Debug)]
pub(super) enum Reply {
    /// The outcome of the caller's commit.
    Decided(Result<Revision, CommitError>),
    /// Start a batch if one can be started. The answer will come through the new channel. The
    /// channel is the first field so that it is dropped first: a wake-up that is not received must
    /// not come back to a dropped caller.
    Lead(oneshot::Receiver<Self>, LeaderWakeUp),
}

/// A commit and the caller that waits for it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) commit: Commit,
    reply: oneshot::Sender<Reply>,
    /// When it arrived.
    pub(super) since: Instant,
    /// Whether it needs a batch of its own.
    alone: bool,
}

impl Member {
    pub(super) fn new(commit: Commit, reply: oneshot::Sender<Reply>) -> Self {
        Self { commit, reply, since: Instant::now(), alone: false }
    }

    pub(super) fn answer(self, result: Result<Revision, CommitError>) {
        // A dropped caller needs no answer.
        let _gone = self.reply.send(Reply::Decided(result));
    }
}

/// The waiting callers, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Member>,
    /// The number of batches in flight.
    in_flight: usize,
    /// The number of commits in flight, without those of stalled batches.
    under_way: usize,
    /// Whether a caller is starting batches right now. A leader never waits.
    led: bool,
    /// The latest caller, to distinguish a single caller from many that alternate.
    last_caller: Option<Waker>,
}

impl Queue {
    /// Appends a member. Returns whether the previous one came from another caller.
    pub(super) fn join(&self, member: Member, caller: &Waker) -> bool {
        let mut state = self.lock();
        // `will_wake` also compares function tables, of which a compiler may keep several copies.
        let same = state.last_caller.as_ref().is_some_and(|last| last.data() == caller.data());
        let has_others = !same && state.last_caller.is_some();
        if !same {
            state.last_caller = Some(caller.clone());
        }
        state.waiting.push_back(member);
        has_others
    }

    /// Starts to lead. Returns false if another caller leads.
    pub(super) fn begin(&self) -> bool {
        !std::mem::replace(&mut self.lock().led, true)
    }

    /// Takes the next batch from the front. Returns `None` and ends leading if no caller waits, all
    /// slots are used, or too few commits wait for a batch beside others.
    pub(super) fn next_batch(
        &self,
        slots: usize,
        fits: &dyn Fn(&BatchSize) -> bool,
    ) -> Option<Vec<Member>> {
        let mut state = self.lock();
        state.waiting.retain(|member| !member.reply.is_closed());
        let is_worth_it = state.waiting.len() >= state.under_way;
        if state.waiting.is_empty() || state.in_flight >= slots || !is_worth_it {
            state.led = false;
            return None;
        }
        let count = count_together(&state.waiting, fits);
        state.in_flight += 1;
        state.under_way += count;
        Some(state.waiting.drain(..count).collect())
    }

    /// Ends leading, though commits may still wait.
    pub(super) fn end(&self) {
        self.lock().led = false;
    }

    /// A batch with `commits` counted commits is done. The members in `again` need a batch of their
    /// own each.
    pub(super) fn release(&self, commits: usize, again: Vec<Member>) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.under_way = state.under_way.saturating_sub(commits);
        for mut member in again.into_iter().rev() {
            member.alone = true;
            state.waiting.push_front(member);
        }
    }

    /// Stops counting `commits` commits as in flight, because their batch has stalled.
    pub(super) fn discount(&self, commits: usize) {
        let mut state = self.lock();
        state.under_way = state.under_way.saturating_sub(commits);
    }

    /// Wakes the first waiting caller, if a batch can be started.
    pub(super) fn wake_up(&self, slots: usize, wake_up: impl Fn() -> LeaderWakeUp) {
        loop {
            let mut state = self.lock();
            while state.waiting.front().is_some_and(|member| member.reply.is_closed()) {
                state.waiting.pop_front();
            }
            let idle = !state.led && state.in_flight < slots;
            let Some(first) = state.waiting.front_mut().filter(|_| idle) else { return };
            let (reply, later) = oneshot::channel();
            let before = std::mem::replace(&mut first.reply, reply);
            drop(state);
            // Without the lock, because it wakes a caller.
            match before.send(Reply::Lead(later, wake_up())) {
                Err(Reply::Lead(_, unheard)) => unheard.cancel(),
                Ok(()) | Err(Reply::Decided(_)) => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock. Even then the state would be consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many members from the front fit into one batch: at least one, if any waits.
fn count_together(waiting: &VecDeque<Member>, fits: &dyn Fn(&BatchSize) -> bool) -> usize {
    if waiting.len() <= 1 || waiting.front().is_some_and(|first| first.alone) {
        return waiting.len().min(1);
    }
    let mut size = BatchSize::default();
    let mut touched = HashMap::new();
    for Member { commit, alone, .. } in waiting {
        let count = size.commits;
        size.add(commit);
        if count > 0 && (*alone || !fits(&size)) || clashes(&mut touched, commit, count) {
            return count;
        }
    }
    size.commits
}

/// Whether a commit conflicts with an earlier one: one of them writes a key that the other expects
/// or writes. Otherwise records the keys that it touches, under its number in the batch.
fn clashes<'c>(touched: &mut HashMap<&'c Key, Touch>, commit: &'c Commit, number: usize) -> bool {
    let expected = commit.expectations().iter().map(|expected| (&expected.key, false));
    let written = commit.writes().iter().map(|write| (write.key(), true));
    for (key, is_written) in expected.chain(written) {
        match touched.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Touch { by: number, is_shared: false, is_written });
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.is_shared |= known.by != number;
                known.is_written |= is_written;
                known.by = number;
                if known.is_shared && known.is_written {
                    return true;
                }
            }
        }
    }
    false
}

/// How the commits of a batch touch a key.
struct Touch {
    /// The last commit that touches it.
    by: usize,
    /// Whether an earlier commit touches it.
    is_shared: bool,
    is_written: bool,
}
