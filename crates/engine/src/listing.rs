//! Reading a range of keys as a whole.

use shardwright_contracts::InfraError;
use shardwright_store::{
    AnyStore, Key, Revision, ScanError, ScanFrom, ScanPage, Store, StoreRange, Versioned,
};

use crate::fault;

/// How many entries a page of a listing has.
const PAGE: usize = 1_000;
/// How often a listing starts again because the store had moved on.
const LISTINGS: usize = 8;

/// Lists a range, all at one revision.
pub async fn list(
    store: &AnyStore,
    range: &StoreRange,
    operation: &'static str,
) -> Result<(Revision, Vec<(Key, Versioned)>), InfraError> {
    let mut entries = Vec::new();
    let visit = |is_first: bool, page: ScanPage| {
        if is_first {
            entries.clear();
        }
        entries.extend(page.entries);
        Ok(true)
    };
    let revision = visit_pages(store, range, PAGE, operation, visit).await?;
    Ok((revision, entries))
}

/// Visits a range page by page, all of them at one revision, which is told in the end. A first
/// page that comes after others says that the range is visited anew. The visitor may want no more.
pub async fn visit_pages(
    store: &AnyStore,
    range: &StoreRange,
    entries_per_page: usize,
    operation: &'static str,
    mut visit: impl FnMut(bool, ScanPage) -> Result<bool, InfraError> + Send,
) -> Result<Revision, InfraError> {
    let mut moved = 0;
    'again: loop {
        let mut page = ScanFrom::first(entries_per_page);
        loop {
            match store.scan(range, page.clone()).await {
                Ok(found) => {
                    let (revision, next) = (found.revision, found.next.clone());
                    let goes_on = visit(page.after.is_none(), found)?;
                    match next.filter(|_| goes_on) {
                        Some(next) => page.after = Some(next),
                        None => return Ok(revision),
                    }
                }
                Err(ScanError::Moved) if moved < LISTINGS => {
                    moved += 1;
                    continue 'again;
                }
                Err(error) => return Err(fault::scan(operation, &error)),
            }
        }
    }
}
