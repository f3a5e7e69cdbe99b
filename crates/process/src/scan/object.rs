//! Looking at an object.

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

use super::{Bench, on_own_thread};

/// How many pieces of an object may wait to be looked at.
const WAITING: usize = 4;

/// Looks at an object piece by piece, as it comes.
pub(super) async fn scan(
    bench: &Arc<Bench>,
    store: &Arc<dyn ObjectStore>,
    item: &Item,
    path: &str,
) -> Result<FileReport, ItemFailure> {
    let unread = |why| Ok(bench.scanner.unread(&item.key, why));
    if bench.scanner.is_allowed(&item.key) {
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
    let (sender, receiver) = channel(WAITING);
    let (bench, key) = (Arc::clone(bench), item.key.clone());
    let look = on_own_thread(move |_| Some(bench.pieces(&key, receiver)));
    let fetch = async move {
        while let Some(piece) = stream.next().await {
            // Nobody wants more of what is no text.
            if sender.send(piece).await.is_err() {
                break;
            }
        }
    };
    let ((), report) = join(fetch, look).await;
    report.unwrap_or_else(|| Err(ItemFailure::retryable("the program is ending")))
}

fn failed(error: &Error) -> ItemFailure {
    ItemFailure::retryable(format!("it cannot be read: {error}"))
}

impl Bench {
    /// Looks at pieces until there are no more.
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
