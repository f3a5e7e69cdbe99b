//! The work on a shard: reading, settling and committing items.

use std::error::Error as _;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::StreamExt;
use futures_util::{FutureExt, select_biased};
use shardwright_contracts::{BoxFuture, CursorSemantics, ShardId, ShardSpec};
use shardwright_coordination::ParkReason;
use shardwright_frontier::ShardHint;

use super::aside::SetAside;
use super::crash_policy::{CrashPolicy, ExclusiveClaim};
use super::desk::{Desk, Parting, Place, Ran};
use super::estimate_state::EstimateState;
use super::lease_cell::LeaseCell;
use super::ledger::{Ledger, Tries};
use super::shard::Shard;
use super::{Finish, Holder, Stopped};
use crate::attempt::Attempted;
use crate::connector::{ConnectorError, Item, Page};
use crate::error::WorkerError;
use crate::event::WorkerEvent;
use crate::handler::{FailureCause, ItemFailure};
use crate::turns::Turn;

type Reading<'w> = BoxFuture<'w, Result<Page, ConnectorError>>;

/// The state of the work on one shard.
pub(super) struct Work<'w> {
    pub(super) desk: Desk<'w>,
    pub(super) lease: &'w LeaseCell,
    pub(super) estimate: &'w EstimateState,
    pub(super) spec: ShardSpec,
    /// What the range represented when the shard was claimed. It decides where cuts are allowed.
    pub(super) hint: ShardHint<'static>,
    pub(super) ledger: Ledger,
    pub(super) unparks: u64,
    /// Held until the shard has made progress, or for a time.
    pub(super) exclusive: Option<ExclusiveClaim>,
    reading: Option<Reading<'w>>,
    /// Failures in a row to read the next page.
    failures: u32,
}

/// Why the work was woken.
enum Woken {
    Ran(Ran),
    Read(Result<Page, ConnectorError>),
    Turn(Option<Turn>),
    Nothing,
}

impl<'w> Work<'w> {
    pub(super) fn new(
        holder: &'w Holder<'w>,
        lease: &'w LeaseCell,
        estimate: &'w EstimateState,
        shard: Shard,
        exclusive: Option<ExclusiveClaim>,
        place: Place<'w>,
    ) -> Self {
        let Shard { spec, hint, semantics, ledger, backlog, crash_policy, unparks } = shard;
        let desk = Desk::new(holder, lease, semantics, backlog, place, crash_policy);
        let (reading, failures) = (None, 0);
        Self { desk, lease, estimate, spec, hint, ledger, unparks, exclusive, reading, failures }
    }

    pub(super) fn shard(&self) -> ShardId {
        self.desk.assignment.shard
    }

    /// Works until the shard is completed, parked or released, or only waits.
    pub(super) async fn run(mut self) -> Result<Finish, Stopped> {
        let shared = self.desk.holder.shared;
        let gathered = self.ledger.gather(&*shared.sink, shared.options.extents_max).await;
        gathered.map_err(WorkerError::from)?;
        loop {
            let now = shared.env.monotonic();
            match self.desk.parting(now).filter(|_| self.exclusive.is_none()) {
                Some(Parting::SetAside) => match self.set_aside().await? {
                    SetAside::Yes(rest) => return Ok(Finish::Waits(self.into_shard(), rest)),
                    SetAside::No => self.desk.is_whole = true,
                },
                Some(Parting::LeaveSlot) => return Ok(Finish::Waits(self.into_shard(), None)),
                None => {}
            }
            self.hand_out(now);
            self.read_on();
            if let Some(failed) = self.settle().await? {
                return self.isolate(failed).await;
            }
            if let CrashPolicy::ParkNext { losses } = self.desk.crash_policy
                && let Some(item) = self.desk.backlog.feed.take(1).pop()
            {
                return self.isolate(killer(item, losses)).await;
            }
            if self.desk.backlog.is_done() {
                return self.complete().await;
            }
            // Items that wait for retries are left to the next holder.
            if self.desk.is_stopping() && self.desk.is_at_rest() {
                return self.release().await;
            }
            if self.is_commit_due() {
                self.commit().await?;
                self.exclusive = None;
                continue;
            }
            if self.lease.split_request().is_some() && !self.desk.is_stopping() {
                self.answer().await?;
                continue;
            }
            let woken = self.wake().await;
            self.go_on(woken)?;
        }
    }

    /// The shard, to go on with in another place.
    fn into_shard(self) -> Box<Shard> {
        let Self { desk, spec, hint, ledger, unparks, .. } = self;
        let Desk { semantics, backlog, crash_policy, .. } = desk;
        Box::new(Shard { spec, hint, semantics, ledger, backlog, crash_policy, unparks })
    }

    fn hand_out(&mut self, now: Duration) {
        self.exclusive.take_if(|claim| claim.left(now).is_some_and(|left| left.is_zero()));
        let may_lend = self.exclusive.is_none();
        self.desk.hand_out(now, may_lend);
        if let Some(key) = &self.desk.backlog.handed_out {
            self.estimate.handed_out(key);
        }
    }

    /// Starts to read the next page, if it is needed.
    fn read_on(&mut self) {
        let wants_page = self.desk.backlog.feed.wants_page(self.desk.batch_size());
        if self.reading.is_none() && wants_page && !self.desk.is_stopping() {
            self.reading = Some(self.read(self.failures, Duration::ZERO));
        }
    }

    fn is_commit_due(&self) -> bool {
        let shared = self.desk.holder.shared;
        let in_hand = (self.desk.backlog.tracker.len() + self.desk.most_in_hand()) as u64;
        let now = shared.env.monotonic();
        self.is_ahead()
            && (self.ledger.is_due(now, in_hand, &shared.options) || self.desk.is_part_done())
    }

    /// Takes in what woke the work.
    fn go_on(&mut self, woken: Woken) -> Result<(), WorkerError> {
        let now = self.desk.holder.shared.env.monotonic();
        match woken {
            Woken::Ran(ran) => self.desk.take_in(ran, now),
            Woken::Turn(turn) => self.desk.take_turn(turn, now),
            Woken::Read(Ok(page)) => {
                (self.reading, self.failures) = (None, 0);
                self.take_page(page)?;
            }
            Woken::Read(Err(error)) => self.read_again(error)?,
            Woken::Nothing => {}
        }
        Ok(())
    }

    /// Adds a page to the items to hand out.
    fn take_page(&mut self, page: Page) -> Result<(), WorkerError> {
        if !page.items.iter().all(|item| self.hint.admits(&item.key)) {
            let problem = "a key of a manifest's shard is not the key of a row";
            return Err(ConnectorError::InvalidPage { problem }.into());
        }
        if !page.skipped.is_empty() {
            self.desk.holder.report(WorkerEvent::Skipped { reports: &page.skipped });
        }
        if !page.items.is_empty() {
            self.estimate.indivisible(false);
        }
        self.desk.backlog.feed.add(page);
        Ok(())
    }

    /// Records results up to the first item that is not done. Returns an item that failed.
    async fn settle(&mut self) -> Result<Option<Attempted>, Stopped> {
        let shared = self.desk.holder.shared;
        while !self.must_wait()
            && let Some(attempted) = self.desk.backlog.take_first()
        {
            let Attempted { item, outcome, retries } = attempted;
            let tries = Tries { retries, has_failed: outcome.is_err() };
            let result = match outcome {
                Ok(result) => result,
                Err(failure)
                    if failure.cause == FailureCause::Worker && !self.is_past(&item.key) =>
                {
                    return Err(self.stop_unable(failure).await);
                }
                Err(failure) if self.desk.semantics == CursorSemantics::Dispatched => {
                    // The cursor is past the item, so it cannot be parked.
                    let (shard, key) = (self.shard(), item.key.as_ref());
                    self.desk.holder.report(WorkerEvent::Failed {
                        shard,
                        key,
                        detail: &failure.detail,
                    });
                    shared.handler.failure_record(&item, &failure).map_err(|unwritten| {
                        let (shard, detail) = (self.shard(), unwritten.detail);
                        WorkerError::Unrecorded { shard, detail }
                    })?
                }
                Err(failure) => {
                    return Ok(Some(Attempted { item, outcome: Err(failure), retries }));
                }
            };
            let bytes = item.size.unwrap_or_default();
            let done = self.ledger.enter(&*shared.sink, &item.key, bytes, tries, &result).await;
            done.map_err(WorkerError::from)?;
            self.estimate.done(bytes);
            let (shard, key) = (self.shard(), item.key.as_ref());
            self.desk.holder.report(WorkerEvent::Done { shard, key, bytes, retries });
        }
        Ok(None)
    }

    /// Whether the next item has failed while others are in progress. They end before the shard is
    /// split, because they were started under its lease.
    fn must_wait(&self) -> bool {
        let is_failed = |attempted: &Attempted| {
            attempted.outcome.as_ref().is_err_and(|it| it.cause != FailureCause::Worker)
        };
        self.desk.semantics == CursorSemantics::Completed
            && !self.desk.running.is_empty()
            && self.desk.backlog.tracker.done().next().is_some_and(is_failed)
    }

    /// Whether the cursor is past an item that is not settled, or has to pass it because later
    /// results are not committed.
    fn is_past(&self, key: &[u8]) -> bool {
        let is_committed = self.ledger.committed().is_some_and(|committed| committed >= key);
        self.desk.semantics == CursorSemantics::Dispatched
            && (is_committed || self.ledger.has_uncommitted())
    }

    /// Commits what is done before the worker stops for a failure of its own.
    async fn stop_unable(&mut self, failure: ItemFailure) -> Stopped {
        let may_commit = self.desk.semantics == CursorSemantics::Completed && self.is_ahead();
        if may_commit && let Err(stopped) = self.commit().await {
            return stopped;
        }
        WorkerError::Handler { detail: failure.detail }.into()
    }

    /// Waits for the next event.
    async fn wake(&mut self) -> Woken {
        // No timer is needed if a batch is done already.
        if let Some(Some(ran)) = self.desk.running.next().now_or_never() {
            return Woken::Ran(ran);
        }
        let shared = self.desk.holder.shared;
        let now = shared.env.monotonic();
        let until_commit = self.is_ahead().then(|| self.ledger.until_due(now, &shared.options));
        let until_shared = self.exclusive.as_ref().and_then(|claim| claim.left(now));
        let until_due = [until_commit, until_shared, self.desk.until_due(now)];
        let until_due = until_due.into_iter().flatten().min();
        let (was_stopped, may_lend) = (shared.stop.is_stopped(), self.may_lend());
        let mut due = pin!(or_never(until_due.map(|left| shared.env.sleep(left))).fuse());
        let mut noticed = pin!(self.lease.noticed().fuse());
        // After a stop, items in progress are awaited.
        let mut stopped = pin!(or_never((!was_stopped).then(|| shared.stop.stopped())).fuse());
        let mut read = pin!(or_never(self.reading.as_mut()).fuse());
        let mut wanted = pin!(or_never(may_lend.then(|| shared.turns.wanted())).fuse());
        let Desk { running, place, .. } = &mut self.desk;
        let mut turn = pin!(place.turn().fuse());
        select_biased! {
            ran = running.select_next_some() => Woken::Ran(ran),
            page = read => Woken::Read(page),
            turn = turn => Woken::Turn(turn),
            () = due => Woken::Nothing,
            () = stopped => Woken::Nothing,
            () = noticed => Woken::Nothing,
            () = wanted => Woken::Nothing,
        }
    }

    /// Whether a request for a turn wakes the work.
    fn may_lend(&self) -> bool {
        matches!(self.desk.place, Place::Slot(_))
            && self.exclusive.is_none()
            && self.desk.has_room()
            && !self.desk.has_failed()
            && !self.desk.is_stopping()
    }

    /// Retries of a source that fails with a transient error.
    fn source_retries(&self) -> u32 {
        self.desk.holder.shared.options.retry.retries.max(8)
    }

    /// Reads a page after some failures and a wait; the last try skips the failing part.
    fn read(&self, failures: u32, wait: Duration) -> Reading<'w> {
        let (shared, mut limit) = (self.desk.holder.shared, self.desk.holder.shared.options.page);
        if failures > self.source_retries() {
            limit = limit.skipping_failing_parts();
        }
        let page = self.desk.backlog.feed.read(&*shared.connector, limit);
        if wait.is_zero() {
            return page;
        }
        Box::pin(async move {
            shared.env.sleep(wait).await;
            page.await
        })
    }

    /// Schedules a retry of a failed read, if the error is transient. Meanwhile the work goes on
    /// with the items read before.
    fn read_again(&mut self, error: ConnectorError) -> Result<(), WorkerError> {
        let shared = self.desk.holder.shared;
        if !error.is_transient() || self.failures > self.source_retries() {
            return Err(error.into());
        }
        self.failures += 1;
        let message = match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        self.desk.holder.report(WorkerEvent::Retrying { message: &message });
        let wait = shared.backoff.wait(self.failures, shared.env.random());
        self.reading = Some(self.read(self.failures, wait));
        Ok(())
    }
}

/// The outcome of an item that is parked unprocessed because workers were lost with it.
fn killer(item: Item, losses: u32) -> Attempted {
    let detail = format!("{losses} workers in a row were lost while they processed it");
    let outcome = Err(ItemFailure::permanent(ParkReason::Poisoned, detail));
    Attempted { item, outcome, retries: 0 }
}

/// Waits for a future, or without end if there is none.
async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
