//! The built-in handler, which searches for secrets.
//!
//! Each item leaves one [line](ScanRecord) in the results, with or without findings, so that the
//! results list all scanned items. `shardwright-scan` defines what a secret is.

mod file;
#[cfg(feature = "objects")]
mod object;

use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "objects")]
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};

use shardwright_scan::{FileReport, Scratch};
pub use shardwright_scan::{Format, Report, RuleSet, Scanner, Secrecy, Totals, uri};

use shardwright_worker::connector::{Item, Payload};
use shardwright_worker::handler::{Batch, Handler, ItemFailure, Outcome};

use crate::record::{KeyText, to_line};

/// Items per batch: enough to outweigh the change of threads, few enough that little is repeated
/// after a kill.
const BATCH: usize = 16;

/// The result line of a scanned item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanRecord<'a> {
    /// Its key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// Its size in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// Number of the try, if not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What was found.
    #[serde(flatten)]
    pub report: FileReport,
}

impl<'a> ScanRecord<'a> {
    fn new(item: &'a Item, attempt: u32, report: FileReport) -> Self {
        Self {
            key: KeyText::new(&item.key),
            bytes: item.size.unwrap_or_default(),
            attempt: (attempt > 1).then_some(attempt),
            report,
        }
    }

    fn to_line(&self) -> io::Result<Vec<u8>> {
        to_line(self)
    }
}

/// Searches items for secrets.
#[derive(Clone)]
pub struct ScanHandler {
    scanning: Arc<Scanning>,
    #[cfg(feature = "objects")]
    store: Option<Arc<dyn ObjectStore>>,
}

/// The scanner, and the reusable memory of its threads.
struct Scanning {
    scanner: Scanner,
    /// Unused scratches.
    scratches: Mutex<Vec<Scratch>>,
}

impl ScanHandler {
    /// A handler that uses `scanner`.
    #[must_use]
    pub fn new(scanner: Scanner) -> Self {
        let scanning = Arc::new(Scanning { scanner, scratches: Mutex::default() });
        Self {
            scanning,
            #[cfg(feature = "objects")]
            store: None,
        }
    }

    /// Reads objects from a store.
    #[cfg(feature = "objects")]
    #[must_use]
    pub fn with_store(self, store: Arc<dyn ObjectStore>) -> Self {
        Self { store: Some(store), ..self }
    }

    #[cfg(feature = "objects")]
    async fn object(&self, item: &Item, path: &str, attempt: u32) -> Outcome {
        let Some(store) = &self.store else { return Err(no_reader()) };
        let report = object::scan(&self.scanning, store, item, path).await?;
        line(item, attempt, report)
    }

    #[cfg(not(feature = "objects"))]
    async fn object(&self, _: &Item, _: &str, _: u32) -> Outcome {
        Err(no_reader())
    }
}

impl Scanning {
    fn scratch(&self) -> Scratch {
        self.scratches.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn put_back(&self, scratch: Scratch) {
        self.scratches.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }
}

impl Handler for ScanHandler {
    fn batch_size(&self) -> usize {
        BATCH
    }

    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let attempt = batch.attempt;
        let mut outcomes = Vec::with_capacity(batch.items.len());
        let mut items = batch.items;
        while let [first, ..] = items {
            if let Payload::Object { path, .. } = &first.payload {
                outcomes.push(self.object(first, path, attempt).await);
                items = items.get(1..).unwrap_or_default();
                continue;
            }
            let is_object = |item: &Item| matches!(item.payload, Payload::Object { .. });
            let count = items.iter().position(is_object).unwrap_or(items.len());
            let (local, rest) = items.split_at_checked(count).unwrap_or((items, &[]));
            let (scanning, local) = (Arc::clone(&self.scanning), local.to_vec());
            outcomes.extend(on_own_thread(move |lost| scanning.local(&local, attempt, lost)).await);
            items = rest;
        }
        outcomes
    }
}

impl Scanning {
    /// Scans files and rows.
    fn local(&self, items: &[Item], attempt: u32, lost: &AtomicBool) -> Vec<Outcome> {
        let mut scratch = self.scratch();
        let each = items.iter().map(|item| {
            let report = match &item.payload {
                Payload::File(path) => {
                    file::scan(&self.scanner, &item.key, path, &mut scratch, lost)
                }
                Payload::Row { bytes, .. } => Ok(self.scanner.scan(&item.key, bytes, &mut scratch)),
                Payload::Object { .. } => Err(no_reader()),
            };
            report.and_then(|report| line(item, attempt, report))
        });
        let outcomes = each.collect();
        self.put_back(scratch);
        outcomes
    }
}

fn no_reader() -> ItemFailure {
    ItemFailure::retryable("there is no store to read the object from")
}

fn line(item: &Item, attempt: u32, report: FileReport) -> Outcome {
    let unwritten =
        |error| ItemFailure::retryable(format!("its result cannot be written: {error}"));
    ScanRecord::new(item, attempt, report).to_line().map_err(unwritten)
}

/// Runs `work` on the blocking pool. Its flag is set when the future is dropped.
async fn on_own_thread<T: Default + Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> T {
    /// Sets the flag when the future is dropped.
    struct Waiting(Arc<AtomicBool>);
    impl Drop for Waiting {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let waiting = Waiting(Arc::new(AtomicBool::new(false)));
    let lost = Arc::clone(&waiting.0);
    match tokio::task::spawn_blocking(move || work(&lost)).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down, so nothing reads the result.
            Err(_) => T::default(),
        },
    }
}
