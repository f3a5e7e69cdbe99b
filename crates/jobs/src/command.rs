//! What is run for the items, in whichever way was chosen.

use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::RunId;
use shardwright_process::scan::ScanHandler;
use shardwright_process::{
    BatchInput, PersistentProcess, ProcessGuard, ProcessPerBatch, ProcessPerItem, Template,
};
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Assignment, Batch, Handler, ItemFailure, Outcome};

use crate::description::{Description, Mode};
use crate::output::Output;
use crate::source::Source;

/// What is run, in whichever way was chosen.
pub enum Command {
    /// A process for each item.
    Item(ProcessPerItem),
    /// A process for many.
    Batch(ProcessPerBatch),
    /// Processes that stay up.
    Persistent(PersistentProcess),
    /// The built-in scan.
    Scan(ScanHandler),
}

impl Command {
    /// The command of a run. One that is to stay up shows first that it can.
    pub async fn new(
        run: RunId,
        description: &Description,
        output: &Output,
        in_flight: usize,
        lease: Duration,
    ) -> anyhow::Result<Self> {
        let template = Template::new(&description.command())?;
        let spill = output.spill();
        Ok(match description.mode {
            Mode::Item => {
                Self::Item(ProcessPerItem::new(template, Arc::new(ProcessGuard::start()?), spill))
            }
            Mode::Batch { size, null } => {
                let is_null =
                    null || matches!(description.source, Source::Lines { null: true, .. });
                let input = if is_null { BatchInput::Nul } else { BatchInput::Lines };
                let (guard, size) = (Arc::new(ProcessGuard::start()?), usize::try_from(size)?);
                Self::Batch(ProcessPerBatch::new(template, guard, spill, size, input))
            }
            Mode::Persistent => {
                // The part of a lease in which the work has to have stopped.
                let (grace, logs) = (lease / 10, output.logs(run));
                let handler = PersistentProcess::new(template, logs, spill, in_flight, grace);
                handler.try_out(run).await?;
                Self::Persistent(handler)
            }
            Mode::Scan { .. } => anyhow::bail!(
                "the rules of a scan are not kept with it: unpark what is parked, and say the \
                 same `shardwright scan` again"
            ),
            Mode::Library => anyhow::bail!(
                "the handler of the run is code of the program that began it: unpark what is \
                 parked, and run that program again"
            ),
        })
    }

    /// How many batches of a shard to work on at a time.
    pub fn in_flight(&self, asked: usize) -> usize {
        match self {
            Self::Item(_) | Self::Batch(_) => asked,
            // One is looked at while what was found in the other is entered.
            Self::Scan(_) => asked.max(2),
            Self::Persistent(handler) => handler.batches_in_flight(),
        }
    }
}

/// Does with whichever it is what is said.
macro_rules! with {
    ($any:ident, $handler:ident => $work:expr) => {
        match $any {
            Command::Item($handler) => $work,
            Command::Batch($handler) => $work,
            Command::Persistent($handler) => $work,
            Command::Scan($handler) => $work,
        }
    };
}

impl Handler for Command {
    fn batch_size(&self) -> usize {
        with!(self, handler => handler.batch_size())
    }

    fn failure_record(&self, item: &Item, failure: &ItemFailure) -> Outcome {
        with!(self, handler => handler.failure_record(item, failure))
    }

    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        with!(self, handler => handler.process(batch).await)
    }

    fn committed(&self, assignment: &Assignment, key: &[u8]) {
        with!(self, handler => handler.committed(assignment, key));
    }

    fn divided(&self, assignment: &Assignment, end: &[u8]) {
        with!(self, handler => handler.divided(assignment, end));
    }

    async fn close(&self) {
        with!(self, handler => handler.close().await);
    }
}
