//! The work on a shard: reading, handing out, settling and committing items.

use std::error::Error as _;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, select_biased};
use shardwright_contracts::{BoxFuture, CursorSemantics, ShardId, ShardSpec};
use shardwright_coordination::{ParkReason, RestoredShardState};
use shardwright_frontier::ShardHint;

use super::crash_policy::{CrashPolicy, ExclusiveClaim};
use super::divide::hint_of;
use super::estimate_state::EstimateState;
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

/// Items that may wait for a slow one, per item in progress.
const WAITING_PER_RUNNING: usize = 8;

type Reading<'w> = BoxFuture<'w, Result<Page, ConnectorError>>;

/// A batch in progress.
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

/// The state of the work on one shard.
pub(super) struct Work<'w> {
    pub(super) holder: &'w Holder<'w>,
    pub(super) assignment: &'w Assignment,
    pub(super) lease: &'w LeaseCell,
    pub(super) estimate: &'w EstimateState,
    pub(super) spec: ShardSpec,
    /// What the range represented when the shard was claimed. It decides where cuts are allowed.
    pub(super) hint: ShardHint<'static>,
    pub(super) semantics: CursorSemantics,
    pub(super) feed: Feed,
    pub(super) ledger: Ledger,
    pub(super) running: FuturesUnordered<Running<'w>>,
    pub(super) tracker: Tracker<Attempted>,
    /// The last key handed out, by this or an earlier holder.
    pub(super) handed_out: Option<Vec<u8>>,
    crash_policy: CrashPolicy,
    /// Items started since the last commit.
    started: u64,
    /// Held until the shard has made progress, or for a time.
    exclusive: Option<ExclusiveClaim<'w>>,
    sequence: u64,
    /// Why the worker cannot process any item.
    pub(super) unable: Option<WorkerError>,
}

/// Why the work was woken.
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
        estimate: &'w EstimateState,
        shard: RestoredShardState,
        exclusive: Option<ExclusiveClaim<'w>>,
    ) -> Result<Self, WorkerError> {
        let cursor = shard.cursor.as_update();
        let envelope = TokenEnvelope::decode(cursor.token())
            .map_err(|error| WorkerError::ForeignCursor { shard: assignment.shard, error })?;
        let hint = hint_of(shard.spec.as_spec_ref())
            .map_err(|source| WorkerError::Metadata { shard: assignment.shard, source })?;
        let after = cursor.last_key().map(<[u8]>::to_vec);
        let feed = Feed::new(&shard.spec, after.as_deref(), &envelope.connector);
        let (shared, now) = (holder.shared, holder.shared.env.monotonic());
        let in_hand = shared.options.in_flight * shared.handler.batch_size() * WAITING_PER_RUNNING;
        let acquires = shard.acquires_without_progress;
        Ok(Self {
            exclusive,
            crash_policy: CrashPolicy::of(acquires, shared.retry_limit, &shared.options, in_hand),
            started: 0,
            holder,
            assignment,
            lease,
            estimate,
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
            hint,
            spec: shard.spec,
        })
    }

    pub(super) fn shard(&self) -> ShardId {
        self.assignment.shard
    }

    /// Works until the shard is completed, parked or released.
    pub(super) async fn run(mut self) -> Result<End, Stopped> {
        let (shared, mut failures) = (self.holder.shared, 0);
        let gathered = self.ledger.gather(&*shared.sink, shared.options.extents_max).await;
        gathered.map_err(WorkerError::from)?;
        let mut reading: Option<Reading<'w>> = None;
        loop {
            self.hand_out();
            if reading.is_none() && !self.is_stopping() && self.feed.wants_page(self.batch_size()) {
                reading = Some(self.read(failures, Duration::ZERO));
            }
            if let Some(failed) = self.settle().await? {
                return self.isolate(failed).await;
            }
            if let CrashPolicy::ParkNext { losses } = self.crash_policy
                && let Some(item) = self.feed.take(1).pop()
            {
                return self.isolate(killer(item, losses)).await;
            }
            if self.feed.has_ended() && self.feed.is_empty() && self.tracker.is_empty() {
                return self.complete().await;
            }
            // Pending retries are left to the next holder.
            if self.is_stopping() && self.running.is_empty() {
                return self.release().await;
            }
            let now = shared.env.monotonic();
            self.exclusive.take_if(|claim| claim.left(now).is_some_and(|left| left.is_zero()));
            let in_hand = (self.tracker.len() + self.most_in_hand()) as u64;
            let is_due = self.ledger.is_due(now, in_hand, &shared.options);
            let is_due = is_due || self.is_part_done();
            if self.is_ahead() && is_due {
                self.commit().await?;
                self.exclusive = None;
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
                    self.take_page(page)?;
                }
                Woken::Read(Err(error)) => {
                    reading = Some(self.read_again(error, &mut failures)?);
                }
                Woken::Nothing => {}
            }
        }
    }

    /// Adds a page to the items to hand out.
    fn take_page(&mut self, page: Page) -> Result<(), WorkerError> {
        if !page.items.iter().all(|item| self.hint.admits(&item.key)) {
            let problem = "a key of a manifest's shard is not the key of a row";
            return Err(ConnectorError::InvalidPage { problem }.into());
        }
        if !page.skipped.is_empty() {
            self.holder.report(WorkerEvent::Skipped { reports: &page.skipped });
        }
        if !page.items.is_empty() {
            self.estimate.indivisible(false);
        }
        self.feed.add(page);
        Ok(())
    }

    fn batch_size(&self) -> usize {
        let most = usize::try_from(self.crash_policy.most_started()).unwrap_or(usize::MAX);
        self.holder.shared.handler.batch_size().min(most).max(1)
    }

    /// Most items in progress at a time.
    fn most_in_hand(&self) -> usize {
        self.holder.shared.options.in_flight.max(1).saturating_mul(self.batch_size())
    }

    /// How many items may still be started before the next commit.
    fn most_to_begin(&self) -> usize {
        let most = self.crash_policy.most_started().saturating_sub(self.started);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Whether all items that the crash policy allows at a time are done.
    fn is_part_done(&self) -> bool {
        let is_done = match self.semantics {
            CursorSemantics::Completed => self.tracker.is_empty(),
            CursorSemantics::Dispatched => self.most_to_begin() == 0,
        };
        matches!(self.crash_policy, CrashPolicy::Careful { .. }) && is_done
    }

    /// Records that everything up to the cursor is committed.
    pub(super) fn note_committed(&mut self) {
        let uncommitted = match self.semantics {
            CursorSemantics::Completed => self.tracker.len() as u64,
            CursorSemantics::Dispatched => 0,
        };
        self.crash_policy.note_committed(self.started.saturating_sub(uncommitted));
        self.started = uncommitted;
    }

    fn is_stopping(&self) -> bool {
        self.holder.shared.stop.is_stopped() || self.lease.is_paused() || self.unable.is_some()
    }

    /// Hands out as many batches as may be in progress.
    fn hand_out(&mut self) {
        let shared = self.holder.shared;
        let batch = self.batch_size();
        // Wait for a full batch, unless the source has ended.
        let is_ready = |feed: &Feed| !feed.is_empty() && !feed.wants_page(batch);
        let most_running = shared.options.in_flight.max(1);
        while self.running.len() < most_running
            && self.tracker.len() < most_running * batch * WAITING_PER_RUNNING
            && is_ready(&self.feed)
            && !self.is_stopping()
        {
            let items = self.feed.take(batch.min(self.most_to_begin()));
            let Some(last) = items.last() else { return };
            self.started += items.len() as u64;
            self.estimate.handed_out(&last.key);
            self.handed_out = Some(last.key.to_vec());
            let tickets: Vec<Ticket> = items.iter().map(|_| self.tracker.start()).collect();
            let sequence = self.sequence;
            self.sequence += items.len() as u64;
            // If the cursor may be past an item, no later holder would retry it.
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

    /// Records the outcomes of a batch. Once the worker is unable, nothing more is started.
    fn take_in(&mut self, tickets: Vec<Ticket>, attempted: Vec<Attempted>) {
        for (ticket, attempted) in tickets.into_iter().zip(attempted) {
            if let Err(ItemFailure { cause: FailureCause::Worker, detail, .. }) = &attempted.outcome
            {
                self.unable.get_or_insert_with(|| WorkerError::Handler { detail: detail.clone() });
            }
            self.tracker.finish(ticket, attempted);
        }
    }

    /// Records results up to the first item that is not done. Returns an item that failed.
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
                    return Err(self.stop_unable(failure).await);
                }
                Err(failure) if self.semantics == CursorSemantics::Dispatched => {
                    // The cursor is past the item, so it cannot be parked.
                    let (shard, key) = (self.shard(), item.key.as_ref());
                    self.holder.report(WorkerEvent::Failed { shard, key, detail: &failure.detail });
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
            self.holder.report(WorkerEvent::Done { shard, key, bytes, retries });
        }
        Ok(None)
    }

    /// Whether the cursor is past an item that is not settled, or has to pass it because later
    /// results are not committed.
    fn is_past(&self, key: &[u8]) -> bool {
        let is_committed = self.ledger.committed().is_some_and(|committed| committed >= key);
        self.semantics == CursorSemantics::Dispatched
            && (is_committed || self.ledger.has_uncommitted())
    }

    /// Commits what is done before the worker stops for a failure of its own.
    async fn stop_unable(&mut self, failure: ItemFailure) -> Stopped {
        let may_commit = self.semantics == CursorSemantics::Completed && self.is_ahead();
        if may_commit && let Err(stopped) = self.commit().await {
            return stopped;
        }
        WorkerError::Handler { detail: failure.detail }.into()
    }

    /// Waits for the next event.
    async fn wake(&mut self, reading: &mut Option<Reading<'w>>) -> Woken {
        // No timer is needed if a batch is done already.
        if let Some(Some((tickets, attempted))) = self.running.next().now_or_never() {
            return Woken::Attempted(tickets, attempted);
        }
        let shared = self.holder.shared;
        let now = shared.env.monotonic();
        let until_commit = self.ledger.until_due(now, &shared.options);
        let until_shared = self.exclusive.as_ref().and_then(|claim| claim.left(now));
        let until_due = until_shared.map_or(until_commit, |left| left.min(until_commit));
        let was_stopped = shared.stop.is_stopped();
        let mut due = pin!(shared.env.sleep(until_due).fuse());
        let mut noticed = pin!(self.lease.noticed().fuse());
        let mut stopped = pin!(
            async {
                // After a stop, items in progress are awaited.
                if was_stopped {
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
            () = stopped => Woken::Nothing,
            () = noticed => Woken::Nothing,
        }
    }

    /// Retries of a source that fails with a transient error.
    fn source_retries(&self) -> u32 {
        self.holder.shared.options.retry.retries.max(8)
    }

    /// Reads a page after some failures and a wait; the last try skips the failing part.
    fn read(&self, failures: u32, wait: Duration) -> Reading<'w> {
        let (shared, mut limit) = (self.holder.shared, self.holder.shared.options.page);
        if failures > self.source_retries() {
            limit = limit.skipping_failing_parts();
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

    /// Schedules a retry of a failed read, if the error is transient. Meanwhile the work goes on
    /// with the items read before.
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
        self.holder.report(WorkerEvent::Retrying { message: &message });
        Ok(self.read(*failures, shared.backoff.wait(*failures, shared.env.random())))
    }
}

/// The outcome of an item that is parked unprocessed because workers were lost with it.
fn killer(item: Item, losses: u32) -> Attempted {
    let detail = format!("{losses} workers in a row were lost while they processed it");
    let outcome = Err(ItemFailure::permanent(ParkReason::Poisoned, detail));
    Attempted { item, outcome, retries: 0 }
}
