//! The thread that writes progress and messages to stderr.
//!
//! A reader of stderr that does not read, such as a stopped terminal, blocks this thread and never
//! the workers.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use shardwright_jobs::readable::printable;

use super::monitor::{RunMonitor, message_json};
use super::picture::Canvas;
use crate::arguments::view::ProgressForm;
use crate::console::{draw, errln, terminal_size};

/// The interval between two pictures.
const REDRAW: Duration = Duration::from_millis(125);
/// The interval of progress lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// The interval of lines of JSON.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

/// The form of progress on this stderr.
pub(crate) fn form_here(requested: Option<ProgressForm>, is_silent: bool) -> ProgressForm {
    match requested {
        None if is_silent => ProgressForm::None,
        None | Some(ProgressForm::Auto) => {
            let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            let has_terminal = std::io::stderr().is_terminal() && !is_dumb;
            if has_terminal { ProgressForm::Bar } else { ProgressForm::Plain }
        }
        Some(form) => form,
    }
}

/// Starts the thread. It ends with the run.
pub(super) fn start(monitor: &Arc<RunMonitor>, form: ProgressForm) -> Option<JoinHandle<()>> {
    let monitor = Arc::clone(monitor);
    let write = move || {
        let mut writer = Writer { monitor: &monitor, form, last: Instant::now() };
        while !writer.monitor.has_ended() {
            writer.write(false);
            writer.monitor.wait(REDRAW);
        }
        writer.write(true);
    };
    // Without the thread, the run goes on unseen.
    thread::Builder::new().name("sw-view".to_owned()).spawn(write).ok()
}

struct Writer<'a> {
    monitor: &'a RunMonitor,
    form: ProgressForm,
    /// When progress was last written.
    last: Instant,
}

impl Writer<'_> {
    fn write(&mut self, is_end: bool) {
        let messages = self.monitor.take_messages();
        match self.form {
            ProgressForm::Bar => {
                let above: String =
                    messages.iter().map(|line| format!("{}\n", printable(line))).collect();
                let lines =
                    if is_end { Vec::new() } else { canvas().draw(&self.monitor.snapshot()) };
                draw(&above, lines);
            }
            ProgressForm::Json => {
                messages.iter().for_each(|line| errln!("{}", message_json(line)));
                if is_end || self.is_due(JSON_INTERVAL) {
                    errln!("{}", self.monitor.snapshot().json());
                }
            }
            ProgressForm::Auto | ProgressForm::Plain | ProgressForm::None => {
                messages.iter().for_each(|line| errln!("{line}"));
                let has_progress = self.form != ProgressForm::None;
                if has_progress && !is_end && self.is_due(LINE_INTERVAL) {
                    errln!("{}", self.monitor.snapshot().summary());
                }
            }
        }
    }

    fn is_due(&mut self, interval: Duration) -> bool {
        let is_due = self.last.elapsed() >= interval;
        if is_due {
            self.last = Instant::now();
        }
        is_due
    }
}

/// The terminal of stderr.
fn canvas() -> Canvas {
    let (columns, rows) = terminal_size().unwrap_or((80, 24));
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    // The first of these variables that is set decides.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(|name| is_set(name));
    let locale = locale.and_then(std::env::var_os).unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    let has_blocks = locale.contains("utf-8") || locale.contains("utf8");
    Canvas { columns, rows, has_colours: !is_set("NO_COLOR"), has_blocks }
}
