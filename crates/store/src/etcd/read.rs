//! Reading keys and ranges.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{BufMut, Bytes, BytesMut};

use super::answer::{self, mismatched, revision_of};
use super::client::Repeat;
use super::connection::Connection;
use super::failure::{EtcdFailure, ServerMessage};
use super::store::{Shared, store_error};
use super::wire::request_op::Request;
use super::wire::{RangeRequest, RangeResponse, RequestOp, TxnRequest};
use crate::error::{ScanError, StoreError};
use crate::key::{Key, StoreRange};
use crate::store::{Continuation, Revision, ScanFrom, ScanPage, Snapshot, Versioned};

/// The largest number of keys in one request. Every server accepts as many.
const KEYS_MAX: usize = 32;
/// How often a load restarts because its revision was compacted.
const LOADS_MAX: usize = 5;
/// The approximate size at which a page of a scan ends.
const PAGE_BYTES: usize = 4 << 20;
/// The number of entries to request before their size is known.
const FIRST_ENTRIES: usize = 64;

/// Reads some keys at one revision.
pub(crate) async fn load(shared: &Shared, keys: &[Key]) -> Result<Snapshot, StoreError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match load_once(shared, keys).await {
            Err(failure) if is_forgotten(&failure) && tries < LOADS_MAX => {}
            Err(failure) => return Err(store_error(failure)),
            Ok(snapshot) => {
                return snapshot.ok_or_else(|| StoreError::Unavailable(mismatched("a read")));
            }
        }
    }
}

fn is_forgotten(failure: &EtcdFailure) -> bool {
    failure.message == Some(ServerMessage::NoSuchMoment)
}

/// Returns `None` if the answer is malformed.
async fn load_once(shared: &Shared, keys: &[Key]) -> Result<Option<Snapshot>, EtcdFailure> {
    if keys.len() <= 1 {
        return load_single(shared, keys.first()).await.map(Some);
    }
    // The first request chooses the revision, and the others read at it.
    let mut snapshot = Snapshot { revision: Revision::ZERO, values: Vec::new() };
    for keys in keys.chunks(KEYS_MAX) {
        let pinned = snapshot.revision;
        let (revision, values) = match load_together(shared, keys, pinned).await? {
            (revision, Some(values)) if values.len() == keys.len() => (revision, values),
            _ => return Ok(None),
        };
        if pinned == Revision::ZERO {
            snapshot.revision = revision;
        }
        snapshot.values.extend(values);
    }
    Ok(Some(snapshot))
}

async fn load_single(shared: &Shared, key: Option<&Key>) -> Result<Snapshot, EtcdFailure> {
    let namespace = &shared.composer.namespace;
    let request = RangeRequest {
        key: key.map_or_else(|| namespace.prefix().clone(), |key| namespace.outer(key)),
        count_only: key.is_none(),
        ..RangeRequest::default()
    };
    let answer = range(shared, request).await?;
    let revision = revision_of(answer.header.as_ref());
    let values = key.map(|_| answer::single(answer)).into_iter().collect();
    Ok(Snapshot { revision, values })
}

async fn load_together(
    shared: &Shared,
    keys: &[Key],
    pinned: Revision,
) -> Result<(Revision, Option<Vec<Option<Versioned>>>), EtcdFailure> {
    let read = |key: &Key| {
        let key = shared.composer.namespace.outer(key);
        let request = RangeRequest { key, revision: number(pinned), ..RangeRequest::default() };
        RequestOp { request: Some(Request::RequestRange(request)) }
    };
    let request = TxnRequest { success: keys.iter().map(read).collect(), ..TxnRequest::default() };
    let request = &request;
    let send = |connection: Arc<Connection>, limit| {
        let request = connection.request(request.clone(), limit);
        async move { connection.kv().txn(request).await }
    };
    let answer = shared.client.call("a read", Repeat::Freely, send).await?;
    Ok((revision_of(answer.header.as_ref()), answer::reads(answer.responses)))
}

async fn range(shared: &Shared, request: RangeRequest) -> Result<RangeResponse, EtcdFailure> {
    let request = &request;
    let send = |connection: Arc<Connection>, limit| {
        let request = connection.request(request.clone(), limit);
        async move { connection.kv().range(request).await }
    };
    shared.client.call("a read", Repeat::Freely, send).await
}

fn number(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

/// Reads one page of a range.
///
/// etcd limits entries and not bytes. So a page is read in parts, sized by the recent entries,
/// until it has enough of either.
pub(crate) async fn scan(
    shared: &Shared,
    range_of_keys: &StoreRange,
    page: ScanFrom,
) -> Result<ScanPage, ScanError> {
    let (mut start, end) = shared.composer.namespace.range(range_of_keys);
    let mut scanned = ScanPage { revision: Revision::ZERO, entries: Vec::new(), next: None };
    if let Some(after) = page.after {
        start = successor(&shared.composer.namespace.outer(&after.after));
        scanned.revision = after.revision;
    }
    if start >= end && end.as_ref() != [0] {
        return finish_empty(shared, scanned).await;
    }
    let mut bytes = 0;
    loop {
        let wanted = page.limit.max(1).saturating_sub(scanned.entries.len());
        let part = shared.average.entries_in(PAGE_BYTES.saturating_sub(bytes)).min(wanted);
        let request = RangeRequest {
            key: start.clone(),
            range_end: end.clone(),
            limit: i64::try_from(part).unwrap_or(i64::MAX),
            revision: number(scanned.revision),
            ..RangeRequest::default()
        };
        let answer = range(shared, request).await.map_err(scan_error)?;
        if scanned.revision == Revision::ZERO {
            scanned.revision = revision_of(answer.header.as_ref());
        }
        let size: usize = answer.kvs.iter().map(|found| found.key.len() + found.value.len()).sum();
        shared.average.learn(size, answer.kvs.len());
        bytes += size;
        let Some(last) = answer.kvs.last().map(|found| found.key.clone()) else {
            return Ok(scanned);
        };
        let namespace = &shared.composer.namespace;
        let entries = answer.kvs.into_iter().filter_map(|found| answer::entry(namespace, found));
        scanned.entries.extend(entries);
        if !answer.more {
            return Ok(scanned);
        }
        if scanned.entries.len() >= page.limit || bytes >= PAGE_BYTES {
            let after = namespace.inner(&last);
            let revision = scanned.revision;
            scanned.next = after.map(|after| Continuation { revision, after });
            return Ok(scanned);
        }
        start = successor(&last);
    }
}

async fn finish_empty(shared: &Shared, mut scanned: ScanPage) -> Result<ScanPage, ScanError> {
    if scanned.revision == Revision::ZERO {
        scanned.revision = load(shared, &[]).await?.revision;
    }
    Ok(scanned)
}

/// The next possible key.
fn successor(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}

fn scan_error(failure: EtcdFailure) -> ScanError {
    if is_forgotten(&failure) { ScanError::Moved } else { store_error(failure).into() }
}

/// The average size of recent entries.
#[derive(Debug, Default)]
pub(crate) struct Average(AtomicUsize);

impl Average {
    /// How many entries to request for about this many bytes.
    fn entries_in(&self, bytes: usize) -> usize {
        match self.0.load(Ordering::Relaxed) {
            0 => FIRST_ENTRIES,
            average => (bytes / average).max(1),
        }
    }

    fn learn(&self, bytes: usize, entries: usize) {
        if let Some(average) = bytes.checked_div(entries) {
            // A single small page must not make the next one huge.
            let known = self.0.load(Ordering::Relaxed);
            self.0.store(average.max(known / 4).max(1), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_entries_follows_their_size() {
        let average = Average::default();
        assert_eq!(average.entries_in(PAGE_BYTES), FIRST_ENTRIES);
        average.learn(10_000, 100);
        assert_eq!(average.entries_in(1_000), 10);
        assert_eq!(average.entries_in(0), 1);
        average.learn(1_000_000, 1);
        assert_eq!(average.entries_in(PAGE_BYTES), 4);
        average.learn(0, 0);
        assert_eq!(average.entries_in(PAGE_BYTES), 4);
        average.learn(10, 10);
        assert_eq!(average.entries_in(PAGE_BYTES), 16);
    }
}
