//! The handler of a run of the command line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::RunId;
use shardwright_process::scan::ScanHandler;
use shardwright_process::{
    BatchInput, PersistentProcess, Placeholders, ProcessGuard, ProcessPerBatch, ProcessPerItem,
    Template,
};
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Assignment, Batch, Handler, ItemFailure, Outcome};

use crate::description::{Description, Mode};
use crate::options::JobOptions;
use crate::output::Output;
use crate::readable::quoted;
use crate::source::Source;

/// Checks the command of a new run, before anything is created. Without a source, the items are
/// rows from stdin.
pub(crate) fn check(options: &JobOptions, source: Option<&Source>) -> anyhow::Result<()> {
    if matches!(options.mode, Mode::Scan { .. } | Mode::Library) {
        return Ok(());
    }
    let template = template_of(options)?;
    anyhow::ensure!(
        !template.needs_row_numbers() || source.is_none_or(Source::has_row_numbers),
        "{{#}} stands for the row number, and the items of this source are no rows; leave it out, \
         or use `--lines`"
    );
    Ok(())
}

/// Checks the command of a new run, as far as it does not depend on the source.
pub fn template_of(options: &JobOptions) -> anyhow::Result<Template> {
    let JobOptions { command, shell, placeholders, mode, .. } = options;
    template(command, *shell, placeholders, *mode)
}

/// The command of an existing run.
pub fn template_of_run(description: &Description) -> anyhow::Result<Template> {
    let Description { shell, placeholders, mode, .. } = description;
    template(&description.command(), *shell, placeholders, *mode)
}

/// Checks a command.
fn template(
    command: &[OsString],
    shell: bool,
    placeholders: &Placeholders,
    mode: Mode,
) -> anyhow::Result<Template> {
    let template = match command {
        [line] if shell => Template::shell(line, placeholders)?,
        _ => Template::with(command, placeholders)?,
    };
    anyhow::ensure!(
        mode != Mode::Item || !shell || template.has_placeholder(),
        "the shell line has no placeholder; write {} where the item belongs",
        quoted(&OsString::from_vec(placeholders.item()))
    );
    anyhow::ensure!(
        !matches!(mode, Mode::Batch { .. }) || !template.is_for_one_item(),
        "the shell line redirects to an item or assigns it, and a batch has many; leave out --batch"
    );
    anyhow::ensure!(
        mode != Mode::Persistent || !template.names_items(),
        "a --persistent command receives its items over the worker protocol; leave out the \
         placeholders of items"
    );
    Ok(template)
}

/// The handler, by the mode of the run.
pub enum Command {
    /// A process per item.
    Item(ProcessPerItem),
    /// A process per batch.
    Batch(ProcessPerBatch),
    /// Persistent processes.
    Persistent(PersistentProcess),
    /// The built-in scan.
    Scan(ScanHandler),
}

impl Command {
    /// The handler of a run. A persistent command is started once to check it.
    pub async fn new(
        run: RunId,
        description: &Description,
        output: &Output,
        in_flight: usize,
        lease: Duration,
    ) -> anyhow::Result<Self> {
        let limits = &description.limits;
        let template = || template_of_run(description);
        let spill = output.spill();
        let guard = || {
            // Where the system denies it, the orphans of a killed guard are not killed.
            let _denied = ProcessGuard::adopt_orphans();
            ProcessGuard::start().map(Arc::new)
        };
        Ok(match description.mode {
            Mode::Item => {
                Self::Item(ProcessPerItem::new(template()?, guard()?, spill).limits(*limits))
            }
            Mode::Batch { size, null } => {
                let is_null =
                    null || matches!(description.source, Source::Lines { null: true, .. });
                let input = if is_null { BatchInput::Nul } else { BatchInput::Lines };
                let (guard, size) = (guard()?, usize::try_from(size)?);
                let template = template()?;
                let handler = ProcessPerBatch::new(template, guard, spill, size, input);
                Self::Batch(handler.limits(*limits))
            }
            Mode::Persistent => {
                // The unused part of a lease, in which work must have stopped.
                let (grace, logs, template) = (lease / 10, output.logs(run), template()?);
                let handler =
                    PersistentProcess::new(template, guard()?, logs, spill, in_flight, grace)
                        .limits(*limits);
                handler.try_out(run).await?;
                Self::Persistent(handler)
            }
            Mode::Scan { .. } => anyhow::bail!(
                "a run of `scan` does not store its rules: unpark its items, and repeat the same \
                 `shardwright scan` command"
            ),
            Mode::Library => anyhow::bail!(
                "the handler of this run is code of the program that started it: unpark its \
                 items, and start that program again"
            ),
        })
    }

    /// Batches of a shard to process at a time.
    pub fn in_flight(&self, requested: usize) -> usize {
        match self {
            Self::Item(_) | Self::Batch(_) => requested,
            // One batch is scanned while the findings of the other are recorded.
            Self::Scan(_) => requested.max(2),
            Self::Persistent(handler) => handler.batches_in_flight(),
        }
    }
}

/// Evaluates an expression with the handler of any variant.
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
