//! Reading keys and records, and ranges of keys at one revision. Stale reads are repeated.

use std::sync::{Mutex, PoisonError};

use shardwright_contracts::InfraError;
use shardwright_store::{
    AnyStore, Key, Revision, ScanError, ScanFrom, ScanPage, Snapshot, Store, StoreRange, Versioned,
};

use crate::Operation;
use crate::codec::Record;
use crate::fault;
use crate::transact::Driver;

/// Entries per page of a listing.
const PAGE: usize = 1_000;

/// Loads the entry under a key, and the revision of the read.
pub async fn load_one(
    store: &AnyStore,
    key: &Key,
    operation: Operation,
) -> Result<(Option<Versioned>, Revision), InfraError> {
    let ([found], revision) = load_all(store, std::slice::from_ref(key), operation).await?;
    Ok((found, revision))
}

/// Loads the entries under `N` keys, and the revision of the read.
pub async fn load_all<const N: usize>(
    store: &AnyStore,
    keys: &[Key],
    operation: Operation,
) -> Result<([Option<Versioned>; N], Revision), InfraError> {
    let loaded = store.load(keys).await;
    let Snapshot { values, revision } = loaded.map_err(|error| fault::read(operation, &error))?;
    let found = values.try_into();
    let found =
        found.map_err(|_| fault::corrupt(operation, "the store answered for other keys"))?;
    Ok((found, revision))
}

/// Decodes an entry.
pub fn decode<T: Record>(found: &Versioned, operation: Operation) -> Result<T, InfraError> {
    T::decode(&found.value).map_err(|error| fault::corrupt(operation, error.to_string()))
}

/// Decodes an entry if there is one, and returns the record with its revision.
pub fn decode_if_found<T: Record>(
    found: Option<&Versioned>,
    operation: Operation,
) -> Result<Option<(T, Revision)>, InfraError> {
    let decoded = |found: &Versioned| Ok((decode(found, operation)?, found.revision));
    found.map(decoded).transpose()
}

/// Lists a range, all at one revision.
pub async fn list(
    driver: &Driver,
    range: &StoreRange,
    operation: Operation,
) -> Result<(Revision, Vec<(Key, Versioned)>), InfraError> {
    list_since(driver, range, Revision::ZERO, operation).await
}

/// Loads the entries under `N` keys at `since` or later, and the revision of the read.
pub async fn load_since<const N: usize>(
    driver: &Driver,
    keys: &[Key],
    since: Revision,
    operation: Operation,
) -> Result<([Option<Versioned>; N], Revision), InfraError> {
    let load = || async { load_all(driver.store(), keys, operation).await.map(Some) };
    read_since(driver, since, operation, load).await
}

/// Lists a range, all at one revision, which is `since` or later.
pub async fn list_since(
    driver: &Driver,
    range: &StoreRange,
    since: Revision,
    operation: Operation,
) -> Result<(Revision, Vec<(Key, Versioned)>), InfraError> {
    let mut entries = Vec::new();
    let visit = |is_first: bool, page: ScanPage| {
        if is_first {
            entries.clear();
        }
        entries.extend(page.entries);
        Ok(())
    };
    let revision = visit_since(driver, range, PAGE, since, operation, visit).await?;
    Ok((revision, entries))
}

/// Visits a range page by page, all pages at one revision, which is `since` or later. Returns that
/// revision. The visitor learns whether a page is the first. Another first page means that the
/// store has dropped the revision, and that earlier pages do not count.
pub async fn visit_since(
    driver: &Driver,
    range: &StoreRange,
    entries_per_page: usize,
    since: Revision,
    operation: Operation,
    mut visit: impl FnMut(bool, ScanPage) -> Result<(), InfraError> + Send,
) -> Result<Revision, InfraError> {
    let visit = Mutex::new(&mut visit);
    let read = || async {
        let mut from = ScanFrom::first(entries_per_page);
        loop {
            let is_first = from.after.is_none();
            let page = match driver.store().scan(range, from.clone()).await {
                Err(ScanError::Moved) => return Ok(None),
                page => page.map_err(|error| fault::scan(operation, &error))?,
            };
            let (revision, next) = (page.revision, page.next.clone());
            if revision < since {
                return Ok(None);
            }
            visit.lock().unwrap_or_else(PoisonError::into_inner)(is_first, page)?;
            match next {
                Some(next) => from.after = Some(next),
                None => return Ok(Some(((), revision))),
            }
        }
    };
    let ((), revision) = read_since(driver, since, operation, read).await?;
    Ok(revision)
}

/// Reads the first page of a range at `since` or later.
pub async fn page_since(
    driver: &Driver,
    range: &StoreRange,
    entries_per_page: usize,
    since: Revision,
    operation: Operation,
) -> Result<ScanPage, InfraError> {
    let read = || async {
        let page = driver.store().scan(range, ScanFrom::first(entries_per_page)).await;
        let page = page.map_err(|error| fault::scan(operation, &error))?;
        let revision = page.revision;
        Ok(Some((page, revision)))
    };
    let (page, _) = read_since(driver, since, operation, read).await?;
    Ok(page)
}

/// Repeats a read until its revision is `since` or later.
async fn read_since<T, F>(
    driver: &Driver,
    since: Revision,
    operation: Operation,
    mut read: impl FnMut() -> F + Send,
) -> Result<(T, Revision), InfraError>
where
    F: Future<Output = Result<Option<(T, Revision)>, InfraError>> + Send,
{
    let recent = |_| {
        let read = read();
        async move { Ok(read.await?.filter(|(_, revision)| *revision >= since)) }
    };
    driver.read_until(operation, recent).await
}
