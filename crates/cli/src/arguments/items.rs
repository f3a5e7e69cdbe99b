//! How a command receives its items.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use shardwright_process::{Limits, Placeholders};

use super::duration::{parse_duration, parse_positive_duration};

/// The long help of the command.
pub(super) const COMMAND_HELP: &str = "\
Command to run. Without a placeholder the item becomes the last argument.

Placeholders, as in GNU parallel:
  {}    the item: a path, a row or a URL
  {.}   the item without its extension
  {/}   the name: the item without its folder
  {//}  the folder of the item
  {/.}  the name without its extension
  {%}   slot number, from 1: no two commands that run at a time have the same
  {#}   row number, from 1

Other braces are passed as they are. A path that begins with a dash is passed as `./-x`. Rows are \
passed as they are.";

/// What stands for items in the command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ItemArguments {
    /// Let STRING stand for the item instead of `{}`; the other placeholders stay.
    #[arg(short = 'I', value_name = "STRING", value_parser = not_empty())]
    pub(crate) replace: Option<OsString>,
    /// Run LINE by /bin/sh instead of a COMMAND, so that pipes and redirections work. Each
    /// placeholder is one word, whatever the item contains; write it outside of quotes.
    #[arg(long, value_name = "LINE", conflicts_with = "command")]
    pub(crate) shell: Option<OsString>,
}

impl ItemArguments {
    /// The command: the line of `--shell`, or what was given instead.
    pub(crate) fn command(&self, given: &[OsString]) -> Vec<OsString> {
        self.shell.as_ref().map_or_else(|| given.to_vec(), |line| vec![line.clone()])
    }

    /// The placeholders of the command.
    pub(crate) fn placeholders(&self) -> Placeholders {
        let item = self.replace.as_ref();
        item.map_or_else(Placeholders::default, |item| Placeholders::with_item(item.as_bytes()))
    }
}

/// Limits of the programs that this process starts.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct LimitArguments {
    /// Fail an item or a batch after DURATION, like `30s`, `5m` or `500ms`: its processes get
    /// SIGTERM. A persistent command fails if it answers nothing for DURATION while it holds items
    /// [default: the run's, or none].
    #[arg(long, value_name = "DURATION", value_parser = parse_positive_duration)]
    timeout: Option<Duration>,
    /// Send SIGKILL to processes that still run DURATION after the timeout [default: 5s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    kill_after: Option<Duration>,
}

impl LimitArguments {
    pub(crate) fn limits(&self) -> Limits {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Limits { timeout_ms: self.timeout.map(ms), kill_after_ms: self.kill_after.map(ms) }
    }
}

fn not_empty() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new()
        .try_map(|text| if text.is_empty() { Err("it must not be empty") } else { Ok(text) })
}
