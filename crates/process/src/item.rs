use std::borrow::Cow;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;

use shardwright_coordination::ParkReason;
use shardwright_worker::connector::{Item, Payload};
use shardwright_worker::handler::{Batch, Handler, ItemFailure, Outcome};

use super::guard::ProcessGuard;
use super::limits::Limits;
use super::output::Output;
use super::record::{ItemRecord, KeyText};
use super::run::{Failed, Invocation, Left};
use super::slots::Slots;
use super::spill::Spill;
use super::template::{Template, text_of};

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
        let failures = |failed: Failed, item| {
            failed.for_each(std::iter::once(item), failed_line(batch.attempt, None)).map(Err)
        };
        for (item, sequence) in batch.items.iter().zip(batch.sequence..) {
            let arguments = match self.template.for_item(item, slot.number) {
                Ok(arguments) => arguments,
                Err(unnumbered) => {
                    outcomes.extend(failures(ItemFailure::from(unnumbered).into(), item));
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
            match invocation.run().await {
                Ok(left) => outcomes.push(done(item, batch.attempt, None, &left)),
                Err(failed) => outcomes.extend(failures(failed, item)),
            }
        }
        outcomes
    }

    async fn close(&self) {
        self.guard.close().await;
    }
}

/// The result line of a try of an item. `left` is what its program left, if it was started.
pub(super) fn line(
    item: &Item,
    attempt: u32,
    batch: Option<u64>,
    left: Option<&Left>,
    failed: Option<&str>,
) -> io::Result<Vec<u8>> {
    let text = text_of(item);
    let mut record = ItemRecord {
        item: (*text != *item.key).then(|| KeyText::new(&text)),
        row: row_of(item),
        bytes: item.size.unwrap_or_default(),
        attempts: (attempt > 1).then_some(attempt),
        batch,
        failed: failed.map(Cow::Borrowed),
        ..ItemRecord::new(KeyText::new(&item.key))
    };
    if let Some(left) = left {
        record.exit = left.status.and_then(|status| status.code());
        record.signal = left.status.and_then(|status| status.signal());
        record.ms = Some(u64::try_from(left.took.as_millis()).unwrap_or(u64::MAX));
        let stdout = Parts::of(&left.stdout);
        (record.stdout, record.stdout_path) = (stdout.text, stdout.path);
        (record.stdout_bytes, record.stdout_blake3) = (stdout.bytes, stdout.blake3);
        let stderr = Parts::of(&left.stderr);
        (record.stderr, record.stderr_path) = (stderr.text, stderr.path);
        (record.stderr_bytes, record.stderr_blake3) = (stderr.bytes, stderr.blake3);
    }
    record.to_line()
}

/// The fields of an output.
#[derive(Default)]
struct Parts<'a> {
    text: Option<KeyText<'a>>,
    path: Option<KeyText<'a>>,
    bytes: Option<u64>,
    blake3: Option<Cow<'a, str>>,
}

impl<'a> Parts<'a> {
    fn of(output: &'a Output) -> Self {
        match output {
            Output::Inline(bytes) if bytes.is_empty() => Self::default(),
            Output::Inline(bytes) => Self { text: Some(KeyText::new(bytes)), ..Self::default() },
            Output::File(long) => Self {
                text: None,
                path: Some(KeyText::new(long.location.as_os_str().as_bytes())),
                bytes: Some(long.bytes),
                blake3: Some(long.blake3.as_str().into()),
            },
        }
    }
}

/// The outcome of an item whose program succeeded.
pub(super) fn done(item: &Item, attempt: u32, batch: Option<u64>, left: &Left) -> Outcome {
    line(item, attempt, batch, Some(left), None).map_err(unwritten)
}

/// The result line of a failed try. Without one, the failure has no record.
pub(super) fn failed_line(
    attempt: u32,
    batch: Option<u64>,
) -> impl Fn(&Item, Option<&Left>, &str) -> Vec<u8> {
    move |item, left, detail| line(item, attempt, batch, left, Some(detail)).unwrap_or_default()
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

/// The result line of a failed item that cannot be parked: that of its last try.
pub(super) fn failure_line(item: &Item, failure: &ItemFailure) -> Outcome {
    if !failure.record.is_empty() {
        return Ok(failure.record.clone());
    }
    line(item, 1, None, None, Some(&failure.detail)).map_err(unwritten)
}
