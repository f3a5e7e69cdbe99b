//! Items in progress: a handler that reports what it processes.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use shardwright_contracts::ShardId;
use shardwright_jobs::readable::printable_bytes;
use shardwright_jobs::source::Source;
use shardwright_worker::connector::{Item, Payload};
use shardwright_worker::handler::{Assignment, Batch, Handler, ItemFailure, Outcome};

use super::monitor::RunMonitor;

/// Bytes of a row that are shown.
const ROW_BYTES: usize = 400;

/// A batch in progress.
pub(super) struct Running {
    pub(super) shard: ShardId,
    key: Bytes,
    /// The text, if the first item is a row.
    row: Option<Bytes>,
    pub(super) items: usize,
    pub(super) attempt: u32,
    pub(super) since: Instant,
}

impl Running {
    /// None if the batch is empty.
    pub(super) fn of(batch: &Batch<'_>) -> Option<Self> {
        let first = batch.items.first()?;
        let row = match &first.payload {
            Payload::Row { bytes, .. } => Some(bytes.slice(..bytes.len().min(ROW_BYTES))),
            Payload::File(_) | Payload::Object { .. } => None,
        };
        Some(Self {
            shard: batch.assignment.shard,
            key: first.key.clone(),
            row,
            items: batch.items.len(),
            attempt: batch.attempt,
            since: Instant::now(),
        })
    }

    /// The first item for display: a path, or the number and the text of a row.
    pub(super) fn shown(&self, source: &Source) -> String {
        match &self.row {
            Some(row) => format!("{}: {}", source.key_shown(&self.key), printable_bytes(row)),
            None => printable_bytes(&self.key),
        }
    }
}

/// A handler that reports its items in progress to a monitor.
pub(crate) struct Watched<H> {
    pub(crate) handler: H,
    pub(crate) monitor: Arc<RunMonitor>,
}

/// Ends the report of a batch, also if its work is dropped.
struct Report<'a> {
    monitor: &'a RunMonitor,
    number: u64,
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        self.monitor.stop(self.number);
    }
}

impl<H: Handler> Handler for Watched<H> {
    fn batch_size(&self) -> usize {
        self.handler.batch_size()
    }

    fn failure_record(&self, item: &Item, failure: &ItemFailure) -> Outcome {
        self.handler.failure_record(item, failure)
    }

    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let number = self.monitor.start(&batch);
        let _report = Report { monitor: &self.monitor, number };
        self.handler.process(batch).await
    }

    fn committed(&self, assignment: &Assignment, key: &[u8]) {
        self.handler.committed(assignment, key);
    }

    fn divided(&self, assignment: &Assignment, end: &[u8]) {
        self.handler.divided(assignment, end);
    }

    async fn close(&self) {
        self.handler.close().await;
    }
}
