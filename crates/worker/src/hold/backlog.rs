//! The items of a range that are in hand: read, handed out, waiting for a retry, or done.

use std::collections::BTreeMap;
use std::time::Duration;

use shardwright_coordination::RestoredShardState;
use shardwright_frontier::{KeyBuf, ShardHint};

use super::feed::Feed;
use crate::attempt::Attempted;
use crate::connector::Item;
use crate::handler::ItemFailure;
use crate::tracker::{Ticket, Tracker};

/// Most items that are started behind an item that waits for a retry. Their results cannot be
/// committed before the item is done, or in a shard of its own.
pub(super) const RUN_AHEAD_ITEMS: usize = 64;
/// Most bytes of such results.
pub(super) const RUN_AHEAD_BYTES: usize = 8 << 20;
/// How long such results stay uncommitted, unless items in progress delay the split.
pub(super) const RUN_AHEAD_TIME: Duration = Duration::from_secs(1);

/// The tries of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct History {
    pub(super) sequence: u64,
    /// Tries so far.
    pub(super) tries: u32,
    /// Those of them that do not count against the retry policy.
    pub(super) uncounted: u32,
}

/// An item that waits for a retry.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) item: Item,
    pub(super) history: History,
    pub(super) since: Duration,
    /// When it is tried again. None while another item shows whether the worker can process any.
    pub(super) due: Option<Duration>,
    /// The failure, if the worker caused it.
    pub(super) unable: Option<ItemFailure>,
}

/// The tries of an item by an earlier holder of its shard.
#[derive(Debug)]
pub(super) struct Restored {
    pub(super) tries: u32,
    pub(super) uncounted: u32,
    pub(super) due: Duration,
    pub(super) hint: ShardHint<'static>,
}

/// The items of a range that are in hand. They may move to the shard of a part of the range.
#[derive(Debug)]
pub(super) struct Backlog {
    pub(super) feed: Feed,
    /// The items handed out and not settled, in key order.
    pub(super) tracker: Tracker<Attempted>,
    pub(super) waiting: BTreeMap<Ticket, Waiting>,
    /// The item whose retry shows whether the worker can process any.
    pub(super) probe: Option<Ticket>,
    /// The last key handed out, by this or an earlier holder.
    pub(super) handed_out: Option<Vec<u8>>,
    pub(super) sequence: u64,
    pub(super) restored: Option<Restored>,
    /// Bytes of the results in the tracker.
    result_bytes: usize,
}

impl Backlog {
    pub(super) const fn new(
        feed: Feed,
        handed_out: Option<Vec<u8>>,
        restored: Option<Restored>,
    ) -> Self {
        Self {
            feed,
            tracker: Tracker::new(),
            waiting: BTreeMap::new(),
            probe: None,
            handed_out,
            sequence: 0,
            restored,
            result_bytes: 0,
        }
    }

    /// Records the final outcome of an item.
    pub(super) fn finish(&mut self, ticket: Ticket, attempted: Attempted) {
        self.result_bytes += attempted.outcome.as_ref().map_or(0, Vec::len);
        self.tracker.finish(ticket, attempted);
    }

    /// Removes the first item and returns it, if it is done.
    pub(super) fn take_first(&mut self) -> Option<Attempted> {
        let attempted = self.tracker.take_first()?;
        self.result_bytes -= attempted.outcome.as_ref().map_or(0, Vec::len);
        Some(attempted)
    }

    /// The item that keeps the cursor, if it waits for a retry.
    pub(super) fn first_waiting(&self) -> Option<&Waiting> {
        self.waiting.get(&self.tracker.first()?)
    }

    /// The first item that is due to be tried again.
    pub(super) fn next_due(&self, now: Duration) -> Option<Ticket> {
        let is_probed = |ticket| self.probe.is_none_or(|probe| probe == ticket);
        let is_due = |waiting: &Waiting| waiting.due.is_some_and(|due| due <= now);
        let due = |(ticket, waiting): &(&Ticket, &Waiting)| is_due(waiting) && is_probed(**ticket);
        self.waiting.iter().find(due).map(|(ticket, _)| *ticket)
    }

    /// When the next item is due to be tried again.
    pub(super) fn first_due(&self) -> Option<Duration> {
        match self.probe {
            Some(probe) => self.waiting.get(&probe).and_then(|waiting| waiting.due),
            None => self.waiting.values().filter_map(|waiting| waiting.due).min(),
        }
    }

    /// Whether no more items may be started behind an item that waits for a retry.
    pub(super) fn is_far_ahead(&self) -> bool {
        self.tracker.len() > RUN_AHEAD_ITEMS || self.result_bytes >= RUN_AHEAD_BYTES
    }

    /// Whether every item was handed out.
    pub(super) fn is_handed_out(&self) -> bool {
        self.feed.has_ended() && self.feed.is_empty()
    }

    /// Whether every item is settled.
    pub(super) fn is_done(&self) -> bool {
        self.is_handed_out() && self.tracker.is_empty()
    }

    /// Whether it is that of a shard with which no other worker has worked.
    pub(super) fn is_of(&self, state: &RestoredShardState) -> bool {
        let (spec, range) = (state.spec.as_spec_ref(), self.feed.range());
        let is_same = (spec.start(), spec.end()) == (&range.start, &range.end);
        let is_new = state.cursor.as_update().last_key().is_none();
        is_same && is_new && state.acquires_without_progress <= 1
    }

    /// Moves the first item into a backlog of its own. Its range ends at `boundary`, where the rest
    /// begins.
    pub(super) fn split_first(&mut self, boundary: &[u8]) -> Option<Self> {
        let first = self.waiting.remove(&self.tracker.first()?)?;
        self.tracker.drop_first();
        let mut range = self.feed.range().clone();
        boundary.clone_into(&mut range.end);
        let mut one = Self::new(Feed::ended(range), Some(first.item.key.to_vec()), None);
        one.waiting.insert(one.tracker.start(), first);
        self.feed.start_at(boundary);
        Some(one)
    }
}

impl Restored {
    /// Whether the tries are those of the item with `key`, in a shard that ends at `end`. Items
    /// that are new in the source may lie before it.
    pub(super) fn is_of(&self, key: &[u8], end: &[u8]) -> bool {
        self.hint.cut_after(key, &mut KeyBuf::new()).is_some_and(|cut| cut == end)
    }
}
