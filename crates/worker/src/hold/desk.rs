//! Handing out the items of a shard, and taking in their outcomes.
//!
//! An item that failed waits for its retry while others are tried. Items are retried alone, so that
//! an item is not charged for another of its batch. An item that failed in a batch for an unclear
//! cause is first tried alone at once, and this try does not count against the policy. A failure of
//! the worker itself is retried with one item only, because all others would fail alike.
//!
//! After a stop nothing is retried, unless the cursor is past the item.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use shardwright_contracts::{BoxFuture, CursorSemantics};

use super::Holder;
use super::backlog::{Backlog, History, RUN_AHEAD_ITEMS, RUN_AHEAD_TIME, Restored, Waiting};
use super::crash_policy::CrashPolicy;
use super::feed::Feed;
use super::lease_cell::LeaseCell;
use crate::attempt::{Attempted, Tried, Try};
use crate::connector::Item;
use crate::error::WorkerError;
use crate::handler::{Assignment, FailureCause, ItemFailure, Outcome};
use crate::tracker::Ticket;
use crate::turns::{Loans, Turn, TurnRequest};

/// Items that may wait for a slow one, per item in progress.
pub(super) const WAITING_PER_RUNNING: usize = 8;
/// A wait that is shorter is waited in place.
const SHORT_WAIT: Duration = Duration::from_millis(20);

/// A batch in progress.
pub(super) struct Running<'w> {
    tickets: Vec<Ticket>,
    history: History,
    /// The borrowed turn, if the hold has no slot.
    _turn: Option<Turn>,
    tried: BoxFuture<'w, Vec<Tried>>,
}

/// A batch that was tried.
pub(super) struct Ran {
    tickets: Vec<Ticket>,
    history: History,
    tried: Vec<Tried>,
}

impl Future for Running<'_> {
    type Output = Ran;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ran> {
        let tried = ready!(self.tried.as_mut().poll(context));
        let (tickets, history) = (std::mem::take(&mut self.tickets), self.history);
        Poll::Ready(Ran { tickets, history, tried })
    }
}

/// Where a shard is worked on.
pub(super) enum Place<'p> {
    /// In a slot, which may lend turns.
    Slot(&'p mut Loans),
    /// Without a slot, with a request for a turn.
    Background(Option<TurnRequest>),
}

impl Place<'_> {
    /// The same place, for one of several shards in turn.
    pub(super) fn reborrow(&mut self) -> Place<'_> {
        match self {
            Self::Slot(loans) => Place::Slot(loans),
            Self::Background(_) => Place::Background(None),
        }
    }

    /// Waits for the requested turn, or for a lent turn to be returned.
    pub(super) async fn turn(&mut self) -> Option<Turn> {
        match self {
            Self::Slot(loans) => {
                loans.returned().await;
                None
            }
            Self::Background(Some(request)) => request.await.ok(),
            Self::Background(None) => std::future::pending().await,
        }
    }
}

/// What to do while the first item waits for a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    /// Split the item off, so that the results behind it can be committed.
    SetAside,
    /// Go on without the slot.
    LeaveSlot,
}

/// The items in hand of one shard, and those in progress.
pub(super) struct Desk<'w> {
    pub(super) holder: &'w Holder<'w>,
    pub(super) assignment: Assignment,
    pub(super) lease: &'w LeaseCell,
    pub(super) semantics: CursorSemantics,
    pub(super) backlog: Backlog,
    pub(super) running: FuturesUnordered<Running<'w>>,
    pub(super) place: Place<'w>,
    pub(super) crash_policy: CrashPolicy,
    /// Items started since the last commit.
    pub(super) started: u64,
    /// Items in progress that are tried again.
    retrying: usize,
    /// Whether a split was refused, so that items wait in place.
    pub(super) is_whole: bool,
    /// Why the worker cannot process any item.
    pub(super) unable: Option<WorkerError>,
}

impl<'w> Desk<'w> {
    pub(super) fn new(
        holder: &'w Holder<'w>,
        lease: &'w LeaseCell,
        semantics: CursorSemantics,
        backlog: Backlog,
        place: Place<'w>,
        crash_policy: CrashPolicy,
    ) -> Self {
        let (shard, fence) = (lease.lease().key(), lease.lease().fence());
        Self {
            holder,
            assignment: Assignment {
                run: shard.run,
                shard: shard.shard,
                fence,
                worker: holder.worker,
            },
            lease,
            semantics,
            started: backlog.tracker.len() as u64,
            backlog,
            running: FuturesUnordered::new(),
            place,
            crash_policy,
            retrying: 0,
            is_whole: false,
            unable: None,
        }
    }

    pub(super) fn batch_size(&self) -> usize {
        let most = usize::try_from(self.crash_policy.most_started()).unwrap_or(usize::MAX);
        self.holder.shared.handler.batch_size().min(most).max(1)
    }

    fn most_running(&self) -> usize {
        self.holder.shared.options.in_flight.max(1)
    }

    /// Most items in progress at a time.
    pub(super) fn most_in_hand(&self) -> usize {
        self.most_running().saturating_mul(self.batch_size())
    }

    /// How many items may still be started before the next commit.
    fn most_to_begin(&self) -> usize {
        let most = self.crash_policy.most_started().saturating_sub(self.started);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Whether all items that the crash policy allows at a time are done.
    pub(super) fn is_part_done(&self) -> bool {
        let is_done = match self.semantics {
            CursorSemantics::Completed => self.backlog.tracker.is_empty(),
            CursorSemantics::Dispatched => self.most_to_begin() == 0,
        };
        matches!(self.crash_policy, CrashPolicy::Careful { .. }) && is_done
    }

    /// Records that everything up to the cursor is committed.
    pub(super) fn note_committed(&mut self) {
        let uncommitted = match self.semantics {
            CursorSemantics::Completed => self.backlog.tracker.len() as u64,
            CursorSemantics::Dispatched => 0,
        };
        self.crash_policy.note_committed(self.started.saturating_sub(uncommitted));
        self.started = uncommitted;
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.holder.shared.stop.is_stopped() || self.lease.is_paused() || self.unable.is_some()
    }

    /// Whether items may be tried again. If the cursor may be past them, no later holder would.
    fn may_retry(&self) -> bool {
        self.semantics == CursorSemantics::Dispatched || !self.is_stopping()
    }

    /// Whether nothing is in progress, and nothing is tried again before the shard is released.
    pub(super) fn is_at_rest(&self) -> bool {
        let leaves = self.semantics == CursorSemantics::Completed;
        self.running.is_empty() && (leaves || self.backlog.waiting.is_empty())
    }

    /// Whether the next item to settle has failed permanently. What is behind it will be in another
    /// shard.
    pub(super) fn has_failed(&self) -> bool {
        self.semantics == CursorSemantics::Completed
            && self.backlog.tracker.done().any(|attempted| attempted.outcome.is_err())
    }

    /// Whether one more batch may be in progress.
    pub(super) fn has_room(&self) -> bool {
        let lent = match &self.place {
            Place::Slot(loans) => loans.len(),
            Place::Background(_) => 0,
        };
        self.running.len() + lent < self.most_running()
    }

    /// Hands out as many batches as may be in progress: first items to try again, then turns to
    /// holds without a slot, then new items.
    pub(super) fn hand_out(&mut self, now: Duration, may_lend: bool) {
        if self.has_failed() {
            return;
        }
        while self.has_room() {
            if self.may_retry()
                && let Some(ticket) = self.backlog.next_due(now)
            {
                if let Place::Background(request) = &mut self.place {
                    request.get_or_insert_with(|| self.holder.shared.turns.request());
                    return;
                }
                self.retry(ticket, None);
                continue;
            }
            if self.is_stopping() {
                return;
            }
            if let Place::Slot(loans) = &mut self.place
                && may_lend
                && loans.lend(&self.holder.shared.turns, self.holder.worker)
            {
                continue;
            }
            if !self.start() {
                return;
            }
        }
    }

    /// Uses a turn that a slot lent.
    pub(super) fn take_turn(&mut self, turn: Option<Turn>, now: Duration) {
        if let Place::Background(request) = &mut self.place {
            *request = None;
        }
        if self.may_retry()
            && let (Some(turn), Some(ticket)) = (turn, self.backlog.next_due(now))
        {
            self.retry(ticket, Some(turn));
        }
    }

    /// Keeps the first item alone, which was split off at `boundary`, and takes out the rest.
    pub(super) fn set_aside(&mut self, boundary: &[u8]) -> Option<Backlog> {
        let first = self.backlog.split_first(boundary)?;
        Some(std::mem::replace(&mut self.backlog, first))
    }

    /// Takes out what is in hand, for the shard that was split off.
    pub(super) fn take_backlog(&mut self) -> Backlog {
        let none = Backlog::new(Feed::ended(self.backlog.feed.range().clone()), None, None);
        std::mem::replace(&mut self.backlog, none)
    }

    /// Starts the next batch of new items. Returns whether it did.
    fn start(&mut self) -> bool {
        let batch = self.batch_size();
        // Wait for a full batch, unless the source has ended.
        if self.backlog.feed.is_empty() || self.backlog.feed.wants_page(batch) {
            return false;
        }
        let count = batch.min(self.most_to_begin()).min(self.most_ahead(batch));
        let Some(count) = self.skip_restored(count) else { return true };
        let items = self.backlog.feed.take(count);
        let Some(last) = items.last() else { return false };
        self.backlog.handed_out = Some(last.key.to_vec());
        let tickets: Vec<Ticket> = items.iter().map(|_| self.backlog.tracker.start()).collect();
        let history = History { sequence: self.backlog.sequence, tries: 0, uncounted: 0 };
        self.started += items.len() as u64;
        self.backlog.sequence += items.len() as u64;
        self.run(tickets, history, items, None);
        true
    }

    /// How many items may be started behind those that are not done.
    fn most_ahead(&self, batch: usize) -> usize {
        let started = self.backlog.tracker.len();
        if self.backlog.probe.is_some() {
            return 0;
        }
        if self.backlog.waiting.is_empty() && self.retrying == 0 {
            let most = self.most_running() * batch * WAITING_PER_RUNNING;
            return if started < most { batch } else { 0 };
        }
        if self.backlog.is_far_ahead() { 0 } else { (RUN_AHEAD_ITEMS + 1).saturating_sub(started) }
    }

    /// If an earlier holder tried one of the next `count` items, returns the number of items before
    /// it. If it is the next, it waits for its retry, and the result is none.
    fn skip_restored(&mut self, count: usize) -> Option<usize> {
        let Backlog { feed, restored, .. } = &mut self.backlog;
        let Some(found) = restored.as_ref() else { return Some(count) };
        let end = &feed.range().end;
        match feed.find(count, |key| found.is_of(key, end)) {
            None => Some(count),
            Some(0) => {
                let Restored { tries, uncounted, due, .. } = restored.take()?;
                let item = feed.take(1).pop()?;
                let sequence = self.backlog.sequence;
                self.backlog.sequence += 1;
                self.backlog.handed_out = Some(item.key.to_vec());
                self.started += 1;
                let history = History { sequence, tries, uncounted };
                let since = self.holder.shared.env.monotonic();
                let waiting = Waiting { item, history, since, due: Some(due), unable: None };
                self.backlog.waiting.insert(self.backlog.tracker.start(), waiting);
                None
            }
            Some(before) => Some(before),
        }
    }

    /// Tries an item again.
    fn retry(&mut self, ticket: Ticket, turn: Option<Turn>) {
        if let Some(Waiting { item, history, .. }) = self.backlog.waiting.remove(&ticket) {
            self.retrying += 1;
            self.run(vec![ticket], history, vec![item], turn);
        }
    }

    fn run(
        &mut self,
        tickets: Vec<Ticket>,
        history: History,
        items: Vec<Item>,
        turn: Option<Turn>,
    ) {
        if let Some(turn) = &turn {
            // Its programs are those of the slot.
            self.assignment.worker = turn.worker;
        }
        let History { sequence, tries, .. } = history;
        let batch = Try { assignment: self.assignment, sequence, attempt: tries + 1, items };
        let tried = self.holder.shared.handler.try_once(batch);
        self.running.push(Running { tickets, history, _turn: turn, tried });
    }

    /// Records the outcomes of a batch.
    pub(super) fn take_in(&mut self, ran: Ran, now: Duration) {
        let Ran { tickets, history, tried } = ran;
        let is_alone = tickets.len() == 1;
        self.retrying -= usize::from(history.tries > 0);
        for ((ticket, (item, outcome)), offset) in tickets.into_iter().zip(tried).zip(0..) {
            let (sequence, tries) = (history.sequence + offset, history.tries.saturating_add(1));
            self.judge(
                ticket,
                item,
                History { sequence, tries, ..history },
                outcome,
                is_alone,
                now,
            );
        }
    }

    /// Decides whether an item is done, has failed, or is tried again.
    fn judge(
        &mut self,
        ticket: Ticket,
        item: Item,
        mut history: History,
        outcome: Outcome,
        is_alone: bool,
        now: Duration,
    ) {
        let is_cause = |cause| outcome.as_ref().is_err_and(|failure| failure.cause == cause);
        let of_worker = is_cause(FailureCause::Worker);
        if self.backlog.probe == Some(ticket) && !of_worker {
            self.end_probe(now);
        }
        let is_unclear = !is_alone && history.tries == 1 && is_cause(FailureCause::Unclear);
        history.uncounted += u32::from(is_unclear);
        let History { tries, uncounted, .. } = history;
        let (shared, retries) = (self.holder.shared, tries - 1);
        let policy = &shared.options.retry;
        let is_final = retries >= policy.retries.saturating_add(uncounted)
            || of_worker && self.unable.is_some();
        match outcome {
            Err(failure) if failure.is_retryable && !is_final => {
                let is_held = of_worker && self.backlog.probe.is_some_and(|probe| probe != ticket);
                if of_worker && !is_held {
                    self.backlog.probe = Some(ticket);
                }
                let wait = match tries.saturating_sub(uncounted) {
                    0 => Duration::ZERO,
                    retry => policy.wait(retry, shared.env.random()),
                };
                let due = (!is_held).then(|| now.saturating_add(wait));
                let unable = of_worker.then_some(failure);
                let waiting = Waiting { item, history, since: now, due, unable };
                self.backlog.waiting.insert(ticket, waiting);
            }
            outcome => self.finish(ticket, Attempted { item, outcome, retries }),
        }
    }

    /// Lets the items that waited for the probe be tried again.
    fn end_probe(&mut self, now: Duration) {
        self.backlog.probe = None;
        for waiting in self.backlog.waiting.values_mut() {
            waiting.due.get_or_insert(now);
        }
    }

    /// Records the final outcome of an item. Once the worker is unable, nothing more is started.
    fn finish(&mut self, ticket: Ticket, attempted: Attempted) {
        if let Err(ItemFailure { cause: FailureCause::Worker, detail, .. }) = &attempted.outcome {
            self.unable.get_or_insert_with(|| WorkerError::Handler { detail: detail.clone() });
            self.backlog.probe = None;
            let is_unable = |_: &Ticket, waiting: &mut Waiting| waiting.unable.is_some();
            let others: Vec<_> = self.backlog.waiting.extract_if(.., is_unable).collect();
            for (ticket, Waiting { item, history, unable, .. }) in others {
                let (Some(failure), retries) = (unable, history.tries - 1) else { continue };
                self.backlog.finish(ticket, Attempted { item, outcome: Err(failure), retries });
            }
        }
        self.backlog.finish(ticket, attempted);
    }

    /// Whether to split the first item off or to leave the slot, because it waits for a retry.
    pub(super) fn parting(&self, now: Duration) -> Option<Parting> {
        let first = self.backlog.first_waiting()?;
        let may_part = self.semantics == CursorSemantics::Completed
            && self.running.is_empty()
            && self.crash_policy == CrashPolicy::None
            && self.backlog.probe.is_none()
            && !self.is_stopping()
            && self.holder.shared.background.has_room();
        let is_long = |due: Option<Duration>| due.is_some_and(|due| due > now + SHORT_WAIT);
        if !may_part || !is_long(first.due) {
            return None;
        }
        let is_late = now >= first.since + RUN_AHEAD_TIME && self.backlog.tracker.is_any_done();
        let is_handed_out = self.backlog.is_handed_out();
        let is_blocked = is_late || self.backlog.is_far_ahead() && !is_handed_out;
        if is_blocked && !self.is_whole {
            return Some(Parting::SetAside);
        }
        let may_leave = matches!(self.place, Place::Slot(_)) && is_handed_out;
        (may_leave && is_long(self.backlog.first_due())).then_some(Parting::LeaveSlot)
    }

    /// Time until the next event that no other task reports.
    pub(super) fn until_due(&self, now: Duration) -> Option<Duration> {
        let is_requested = matches!(self.place, Place::Background(Some(_)));
        let may_retry = self.has_room() && self.may_retry() && !is_requested && !self.has_failed();
        let retry = self.backlog.first_due().filter(|_| may_retry);
        let is_ahead = self.running.is_empty() && self.backlog.tracker.is_any_done();
        let first = self.backlog.first_waiting().filter(|_| is_ahead && !self.is_whole);
        let late = first.map(|first| first.since + RUN_AHEAD_TIME).filter(|late| *late > now);
        retry.into_iter().chain(late).min().map(|due| due.saturating_sub(now))
    }
}
