use std::sync::Arc;

use shardwright_coordination::ParkReason;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Batch, Handler, ItemFailure, Outcome};

use super::guard::ProcessGuard;
use super::item::{done, failed_line, failure_line, line};
use super::limits::Limits;
use super::run::{Failed, Invocation};
use super::slots::Slots;
use super::spill::Spill;
use super::template::{Template, text_of};

/// The separator of items on a program's stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchInput {
    /// A newline. An item that contains a newline fails, because the program would read two.
    Lines,
    /// NUL, for items that may contain newlines.
    Nul,
}

impl BatchInput {
    const fn end(self) -> u8 {
        match self {
            Self::Lines => b'\n',
            Self::Nul => 0,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Lines => "newline",
            Self::Nul => "NUL",
        }
    }
}

/// Runs a program per batch. The items are its arguments where the command has a placeholder, and
/// are written to its stdin otherwise.
pub struct ProcessPerBatch {
    template: Template,
    guard: Arc<ProcessGuard>,
    spill: Spill,
    size: usize,
    input: BatchInput,
    limits: Limits,
    slots: Slots,
}

impl ProcessPerBatch {
    /// Runs `template` for up to `size` items, under `guard`.
    #[must_use]
    pub fn new(
        template: Template,
        guard: Arc<ProcessGuard>,
        spill: Spill,
        size: usize,
        input: BatchInput,
    ) -> Self {
        let (limits, slots) = (Limits::default(), Slots::default());
        Self { template, guard, spill, size, input, limits, slots }
    }

    /// Sets limits of each program.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn input(&self, items: &[Item]) -> Vec<u8> {
        let mut input = Vec::new();
        for item in items {
            input.extend_from_slice(&text_of(item));
            input.push(self.input.end());
        }
        input
    }

    /// Whether a program would read an item as several.
    fn has_separator(&self, item: &Item) -> bool {
        !self.template.names_items() && text_of(item).contains(&self.input.end())
    }

    fn separator_failure(&self) -> ItemFailure {
        let end = self.input.name();
        let detail = format!("it contains a {end}, which separates items on the command's input");
        ItemFailure::permanent(ParkReason::Other, detail).own()
    }

    /// Runs the program once for a batch. Its output is in the record of the first item.
    async fn run_together(&self, batch: Batch<'_>) -> Result<Vec<Outcome>, Failed> {
        let Some(first) = batch.items.first() else { return Ok(Vec::new()) };
        let slot = self.slots.take();
        let (items, input) = if self.template.names_items() {
            (batch.items, None)
        } else {
            (&[][..], Some(self.input(batch.items)))
        };
        let arguments = self.template.for_items(items, slot.number);
        let arguments = arguments.map_err(ItemFailure::from)?;
        let invocation = Invocation {
            guard: &self.guard,
            program: self.template.program(),
            arguments,
            input,
            spill: &self.spill,
            limits: self.limits,
            assignment: batch.assignment,
            sequence: batch.sequence,
            attempt: batch.attempt,
            item: first,
        };
        let left = invocation.run().await?;
        let quiet = left.without_outputs();
        let of_batch = |(index, item)| {
            let left = if index == 0 { &left } else { &quiet };
            done(item, batch.attempt, Some(batch.sequence), left)
        };
        Ok(batch.items.iter().enumerate().map(of_batch).collect())
    }
}

impl Handler for ProcessPerBatch {
    fn batch_size(&self) -> usize {
        self.size
    }

    fn failure_record(&self, item: &Item, failure: &ItemFailure) -> Outcome {
        failure_line(item, failure)
    }

    /// If the program fails, all items of the batch fail, and each is retried alone. If it cannot
    /// be started with these arguments, the batch is divided.
    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.items.len());
        // The remaining parts, the next one last.
        let mut parts = vec![batch.items];
        while let Some(items) = parts.pop() {
            if let Some(at) = items.iter().position(|item| self.has_separator(item)) {
                let (before, rest) = items.split_at_checked(at).unwrap_or((items, &[]));
                if let ([], [item, ..]) = (before, rest) {
                    let failure = self.separator_failure();
                    let record = line(item, batch.attempt, None, None, Some(&failure.detail));
                    outcomes.push(Err(failure.with_record(record.unwrap_or_default())));
                    parts.push(rest.get(1..).unwrap_or_default());
                } else {
                    parts.extend([rest, before]);
                }
                continue;
            }
            let sequence = batch.sequence + outcomes.len() as u64;
            match self.run_together(Batch { sequence, items, ..batch }).await {
                Ok(done) => outcomes.extend(done),
                Err(failed) if failed.has_bad_arguments && items.len() > 1 => {
                    let halves = items.split_at_checked(items.len() / 2);
                    let (left, right) = halves.unwrap_or((items, &[]));
                    parts.extend([right, left]);
                }
                Err(failed) => {
                    let line = failed_line(batch.attempt, Some(sequence));
                    outcomes.extend(failed.for_each(items.iter(), line).map(Err));
                }
            }
        }
        outcomes
    }

    async fn close(&self) {
        self.guard.close().await;
    }
}
