//! Waiting callers, and the number of batches under way.

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
    /// What became of its commit.
    Decided(Result<Revision, CommitError>),
    /// It should see whether something can be started; its answer will come through the other
    /// channel. That stands first to be dropped first: a wake-up that is not taken must not come
    /// back to a caller that is gone.
    Lead(oneshot::Receiver<Self>, LeaderWakeUp),
}

/// A commit and the caller that waits for it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) commit: Commit,
    reply: oneshot::Sender<Reply>,
    /// When it came.
    pub(super) since: Instant,
    /// Whether it must not share a batch.
    alone: bool,
}

impl Member {
    pub(super) fn new(commit: Commit, reply: oneshot::Sender<Reply>) -> Self {
        Self { commit, reply, since: Instant::now(), alone: false }
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
    /// Batches under way.
    in_flight: usize,
    /// The commits in those that are worth waiting for.
    under_way: usize,
    /// Whether a caller is starting batches right now. None does while it waits.
    led: bool,
    /// The latest caller, to distinguish a single caller from many that alternate.
    last_caller: Option<Waker>,
}

impl Queue {
    /// Puts a member at the end. Returns whether the one before came from another caller.
    pub(super) fn join(&self, member: Member, caller: &Waker) -> bool {
        let mut state = self.lock();
        // `will_wake` also compares function tables, of which a compiler may keep several copies.
        let same = state.last_caller.as_ref().is_some_and(|last| last.data() == caller.data());
        let has_company = !same && state.last_caller.is_some();
        if !same {
            state.last_caller = Some(caller.clone());
        }
        state.waiting.push_back(member);
        has_company
    }

    /// Begins to lead. Returns false if another caller leads.
    pub(super) fn begin(&self) -> bool {
        !std::mem::replace(&mut self.lock().led, true)
    }

    /// Takes the next batch from the front, and leads on; or, if there is none, no room for one, or
    /// too little for one of its own, no longer leads.
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

    /// No longer leads, though there may be more.
    pub(super) fn end(&self) {
        self.lock().led = false;
    }

    /// A batch of so many is over. Some of its members may have to be sent again, each alone.
    pub(super) fn release(&self, commits: usize, again: Vec<Member>) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.under_way = state.under_way.saturating_sub(commits);
        for mut member in again.into_iter().rev() {
            member.alone = true;
            state.waiting.push_front(member);
        }
    }

    /// So many commits that are under way are not worth waiting for.
    pub(super) fn excuse(&self, commits: usize) {
        let mut state = self.lock();
        state.under_way = state.under_way.saturating_sub(commits);
    }

    /// Has the first caller that still waits see whether something can be started.
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
            // Outside of the lock, because it wakes a caller.
            match before.send(Reply::Lead(later, wake_up())) {
                Err(Reply::Lead(_, unheard)) => unheard.cancel(),
                Ok(()) | Err(Reply::Decided(_)) => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, and if it did, the state would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many members from the front may go together; at least one, if there is any.
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

/// Whether a commit writes what one before it looks at or writes, or the other way round; else
/// takes note of what it touches, and that it is the one of this number.
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

/// What commits of a batch do to a key.
struct Touch {
    /// The last of them.
    by: usize,
    /// Whether there was one before it.
    is_shared: bool,
    is_written: bool,
}
