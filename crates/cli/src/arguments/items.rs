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
    #[arg(id = "item_timeout", long = "timeout", value_name = "DURATION")]
    #[arg(value_parser = parse_positive_duration)]
    timeout: Option<Duration>,
    /// Send SIGKILL to processes that still run DURATION after the timeout [default: 5s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    kill_after: Option<Duration>,
    /// Kill a command that writes more than SIZE, like `64k`, `10M` or `1G`, to stdout or stderr,
    /// and fail its item; what it wrote before is kept [default: the run's, or no limit].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_output: Option<u64>,
}

impl LimitArguments {
    pub(crate) fn limits(&self) -> Limits {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Limits {
            timeout_ms: self.timeout.map(ms),
            kill_after_ms: self.kill_after.map(ms),
            max_output_bytes: self.max_output,
        }
    }
}

/// Parses a size in bytes, or with a unit of 1,024 bytes or a power of it.
fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size like `64k`, `10M`, `1G`, or `500` for bytes");
    let shift = match text.bytes().last() {
        Some(b'k' | b'K') => 10,
        Some(b'm' | b'M') => 20,
        Some(b'g' | b'G') => 30,
        _ => 0,
    };
    let number = if shift == 0 { Some(text) } else { text.get(..text.len() - 1) };
    let number = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let number: u64 = number.and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

fn not_empty() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new()
        .try_map(|text| if text.is_empty() { Err("it must not be empty") } else { Ok(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit_or_are_bytes() {
        for (text, expected) in
            [("500", 500), ("64k", 65_536), ("2K", 2_048), ("10M", 10_485_760), ("1g", 1 << 30)]
        {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
        for wrong in ["", "k", "1.5k", "-1", "+1", "64kb", "1T", "5 k", "18014398509481984k"] {
            let rejection = parse_size(wrong).unwrap_err();
            assert!(rejection.contains("`64k`, `10M`, `1G`"), "{wrong}: {rejection}");
        }
    }
}
