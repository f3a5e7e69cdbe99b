//! Reading a range of keys as a whole.

use shardwright_coordination::InfraError;
use shardwright_store::{Key, KeyRange, Page, Revision, ScanError, Store, Versioned};

use crate::fault;

/// How many entries a page of a listing has.
const PAGE: usize = 1_000;
/// How often a listing starts again because the store had moved on.
const LISTINGS: usize = 8;

/// Lists a range, all at one revision.
pub(crate) async fn list(
    store: &impl Store,
    range: &KeyRange,
    operation: &'static str,
) -> Result<(Revision, Vec<(Key, Versioned)>), InfraError> {
    let mut moved = 0;
    'again: loop {
        let (mut entries, mut page) = (Vec::new(), Page::first(PAGE));
        loop {
            match store.scan(range, page.clone()).await {
                Ok(found) => {
                    entries.extend(found.entries);
                    match found.next {
                        Some(next) => page.after = Some(next),
                        None => return Ok((found.revision, entries)),
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
