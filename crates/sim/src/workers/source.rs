//! The scripted source: numbers below a bound, as keys of six digits.

use std::ops::Range;

use bytes::Bytes;
use shardwright_coordination::ShardRecord;
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Payload, Position, Quantity,
    SourceEstimate,
};

use super::script::Script;
use super::tally::WorkerFault;

const DIGITS: usize = 6;

/// The source of one process.
pub(crate) struct Numbers {
    pub(crate) script: Script,
    pub(crate) items: u64,
}

/// The key of a number.
pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

/// The first number whose key is not below `key`. A key may have bytes after its digits.
pub(crate) fn first_at(key: &[u8]) -> u64 {
    let (digits, rest) = key.split_at_checked(DIGITS).unwrap_or((key, &[]));
    let number: u64 = str::from_utf8(digits).ok().and_then(|it| it.parse().ok()).unwrap_or(0);
    number + u64::from(!rest.is_empty())
}

/// The numbers of a range after a key.
pub(crate) fn numbers(start: &[u8], end: &[u8], after: Option<&[u8]>) -> Range<u64> {
    let first = after.map_or(first_at(start), |after| first_at(after) + 1);
    first..first_at(end).max(first)
}

/// The manifest of a run over the numbers below a bound.
pub(crate) fn ranges(items: u64, shards: u64) -> Vec<KeyRange> {
    let cut = |at: u64| key(items * at / shards);
    (0..shards.min(items)).map(|at| KeyRange::new(cut(at), cut(at + 1))).collect()
}

fn failure(transient: bool) -> ConnectorError {
    ConnectorError::Other { transient, source: "scripted".into() }
}

impl Numbers {
    fn strikes(&self, permille: u64, fault: WorkerFault) -> bool {
        self.script.lock().strikes(permille, fault)
    }
}

impl Connector for Numbers {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        self.script.delay(800, 15, WorkerFault::PageSlow).await;
        if self.strikes(25, WorkerFault::PageFailed) {
            return Err(failure(true));
        }
        if self.strikes(2, WorkerFault::PageRefused) {
            return Err(failure(false));
        }
        let left = numbers(&range.start, &range.end, from.after.as_deref());
        let mut most = limit.items.max(1) as u64;
        if most > 1 && self.strikes(60, WorkerFault::PageShort) {
            most /= 2;
        }
        let end = left.end.min(left.start + most);
        let items = (left.start..end).map(|number| Item {
            key: Bytes::from(key(number)),
            size: None,
            payload: Payload::Row { number, bytes: Bytes::new() },
        });
        let token = format!("behind {end}").into_bytes();
        Ok(Page { items: items.collect(), ended: end == left.end, token, ..Page::default() })
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
        self.script.delay(500, 15, WorkerFault::EstimateSlow).await;
        if self.strikes(20, WorkerFault::EstimateFailed) {
            return Err(failure(true));
        }
        let left = numbers(&range.start, &range.end, after);
        let left = left.end - left.start;
        let items = match self.strikes(50, WorkerFault::EstimateWrong) {
            true => Quantity::About(left * 7 + 3),
            false => Quantity::Exact(left),
        };
        Ok(SourceEstimate { items, bytes: Quantity::Unknown })
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        _: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        self.script.delay(500, 15, WorkerFault::SplitSlow).await;
        if self.strikes(20, WorkerFault::SplitFailed) {
            return Err(failure(true));
        }
        let left = numbers(&range.start, &range.end, after);
        let count = left.end - left.start;
        if count < 2 || self.strikes(30, WorkerFault::SplitRefused) {
            return Ok(None);
        }
        Ok(Some(key(left.start + count.div_ceil(2))))
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        Ok(ranges(self.items, wanted as u64))
    }
}

/// The numbers of a shard that its cursor has passed.
pub(crate) fn passed(shard: &ShardRecord) -> Range<u64> {
    let (spec, cursor) = (shard.spec.as_spec_ref(), shard.cursor.as_update());
    let first = first_at(spec.start());
    cursor.last_key().map_or(first..first, |last| first..first_at(last) + 1)
}

/// The numbers of a shard that its cursor has not passed.
pub(crate) fn left(shard: &ShardRecord) -> Range<u64> {
    let (spec, cursor) = (shard.spec.as_spec_ref(), shard.cursor.as_update());
    numbers(spec.start(), spec.end(), cursor.last_key())
}
