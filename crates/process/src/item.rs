use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use shardwright_coordination::ParkReason;
use shardwright_worker::connector::{Item, Payload};
use shardwright_worker::handler::{Batch, Handler, ItemFailure, Outcome};

use super::guard::ProcessGuard;
use super::limits::Limits;
use super::output::Output;
use super::record::{ItemRecord, KeyText};
use super::run::{Finished, Invocation};
use super::slots::Slots;
use super::spill::Spill;
use super::template::Template;

/// Runs a program for each item.
pub struct ProcessPerItem {
    template: Template,
    guard: Arc<ProcessGuard>,
    spill: Spill,
    limits: Limits,
    slots: Slots,
}

impl ProcessPerItem {
    /// Runs `template`, under `guard`.
    #[must_use]
    pub fn new(template: Template, guard: Arc<ProcessGuard>, spill: Spill) -> Self {
        Self { template, guard, spill, limits: Limits::default(), slots: Slots::default() }
    }

    /// Sets limits of each program.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl Handler for ProcessPerItem {
    fn failure_record(&self, item: &Item, failure: &ItemFailure) -> Outcome {
        failure_line(item, failure)
    }

    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.items.len());
        let slot = self.slots.take();
        for (item, sequence) in batch.items.iter().zip(batch.sequence..) {
            let arguments = match self.template.for_item(item, slot.number) {
                Ok(arguments) => arguments,
                Err(unnumbered) => {
                    outcomes.push(Err(unnumbered.into()));
                    continue;
                }
            };
            let invocation = Invocation {
                guard: &self.guard,
                program: self.template.program(),
                arguments,
                input: None,
                spill: &self.spill,
                limits: self.limits,
                assignment: batch.assignment,
                sequence,
                attempt: batch.attempt,
                item,
            };
            outcomes.push(match invocation.run().await {
                Ok(finished) => line(item, &finished, batch.attempt, None),
                Err(failed) => Err(failed.for_each_of(1)),
            });
        }
        outcomes
    }

    async fn close(&self) {
        self.guard.close().await;
    }
}

/// The result line of an item whose program succeeded.
pub(super) fn line(item: &Item, finished: &Finished, attempt: u32, batch: Option<u64>) -> Outcome {
    let (stdout, long) = match &finished.output {
        Output::Inline(bytes) => (Some(KeyText::new(bytes)), None),
        Output::File(spilled) => (None, Some(spilled)),
    };
    let record = ItemRecord {
        key: KeyText::new(&item.key),
        row: row_of(item),
        bytes: item.size.unwrap_or_default(),
        exit: 0,
        ms: u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
        attempt: (attempt > 1).then_some(attempt),
        batch,
        stdout,
        stdout_path: long.map(|long| KeyText::new(long.location.as_os_str().as_bytes())),
        stdout_bytes: long.map(|long| long.bytes),
        stdout_blake3: long.map(|long| long.blake3.as_str().into()),
        failed: None,
    };
    record.to_line().map_err(unwritten)
}

/// An item whose result cannot be encoded is not done.
fn unwritten(error: io::Error) -> ItemFailure {
    ItemFailure::permanent(ParkReason::Other, format!("its result cannot be written: {error}"))
        .own()
}

/// The row number, from 1.
pub(super) const fn row_of(item: &Item) -> Option<u64> {
    match item.payload {
        Payload::Row { number, .. } => Some(number.saturating_add(1)),
        Payload::File(_) | Payload::Object { .. } => None,
    }
}

/// The result line of a failed item that cannot be parked.
pub(super) fn failure_line(item: &Item, failure: &ItemFailure) -> Outcome {
    let record = ItemRecord {
        key: KeyText::new(&item.key),
        row: row_of(item),
        bytes: item.size.unwrap_or_default(),
        exit: -1,
        ms: 0,
        attempt: None,
        batch: None,
        stdout: None,
        stdout_path: None,
        stdout_bytes: None,
        stdout_blake3: None,
        failed: Some(failure.detail.as_str().into()),
    };
    record.to_line().map_err(unwritten)
}
