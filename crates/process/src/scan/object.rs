//! Scanning an object.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use shardwright_scan::{FileReport, Skipped};
use shardwright_worker::connector::Item;
use shardwright_worker::handler::ItemFailure;
use tokio::sync::mpsc::{Receiver, channel};

use super::{Scanning, on_own_thread};

/// Pieces of an object that are fetched ahead.
const READ_AHEAD: usize = 4;

/// Scans an object piece by piece while it is fetched.
pub(super) async fn scan(
    scanning: &Arc<Scanning>,
    store: &Arc<dyn ObjectStore>,
    item: &Item,
    path: &str,
) -> Result<FileReport, ItemFailure> {
    let unread = |why| Ok(scanning.scanner.unread(&item.key, why));
    if scanning.scanner.is_allowed(&item.key) {
        return unread(Skipped::Allowed);
    }
    let path = Path::parse(path).map_err(|error| failed(&error.into()))?;
    let mut stream = match store.get(&path).await {
        Ok(found) => found.into_stream(),
        Err(Error::NotFound { .. }) => return unread(Skipped::Vanished),
        Err(Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => {
            return unread(Skipped::Unreadable);
        }
        Err(error) => return Err(failed(&error)),
    };
    let (sender, receiver) = channel(READ_AHEAD);
    let (scanning, key) = (Arc::clone(scanning), item.key.clone());
    let scan = on_own_thread(move |_| Some(scanning.pieces(&key, receiver)));
    let fetch = async move {
        while let Some(piece) = stream.next().await {
            // The scanner needs no more of a binary object.
            if sender.send(piece).await.is_err() {
                break;
            }
        }
    };
    let ((), report) = join(fetch, scan).await;
    report.unwrap_or_else(|| Err(ItemFailure::retryable("the runtime is shutting down")))
}

fn failed(error: &Error) -> ItemFailure {
    ItemFailure::retryable(format!("it cannot be read: {error}"))
}

impl Scanning {
    /// Scans pieces until there are no more.
    fn pieces(
        &self,
        key: &[u8],
        mut pieces: Receiver<Result<Bytes, Error>>,
    ) -> Result<FileReport, ItemFailure> {
        let mut scratch = self.scratch();
        let mut scan = self.scanner.begin(key, &mut scratch);
        while scan.wants_more()
            && let Some(piece) = pieces.blocking_recv()
        {
            match piece {
                Ok(piece) => scan.add(&piece),
                Err(error) => return Err(failed(&error)),
            }
        }
        let report = scan.finish();
        self.put_back(scratch);
        Ok(report)
    }
}
