use std::sync::Arc;

use super::guard::Guard;
use super::item::{failure_line, line};
use super::run::{Finished, Invocation, Output};
use super::spill::Spill;
use super::template::{Template, text_of};
use crate::connector::Item;
use crate::job::{Batch, Job, JobFailure, Outcome};

/// What ends an item on a program's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchInput {
    /// A newline.
    Lines,
    /// A zero, for items that may have newlines in them.
    Nul,
}

/// Runs a program for many items at once: as arguments, where the command has a place for them,
/// and on its input otherwise.
pub struct ProcessPerBatch {
    template: Template,
    guard: Arc<Guard>,
    spill: Spill,
    size: usize,
    input: BatchInput,
}

impl ProcessPerBatch {
    /// Runs `template` for up to `size` items, in the group of `guard`.
    #[must_use]
    pub const fn new(
        template: Template,
        guard: Arc<Guard>,
        spill: Spill,
        size: usize,
        input: BatchInput,
    ) -> Self {
        Self { template, guard, spill, size, input }
    }

    fn input(&self, items: &[Item]) -> Vec<u8> {
        let end = match self.input {
            BatchInput::Lines => b'\n',
            BatchInput::Nul => 0,
        };
        let mut input = Vec::new();
        for item in items {
            input.extend_from_slice(text_of(item));
            input.push(end);
        }
        input
    }
}

impl Job for ProcessPerBatch {
    fn batch_size(&self) -> usize {
        self.size
    }

    fn failure_record(&self, item: &Item, failure: &JobFailure) -> Vec<u8> {
        failure_line(item, failure)
    }

    /// What the program wrote is in the record of the first item. If it fails, all have failed
    /// together, and each is tried alone.
    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let Some(first) = batch.items.first() else { return Vec::new() };
        let (arguments, input) = if self.template.has_place() {
            (self.template.for_items(batch.items), None)
        } else {
            (self.template.arguments().to_vec(), Some(self.input(batch.items)))
        };
        let invocation = Invocation {
            guard: &self.guard,
            program: self.template.program(),
            arguments,
            input,
            spill: &self.spill,
            assignment: batch.assignment,
            sequence: batch.sequence,
            attempt: batch.attempt,
            item: first,
        };
        match invocation.run().await {
            Ok(finished) => {
                let quiet = Finished { took: finished.took, output: Output::Inline(Vec::new()) };
                let of_batch = |(index, item)| {
                    let finished = if index == 0 { &finished } else { &quiet };
                    Ok(line(item, finished, batch.attempt, Some(batch.sequence)))
                };
                batch.items.iter().enumerate().map(of_batch).collect()
            }
            Err(failure) => batch.items.iter().map(|_| Err(failure.clone())).collect(),
        }
    }
}
