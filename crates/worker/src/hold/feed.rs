//! The items of a shard, read ahead page by page.

use std::collections::VecDeque;

use shardwright_contracts::{BoxFuture, ShardSpec};

use crate::connector::{ConnectorError, Item, KeyRange, Page, PageLimit, Position};
use crate::erased::DynConnector;

/// Items of a shard that were read and not handed out yet.
#[derive(Debug)]
pub(super) struct Feed {
    range: KeyRange,
    items: VecDeque<Item>,
    /// The position of the next page.
    position: Position,
    /// Whether the range has no next page.
    has_ended: bool,
    /// The last key of the last page, and the page's token.
    token: Option<(Vec<u8>, Vec<u8>)>,
}

impl Feed {
    pub(super) fn new(spec: &ShardSpec, after: Option<&[u8]>, token: &[u8]) -> Self {
        let spec = spec.as_spec_ref();
        Self {
            range: KeyRange { start: spec.start().to_vec(), end: spec.end().to_vec() },
            items: VecDeque::new(),
            position: Position { after: after.map(<[u8]>::to_vec), token: token.to_vec() },
            has_ended: false,
            token: None,
        }
    }

    /// The feed of a range whose items were all handed out.
    pub(super) fn ended(range: KeyRange) -> Self {
        let position = Position::default();
        Self { range, items: VecDeque::new(), position, has_ended: true, token: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) const fn range(&self) -> &KeyRange {
        &self.range
    }

    pub(super) fn wants_page(&self, batch: usize) -> bool {
        !self.has_ended && self.items.len() < batch
    }

    /// Reads the next page. The future owns its arguments, so that it can run beside the work.
    pub(super) fn read<'c>(
        &self,
        connector: &'c dyn DynConnector,
        limit: PageLimit,
    ) -> BoxFuture<'c, Result<Page, ConnectorError>> {
        connector.page(self.range.clone(), self.position.clone(), limit)
    }

    /// Adds a page. The range may have been narrowed while it was read.
    pub(super) fn add(&mut self, page: Page) {
        self.has_ended |= page.ended;
        if let Some(next) = page.next_position() {
            if let Some(key) = &next.after {
                self.token = Some((key.clone(), next.token.clone()));
            }
            self.position = next;
        }
        self.items.extend(page.items);
        self.cut();
    }

    /// Moves the start of the range behind the first items, which are in a shard of their own now.
    pub(super) fn start_at(&mut self, start: &[u8]) {
        start.clone_into(&mut self.range.start);
    }

    /// Removes the rest from `end` on, which was split off.
    pub(super) fn narrow(&mut self, end: &[u8]) {
        end.clone_into(&mut self.range.end);
        self.cut();
    }

    fn cut(&mut self) {
        let end = &self.range.end;
        let kept = self.items.partition_point(|item| item.key.as_ref() < end.as_slice());
        if kept < self.items.len() {
            self.items.truncate(kept);
            self.has_ended = true;
        }
        if self.position.after.as_ref().is_some_and(|after| after >= end) {
            self.has_ended = true;
        }
    }

    /// The position of the first item with a key that `is_sought`, among the next `count` items.
    pub(super) fn find(&self, count: usize, is_sought: impl Fn(&[u8]) -> bool) -> Option<usize> {
        self.items.iter().take(count).position(|item| is_sought(&item.key))
    }

    /// The next items to hand out.
    pub(super) fn take(&mut self, batch: usize) -> Vec<Item> {
        let count = batch.min(self.items.len());
        self.items.drain(..count).collect()
    }

    /// The connector's token for the position after `key`. Empty if there is none.
    pub(super) fn token_at(&self, key: &[u8]) -> &[u8] {
        match &self.token {
            Some((at, token)) if at == key => token,
            Some(_) | None => &[],
        }
    }

    /// The key that halves the read items by weight. With `may_keep_none`, it may be the first.
    pub(super) fn middle(&self, may_keep_none: bool) -> Option<Vec<u8>> {
        let weight = |item: &Item| item.size.unwrap_or(0).max(1);
        let total: u64 = self.items.iter().map(weight).fold(0, u64::saturating_add);
        let mut before = 0_u64;
        for (index, item) in self.items.iter().enumerate() {
            let is_first = index == 0;
            let is_last = index + 1 == self.items.len();
            let with_this = before.saturating_add(weight(item));
            let is_middle = with_this.saturating_mul(2) > total || is_last;
            if is_middle && (!is_first || may_keep_none) {
                return Some(item.key.to_vec());
            }
            before = with_this;
        }
        None
    }
}
