//! `--dry-run`: shows what a command would run, and changes nothing.

use std::ffi::OsString;
use std::iter;
use std::os::unix::ffi::OsStringExt as _;
use std::time::{Duration, Instant};

use shardwright_jobs::JobOptions;
use shardwright_jobs::command::{template_of, template_of_run};
use shardwright_jobs::description::Mode;
use shardwright_jobs::preview::{Preview, preview};
use shardwright_jobs::readable::shell_line;
use shardwright_process::{KeyText, NoRowNumber, Template, text_of};
use shardwright_worker::connector::{Connector as _, Item, PageLimit, Position};

use crate::arguments::run::RunArguments;
use crate::commands::print_json;
use crate::console::{outln, write_bytes};
use crate::exit::Exit;
use crate::store::{OpenMode, OpenStore as _, StoreAddress};

/// Commands that are shown.
const SHOWN: usize = 5;
/// Items of a batch that are shown.
const SHOWN_OF_BATCH: usize = 3;
/// The slot of all shown commands.
const SLOT: u32 = 1;
/// How long items are counted.
const COUNTING: Duration = Duration::from_secs(10);

/// Prints the first commands, and the numbers of items and shards.
pub(crate) async fn dry_run(
    store: &StoreAddress,
    json: bool,
    arguments: &RunArguments,
) -> anyhow::Result<Exit> {
    let options = arguments.options();
    let is_open = store.is_shared() || store.exists();
    let coordinator = if is_open { Some(store.open(OpenMode::Read).await?) } else { None };
    let preview = preview(store, coordinator.as_ref(), &options).await?;
    // An existing run keeps the placeholders that it was started with.
    let template = match &preview.existing {
        Some(begun) => template_of_run(begun)?,
        None => template_of(&options)?,
    };
    let mut printer = Printer { json, template, options: &options, shown: Vec::new() };
    let (items, is_exact) = printer.print_commands(&preview).await?;
    let (name, shards) = (preview.name, preview.ranges.len());
    if json {
        print_json(&serde_json::json!({
            "event": "dry_run", "name": name.as_str(), "source": preview.source.shown(),
            "resumes": preview.existing.is_some(), "commands": printer.shown, "items": items,
            "exact": is_exact, "shards": shards,
        }))?;
        return Ok(Exit::Done);
    }
    let source = preview.source.title();
    let after: Vec<String> = arguments.begin.after.iter().map(|run| format!("run {run}")).collect();
    let name = if after.is_empty() {
        name.to_string()
    } else {
        format!("{name}, which begins after {},", after.join(" and "))
    };
    let least = if is_exact { "" } else { "more than " };
    match preview.existing {
        None => outln!(
            "run {name} would process {least}{items} items of {source} in {shards} shards; nothing \
             was run"
        ),
        Some(_) => outln!(
            "run {name} exists and would be resumed; its source has {least}{items} items: \
             {source}; nothing was run"
        ),
    }
    Ok(Exit::Done)
}

/// Prints commands.
struct Printer<'a> {
    json: bool,
    template: Template,
    options: &'a JobOptions,
    /// The commands that were shown, as JSON.
    shown: Vec<serde_json::Value>,
}

/// The start of a batch.
#[derive(Default)]
struct Start {
    first: Vec<Item>,
    items: u64,
}

impl Printer<'_> {
    /// Prints the first commands, and counts the items. False if there are more than were counted.
    async fn print_commands(&mut self, preview: &Preview) -> anyhow::Result<(u64, bool)> {
        let size = match self.options.mode {
            Mode::Batch { size, .. } => u64::from(size),
            Mode::Item | Mode::Persistent | Mode::Scan { .. } | Mode::Library => 1,
        };
        let (mut items, begin) = (0, Instant::now());
        for range in &preview.ranges {
            // A batch ends with its shard.
            let (mut batch, mut position) = (Start::default(), Position::start());
            loop {
                let page = preview.connector.page(range, &position, PageLimit::default()).await?;
                let (next, has_ended) = (page.next_position(), page.ended);
                for item in page.items {
                    items += 1;
                    batch.add(item);
                    if batch.items == size {
                        self.show(&std::mem::take(&mut batch))?;
                    }
                }
                match next {
                    Some(next) if !has_ended => position = next,
                    Some(_) | None => break,
                }
                if begin.elapsed() > COUNTING {
                    return Ok((items, false));
                }
            }
            self.show(&batch)?;
        }
        Ok((items, true))
    }

    fn show(&mut self, batch: &Start) -> Result<(), NoRowNumber> {
        if batch.items == 0 || self.shown.len() == SHOWN {
            return Ok(());
        }
        let (command, stdin) = self.command(&batch.first)?;
        if self.json {
            let parts = command.iter().map(|part| KeyText::new(part.as_encoded_bytes()));
            let parts: Vec<KeyText<'_>> = parts.collect();
            self.shown.push(serde_json::json!({ "command": parts, "items": batch.items }));
            return Ok(());
        }
        self.shown.push(serde_json::Value::Null);
        let more = if batch.items > batch.first.len() as u64 { " …" } else { "" };
        let (line, items) = (shell_line(&command), batch.items);
        let line = match self.options.mode {
            Mode::Batch { .. } if stdin.is_empty() => format!("{line}{more}  # {items} items"),
            Mode::Batch { .. } => {
                format!("{line}  # {items} items on stdin: {}{more}", shell_line(&stdin))
            }
            Mode::Persistent => format!("{line}  # gets {}", shell_line(&stdin)),
            Mode::Item | Mode::Scan { .. } | Mode::Library => line,
        };
        write_bytes(format!("{line}\n").as_bytes());
        Ok(())
    }

    /// The words of a command for some items, and the items that it gets otherwise.
    fn command(&self, items: &[Item]) -> Result<(Vec<OsString>, Vec<OsString>), NoRowNumber> {
        let Self { template, options, .. } = self;
        let texts = || {
            let texts = items.iter().map(|item| OsString::from_vec(text_of(item).into_owned()));
            texts.collect()
        };
        let (arguments, otherwise) = match (options.mode, items) {
            (Mode::Item, [item]) => (template.for_item(item, SLOT)?, Vec::new()),
            (Mode::Batch { .. }, _) if template.names_items() => {
                (template.for_items(items, SLOT)?, Vec::new())
            }
            _ => (template.for_items(&[], SLOT)?, texts()),
        };
        let program = template.program().to_owned();
        Ok((iter::once(program).chain(arguments).collect(), otherwise))
    }
}

impl Start {
    fn add(&mut self, item: Item) {
        self.items += 1;
        if self.first.len() < SHOWN_OF_BATCH {
            self.first.push(item);
        }
    }
}
