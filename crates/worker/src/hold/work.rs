//! The work on a shard.

use std::error::Error as _;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, select_biased};
use shardwright_contracts::{BoxFuture, CursorSemantics, ShardId, ShardSpec};
use shardwright_coordination::{ParkReason, RestoredShardState};

use super::advice::Advice;
use super::care::{Care, Solitude};
use super::feed::Feed;
use super::lease_cell::LeaseCell;
use super::ledger::{Ledger, Tries};
use super::{End, Holder, Stopped};
use crate::attempt::{Attempted, Attempts};
use crate::connector::{ConnectorError, Item, Page};
use crate::error::WorkerError;
use crate::event::WorkerEvent;
use crate::extent::TokenEnvelope;
use crate::handler::{Assignment, FailureCause, ItemFailure};
use crate::tracker::{Ticket, Tracker};

/// How many items may wait for one that is slow, for each that may be worked on.
const WAITING_PER_RUNNING: usize = 8;

type Reading<'w> = BoxFuture<'w, Result<Page, ConnectorError>>;

/// A batch that is worked on.
pub(super) struct Running<'w> {
    tickets: Vec<Ticket>,
    attempted: BoxFuture<'w, Vec<Attempted>>,
}

impl Future for Running<'_> {
    type Output = (Vec<Ticket>, Vec<Attempted>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let attempted = ready!(self.attempted.as_mut().poll(context));
        Poll::Ready((std::mem::take(&mut self.tickets), attempted))
    }
}

/// Everything about the work on one shard.
pub(super) struct Work<'w> {
    pub(super) holder: &'w Holder<'w>,
    pub(super) assignment: &'w Assignment,
    pub(super) lease: &'w LeaseCell,
    pub(super) advice: &'w Advice,
    pub(super) spec: ShardSpec,
    pub(super) semantics: CursorSemantics,
    pub(super) feed: Feed,
    pub(super) ledger: Ledger,
    pub(super) running: FuturesUnordered<Running<'w>>,
    pub(super) tracker: Tracker<Attempted>,
    /// The last key that was handed out, here or before.
    pub(super) handed_out: Option<Vec<u8>>,
    care: Care,
    /// Items that were begun since the last commit.
    begun: u64,
    /// Kept until the shard has made progress, or for a time.
    solitude: Option<Solitude<'w>>,
    sequence: u64,
    /// What keeps the worker from going on with any item.
    pub(super) unable: Option<WorkerError>,
}

/// What woke the work up.
enum Woken {
    Attempted(Vec<Ticket>, Vec<Attempted>),
    Read(Result<Page, ConnectorError>),
    Nothing,
}

impl<'w> Work<'w> {
    pub(super) fn new(
        holder: &'w Holder<'w>,
        assignment: &'w Assignment,
        lease: &'w LeaseCell,
        advice: &'w Advice,
        shard: RestoredShardState,
        solitude: Option<Solitude<'w>>,
    ) -> Result<Self, WorkerError> {
        let cursor = shard.cursor.as_update();
        let envelope = TokenEnvelope::decode(cursor.token())
            .map_err(|error| WorkerError::ForeignCursor { shard: assignment.shard, error })?;
        let after = cursor.last_key().map(<[u8]>::to_vec);
        let feed = Feed::new(&shard.spec, after.as_deref(), &envelope.connector);
        let (shared, now) = (holder.shared, holder.shared.env.monotonic());
        let in_hand = shared.options.in_flight * shared.handler.batch_size() * WAITING_PER_RUNNING;
        let fruitless = shard.fruitless_acquires;
        Ok(Self {
            solitude,
            care: Care::of(fruitless, shared.retry_limit, &shared.options, in_hand),
            begun: 0,
            holder,
            assignment,
            lease,
            advice,
            semantics: shard.cursor_semantics,
            feed,
            ledger: Ledger::new(
                shard.lease.key(),
                shard.lease.fence(),
                after.clone(),
                envelope,
                now,
            ),
            running: FuturesUnordered::new(),
            tracker: Tracker::new(),
            handed_out: after,
            sequence: 0,
            unable: None,
            spec: shard.spec,
        })
    }

    pub(super) fn shard(&self) -> ShardId {
        self.assignment.shard
    }

    /// Works until the shard is done, parked, given back or lost.
    pub(super) async fn run(mut self) -> Result<End, Stopped> {
        let (shared, mut failures) = (self.holder.shared, 0);
        self.ledger.gather(&*shared.sink).await.map_err(WorkerError::from)?;
        let mut reading: Option<Reading<'w>> = None;
        loop {
            self.hand_out();
            if reading.is_none() && !self.is_stopping() && self.feed.wants_page(self.batch_size()) {
                reading = Some(self.read(failures, Duration::ZERO));
            }
            if let Some(failed) = self.settle().await? {
                return self.isolate(failed).await;
            }
            if let Care::SetAside { losses } = self.care
                && let Some(item) = self.feed.take(1).pop()
            {
                return self.isolate(killer(item, losses)).await;
            }
            if self.feed.has_ended() && self.feed.is_empty() && self.tracker.is_empty() {
                return self.complete().await;
            }
            // What waits to be tried again is left to whoever goes on with the shard.
            if self.is_stopping() && self.running.is_empty() {
                return self.release().await;
            }
            let now = shared.env.monotonic();
            self.solitude.take_if(|alone| alone.left(now).is_some_and(|left| left.is_zero()));
            let in_hand = (self.tracker.len() + self.most_in_hand()) as u64;
            let is_due = self.ledger.is_due(now, in_hand, &shared.options);
            let is_due = is_due || self.is_part_done();
            if self.is_ahead() && is_due {
                self.commit().await?;
                self.solitude = None;
                continue;
            }
            if self.lease.split_request().is_some() && !self.is_stopping() {
                self.answer().await?;
                continue;
            }
            match self.wake(&mut reading).await {
                Woken::Attempted(tickets, attempted) => self.take_in(tickets, attempted),
                Woken::Read(Ok(page)) => {
                    (reading, failures) = (None, 0);
                    if !page.skipped.is_empty() {
                        self.holder.tell(WorkerEvent::Skipped { reports: &page.skipped });
                    }
                    if !page.items.is_empty() {
                        self.advice.indivisible(false);
                    }
                    self.feed.add(page);
                }
                Woken::Read(Err(error)) => {
                    reading = Some(self.read_again(error, &mut failures)?);
                }
                Woken::Nothing => {}
            }
        }
    }

    fn batch_size(&self) -> usize {
        let most = usize::try_from(self.care.most_begun()).unwrap_or(usize::MAX);
        self.holder.shared.handler.batch_size().min(most).max(1)
    }

    /// How many items are worked on at a time.
    fn most_in_hand(&self) -> usize {
        self.holder.shared.options.in_flight.max(1).saturating_mul(self.batch_size())
    }

    /// How many items may still be begun before something has to be committed.
    fn most_to_begin(&self) -> usize {
        let most = self.care.most_begun().saturating_sub(self.begun);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Whether what may be worked on at a time is done, where that is less than usual.
    fn is_part_done(&self) -> bool {
        let is_done = match self.semantics {
            CursorSemantics::Completed => self.tracker.is_empty(),
            CursorSemantics::Dispatched => self.most_to_begin() == 0,
        };
        matches!(self.care, Care::Careful { .. }) && is_done
    }

    /// Notes that everything up to the cursor is committed.
    pub(super) fn note_committed(&mut self) {
        let uncommitted = match self.semantics {
            CursorSemantics::Completed => self.tracker.len() as u64,
            CursorSemantics::Dispatched => 0,
        };
        self.care.note_committed(self.begun.saturating_sub(uncommitted));
        self.begun = uncommitted;
    }

    fn is_stopping(&self) -> bool {
        self.holder.shared.stop.is_stopped() || self.lease.is_paused() || self.unable.is_some()
    }

    /// Hands out as many batches as may be worked on at a time.
    fn hand_out(&mut self) {
        let shared = self.holder.shared;
        let batch = self.batch_size();
        // A full batch is waited for, unless nothing more comes.
        let is_ready = |feed: &Feed| !feed.is_empty() && !feed.wants_page(batch);
        let most_running = shared.options.in_flight.max(1);
        while self.running.len() < most_running
            && self.tracker.len() < most_running * batch * WAITING_PER_RUNNING
            && is_ready(&self.feed)
            && !self.is_stopping()
        {
            let items = self.feed.take(batch.min(self.most_to_begin()));
            let Some(last) = items.last() else { return };
            self.begun += items.len() as u64;
            self.advice.handed_out(&last.key);
            self.handed_out = Some(last.key.to_vec());
            let tickets: Vec<Ticket> = items.iter().map(|_| self.tracker.start()).collect();
            let sequence = self.sequence;
            self.sequence += items.len() as u64;
            // The cursor may be past an item already, and then nobody else would try it again.
            let stop = (self.semantics == CursorSemantics::Completed).then_some(&shared.stop);
            let attempts = Attempts {
                env: &*shared.env,
                policy: &shared.options.retry,
                stop,
                assignment: self.assignment,
                sequence,
                items,
            };
            self.running.push(Running { tickets, attempted: shared.handler.attempt(attempts) });
        }
    }

    /// Notes what came of a batch. Once the worker is found unable, nothing more is begun.
    fn take_in(&mut self, tickets: Vec<Ticket>, attempted: Vec<Attempted>) {
        for (ticket, attempted) in tickets.into_iter().zip(attempted) {
            if let Err(ItemFailure { cause: FailureCause::Worker, detail, .. }) = &attempted.outcome
            {
                self.unable.get_or_insert_with(|| WorkerError::Handler { detail: detail.clone() });
            }
            self.tracker.finish(ticket, attempted);
        }
    }

    /// Writes down what is done, up to the first item that is not. Gives one that failed.
    async fn settle(&mut self) -> Result<Option<Attempted>, Stopped> {
        let shared = self.holder.shared;
        while let Some(attempted) = self.tracker.take_first() {
            let Attempted { item, outcome, retries } = attempted;
            let tries = Tries { retries, has_failed: outcome.is_err() };
            let result = match outcome {
                Ok(result) => result,
                Err(failure)
                    if failure.cause == FailureCause::Worker && !self.is_past(&item.key) =>
                {
                    return Err(self.give_in(failure).await);
                }
                Err(failure) if self.semantics == CursorSemantics::Dispatched => {
                    // The cursor is past it already, so it cannot be parked.
                    let (shard, key) = (self.shard(), item.key.as_ref());
                    self.holder.tell(WorkerEvent::Failed { shard, key, detail: &failure.detail });
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
            self.advice.done(bytes);
            let (shard, key) = (self.shard(), item.key.as_ref());
            self.holder.tell(WorkerEvent::Done { shard, key, bytes, retries });
        }
        Ok(None)
    }

    /// Whether the cursor is past an item that is not settled, or has to move past it for the sake
    /// of others.
    fn is_past(&self, key: &[u8]) -> bool {
        let is_committed = self.ledger.committed().is_some_and(|committed| committed >= key);
        self.semantics == CursorSemantics::Dispatched
            && (is_committed || self.ledger.has_uncommitted())
    }

    /// Keeps what is done before an item that no item is to blame for.
    async fn give_in(&mut self, failure: ItemFailure) -> Stopped {
        let may_commit = self.semantics == CursorSemantics::Completed && self.is_ahead();
        if may_commit && let Err(stopped) = self.commit().await {
            return stopped;
        }
        WorkerError::Handler { detail: failure.detail }.into()
    }

    /// Waits for whatever comes first.
    async fn wake(&mut self, reading: &mut Option<Reading<'w>>) -> Woken {
        // Where a batch is done already, no timer is needed.
        if let Some(Some((tickets, attempted))) = self.running.next().now_or_never() {
            return Woken::Attempted(tickets, attempted);
        }
        let shared = self.holder.shared;
        let now = shared.env.monotonic();
        let until_commit = self.ledger.until_due(now, &shared.options);
        let until_company = self.solitude.as_ref().and_then(|alone| alone.left(now));
        let until_due = until_company.map_or(until_commit, |left| left.min(until_commit));
        let is_told_already = shared.stop.is_stopped();
        let mut due = pin!(shared.env.sleep(until_due).fuse());
        let mut heard = pin!(self.lease.told().fuse());
        let mut told = pin!(
            async {
                // Once told, what is in flight is waited for.
                if is_told_already {
                    std::future::pending::<()>().await;
                }
                shared.stop.stopped().await;
            }
            .fuse()
        );
        let mut read = pin!(
            async {
                match reading.as_mut() {
                    Some(reading) => reading.await,
                    None => std::future::pending().await,
                }
            }
            .fuse()
        );
        select_biased! {
            attempted = self.running.select_next_some() => {
                Woken::Attempted(attempted.0, attempted.1)
            }
            page = read => Woken::Read(page),
            () = due => Woken::Nothing,
            () = told => Woken::Nothing,
            () = heard => Woken::Nothing,
        }
    }

    /// How often a source is read again that fails with what may pass.
    fn source_retries(&self) -> u32 {
        self.holder.shared.options.retry.retries.max(8)
    }

    /// Reads a page after so many failures and a wait: at last without the part that is in trouble.
    fn read(&self, failures: u32, wait: Duration) -> Reading<'w> {
        let (shared, mut limit) = (self.holder.shared, self.holder.shared.options.page);
        if failures > self.source_retries() {
            limit = limit.passing_over_trouble();
        }
        let page = self.feed.read(&*shared.connector, limit);
        if wait.is_zero() {
            return page;
        }
        Box::pin(async move {
            shared.env.sleep(wait).await;
            page.await
        })
    }

    /// Reads again what failed, if that may help, and not at once. Meanwhile the work goes on with
    /// what was read before.
    fn read_again(
        &self,
        error: ConnectorError,
        failures: &mut u32,
    ) -> Result<Reading<'w>, WorkerError> {
        let shared = self.holder.shared;
        if !error.is_transient() || *failures > self.source_retries() {
            return Err(error.into());
        }
        *failures += 1;
        let message = match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        self.holder.tell(WorkerEvent::Trouble { message: &message });
        Ok(self.read(*failures, shared.backoff.wait(*failures, shared.env.random())))
    }
}

/// An item that workers were lost with, as if it had been tried once more.
fn killer(item: Item, losses: u32) -> Attempted {
    let detail = format!("{losses} workers in a row were lost before they were done with it");
    let outcome = Err(ItemFailure::fatal(ParkReason::Poisoned, detail));
    Attempted { item, outcome, retries: 0 }
}
