//! Reading keys, and ranges of keys at one revision.

use shardwright_contracts::InfraError;
use shardwright_store::{
    AnyStore, Key, Revision, ScanError, ScanFrom, ScanPage, Snapshot, Store, StoreRange, Versioned,
};

use crate::Operation;
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

/// Lists a range, all at one revision.
pub async fn list(
    driver: &Driver,
    range: &StoreRange,
    operation: Operation,
) -> Result<(Revision, Vec<(Key, Versioned)>), InfraError> {
    list_since(driver, range, Revision::ZERO, operation).await
}

/// Lists a range, all at one revision, which is `since` or later.
pub async fn list_since(
    driver: &Driver,
    range: &StoreRange,
    since: Revision,
    operation: Operation,
) -> Result<(Revision, Vec<(Key, Versioned)>), InfraError> {
    let read = |_| async {
        let mut entries = Vec::new();
        let visit = |_: bool, page: ScanPage| {
            entries.extend(page.entries);
            Ok(true)
        };
        let visited = visit_pages(driver.store(), range, PAGE, operation, visit).await?;
        let visited = visited.filter(|revision| *revision >= since);
        Ok(visited.map(|revision| (revision, entries)))
    };
    driver.read_until(operation, read).await
}

/// Visits a range page by page, all pages at one revision, and returns that revision. Returns none
/// if the store has dropped the revision before the last page. The visitor learns whether a page is
/// the first, and returns whether it wants more.
pub async fn visit_pages(
    store: &AnyStore,
    range: &StoreRange,
    entries_per_page: usize,
    operation: Operation,
    mut visit: impl FnMut(bool, ScanPage) -> Result<bool, InfraError> + Send,
) -> Result<Option<Revision>, InfraError> {
    let mut page = ScanFrom::first(entries_per_page);
    loop {
        let found = match store.scan(range, page.clone()).await {
            Ok(found) => found,
            Err(ScanError::Moved) => return Ok(None),
            Err(error) => return Err(fault::scan(operation, &error)),
        };
        let (revision, next) = (found.revision, found.next.clone());
        let goes_on = visit(page.after.is_none(), found)?;
        match next.filter(|_| goes_on) {
            Some(next) => page.after = Some(next),
            None => return Ok(Some(revision)),
        }
    }
}
