//! Looking at an object.

use std::sync::Arc;

use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use shardwright_scan::{FileReport, Skipped};

use super::{Bench, on_own_thread};
use crate::connector::Item;
use crate::job::JobFailure;

/// How much of an object is fetched before it is looked at.
const PORTION: usize = 4 << 20;

/// Looks at an object portion by portion, as it comes.
pub(super) async fn scan(
    bench: &Arc<Bench>,
    store: &Arc<dyn ObjectStore>,
    item: &Item,
    path: &str,
) -> Result<FileReport, JobFailure> {
    let scanner = &bench.scanner;
    if scanner.is_allowed(&item.key) {
        return Ok(scanner.unread(&item.key, Skipped::Allowed));
    }
    let failed = |error: Error| JobFailure::retryable(format!("it cannot be read: {error}"));
    let path = Path::parse(path).map_err(|error| failed(error.into()))?;
    let mut stream = match store.get(&path).await {
        Ok(found) => found.into_stream(),
        Err(Error::NotFound { .. }) => return Ok(scanner.unread(&item.key, Skipped::Vanished)),
        Err(Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => {
            return Ok(scanner.unread(&item.key, Skipped::Unreadable));
        }
        Err(error) => return Err(failed(error)),
    };
    let (sender, receiver) = std::sync::mpsc::sync_channel::<bytes::Bytes>(1);
    let _ = (&mut stream, sender, receiver, PORTION);
    todo!()
}
