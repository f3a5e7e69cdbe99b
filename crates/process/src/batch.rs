use std::iter::repeat_n;
use std::sync::Arc;

use shardwright_coordination::ParkReason;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Batch, Handler, ItemFailure, Outcome};

use super::guard::ProcessGuard;
use super::item::{failure_line, line};
use super::output::Output;
use super::run::{Failed, Finished, Invocation};
use super::spill::Spill;
use super::template::{Template, text_of};

/// What ends an item on a program's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchInput {
    /// A newline. An item with one in it fails, because it would be taken for two.
    Lines,
    /// A zero, for items that may have newlines in them.
    Nul,
}

impl BatchInput {
    const fn end(self) -> u8 {
        match self {
            Self::Lines => b'\n',
            Self::Nul => 0,
        }
    }

    const fn end_shown(self) -> &'static str {
        match self {
            Self::Lines => "newline",
            Self::Nul => "zero",
        }
    }
}

/// Runs a program for many items at once: as arguments, where the command has a place for them,
/// and on its input otherwise.
pub struct ProcessPerBatch {
    template: Template,
    guard: Arc<ProcessGuard>,
    spill: Spill,
    size: usize,
    input: BatchInput,
}

impl ProcessPerBatch {
    /// Runs `template` for up to `size` items, under `guard`.
    #[must_use]
    pub const fn new(
        template: Template,
        guard: Arc<ProcessGuard>,
        spill: Spill,
        size: usize,
        input: BatchInput,
    ) -> Self {
        Self { template, guard, spill, size, input }
    }

    fn input(&self, items: &[Item]) -> Vec<u8> {
        let mut input = Vec::new();
        for item in items {
            input.extend_from_slice(text_of(item));
            input.push(self.input.end());
        }
        input
    }

    /// Whether a program would take an item for several.
    fn is_torn(&self, item: &Item) -> bool {
        !self.template.has_place() && text_of(item).contains(&self.input.end())
    }

    fn torn(&self) -> ItemFailure {
        let end = self.input.end_shown();
        let detail =
            format!("it has a {end} in it, and on the command's input each item ends with a {end}");
        ItemFailure::fatal(ParkReason::Other, detail).own()
    }

    /// Runs the program once for all of a batch. What it wrote is in the record of the first item.
    async fn together(&self, batch: Batch<'_>) -> Result<Vec<Outcome>, Failed> {
        let Some(first) = batch.items.first() else { return Ok(Vec::new()) };
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
        let finished = invocation.run().await?;
        let quiet = Finished { took: finished.took, output: Output::Inline(Vec::new()) };
        let of_batch = |(index, item)| {
            let finished = if index == 0 { &finished } else { &quiet };
            line(item, finished, batch.attempt, Some(batch.sequence))
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

    /// If the program fails, all have failed together, and each is tried alone. If it cannot even
    /// be started with so many or such items, it gets them in parts.
    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.items.len());
        // What is left, the next part last.
        let mut parts = vec![batch.items];
        while let Some(items) = parts.pop() {
            if let Some(at) = items.iter().position(|item| self.is_torn(item)) {
                let (before, rest) = items.split_at_checked(at).unwrap_or((items, &[]));
                if before.is_empty() {
                    outcomes.push(Err(self.torn()));
                    parts.push(rest.get(1..).unwrap_or_default());
                } else {
                    parts.extend([rest, before]);
                }
                continue;
            }
            let sequence = batch.sequence + outcomes.len() as u64;
            match self.together(Batch { sequence, items, ..batch }).await {
                Ok(done) => outcomes.extend(done),
                Err(Failed::Unfit(_)) if items.len() > 1 => {
                    let halves = items.split_at_checked(items.len() / 2);
                    let (left, right) = halves.unwrap_or((items, &[]));
                    parts.extend([right, left]);
                }
                Err(failed) => {
                    let failure = failed.for_each_of(items.len());
                    outcomes.extend(repeat_n(Err(failure), items.len()));
                }
            }
        }
        outcomes
    }
}
