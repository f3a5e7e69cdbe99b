//! The output of a run while it is in progress.

mod ending;
mod forecast;
mod monitor;
mod picture;
mod running;
mod snapshot;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use shardwright_coordination::RunName;
use shardwright_process::KeyText;
use shardwright_worker::connector::SkipReport;
use shardwright_worker::{Observer, WorkerEvent};

use self::ending::Ending;
pub(crate) use self::ending::How;
pub(crate) use self::forecast::Amount;
pub(crate) use self::monitor::RunMonitor;
use self::monitor::Voice;
pub(crate) use self::running::Watched;
use crate::arguments::view::{ProgressForm, ViewArguments};
use crate::console::{errln, write_data};
use shardwright_jobs::description::Description;
use shardwright_jobs::journal::Why;
use shardwright_jobs::receipt::Receipt;
use shardwright_jobs::source::Source;

/// The output of a run: JSON events on stdout if requested, and progress and messages on stderr.
pub(crate) struct View {
    name: RunName,
    has_json: bool,
    is_quiet: bool,
    is_verbose: bool,
    /// Whether the size of an item has a meaning, unlike that of a row.
    has_sizes: bool,
    form: ProgressForm,
    monitor: Arc<RunMonitor>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl View {
    /// A view of a run that this process works on with so many workers.
    pub(crate) fn new(
        has_json: bool,
        arguments: ViewArguments,
        name: RunName,
        source: Source,
        slots: usize,
    ) -> Self {
        let ViewArguments { progress, quiet, verbose } = arguments;
        let form = writer::form_here(progress, has_json || quiet);
        let has_messages = form != ProgressForm::None || !(has_json || quiet);
        let voice = Voice { has_events: has_json, has_messages, is_verbose: verbose };
        let has_sizes = !matches!(source, Source::Lines { .. });
        let monitor = Arc::new(RunMonitor::new(voice, source, slots));
        let (is_quiet, is_verbose, writer) = (quiet, verbose, Mutex::default());
        Self { name, has_json, is_quiet, is_verbose, has_sizes, form, monitor, writer }
    }

    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.monitor) as Arc<dyn Observer>
    }

    pub(crate) const fn monitor(&self) -> &Arc<RunMonitor> {
        &self.monitor
    }

    /// Whether the view shows how much of the run is left.
    pub(crate) fn has_progress(&self) -> bool {
        self.form != ProgressForm::None
    }

    /// Whether stderr has text.
    fn has_text(&self) -> bool {
        !self.has_json && !self.is_quiet
    }

    pub(crate) fn begin(&self, is_resumed: bool, description: &Description) {
        if self.has_json {
            emit(&serde_json::json!({
                "event": "begun", "name": self.name.as_str(), "resumed": is_resumed,
                "source": description.source.shown(),
            }));
        }
        if self.has_text() && self.form != ProgressForm::Json {
            let how = if is_resumed { "resumes" } else { "starts" };
            errln!("run {} {how}: {}", self.name, description.source.title());
        }
        if self.has_progress() || self.has_text() {
            *self.writer() = writer::start(&self.monitor, self.form);
        }
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the progress, and writes all messages before it returns.
    pub(crate) fn end(&self) {
        self.monitor.end();
        if let Some(writer) = self.writer().take() {
            // A thread that panicked has written what it could.
            let _ended = writer.join();
        }
    }

    pub(crate) fn interrupted(&self) {
        if self.has_json {
            emit(&serde_json::json!({ "event": "interrupted" }));
        } else {
            let summary = self.monitor.snapshot().summary();
            errln!("interrupted: {summary}; the same command resumes the run");
        }
    }

    /// Reports that more items failed than allowed, with the remedy.
    pub(crate) fn too_many_failures(&self, advice: &str) {
        if self.has_json {
            emit(&serde_json::json!({
                "event": "stopped", "reason": "too many items failed", "advice": advice,
            }));
        } else {
            errln!("stopped: too many items failed; {advice}");
        }
    }

    pub(crate) const fn is_json(&self) -> bool {
        self.has_json
    }

    /// Reports the end of a run.
    pub(crate) fn finished(&self, receipt: &Receipt, how: How) {
        if self.has_json {
            emit(&serde_json::json!({ "event": "finished", "receipt": receipt }));
        }
        self.ended(receipt, how, None);
    }

    /// Reports the end of a scan, with lines about its findings.
    pub(crate) fn finished_scan(&self, receipt: &Receipt, findings: &[String]) {
        self.ended(receipt, How::Done, Some(findings));
    }

    /// Writes the last lines to stderr, because stdout is for data.
    fn ended(&self, receipt: &Receipt, how: How, findings: Option<&[String]>) {
        if self.has_json {
            return;
        }
        let mut content = findings.unwrap_or_default().to_vec();
        if self.is_verbose {
            content.extend(receipt.proof().into_iter().map(|line| format!("receipt  {line}")));
        }
        let (is_scan, has_sizes) = (findings.is_some(), self.has_sizes);
        let (here, content) = (self.monitor.here(), &content);
        let ending = Ending { receipt, how, is_scan, has_sizes, here, content };
        let lines = if self.is_quiet { ending.trouble_only() } else { ending.lines() };
        for line in lines {
            errln!("{line}");
        }
    }
}

impl Drop for View {
    /// Clears the terminal, whatever ended the command.
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) fn emit(value: &serde_json::Value) {
    write_data(&value.to_string());
}

/// The JSON form of an event, or `None` for events that are not reported.
fn event_json(slot: usize, event: WorkerEvent<'_>) -> Option<serde_json::Value> {
    use serde_json::json;
    let id = |shard: shardwright_contracts::ShardId| shard.to_string();
    Some(match event {
        WorkerEvent::Claimed { shard, fence, .. } => {
            let fence = fence.as_raw();
            json!({ "event": "claimed", "worker": slot, "shard": id(shard), "fence": fence })
        }
        WorkerEvent::Committed { shard, key, items, bytes } => json!({
            "event": "committed", "worker": slot, "shard": id(shard), "key": KeyText::new(key),
            "items": items, "bytes": bytes,
        }),
        WorkerEvent::Split { shard, residual, boundary } => json!({
            "event": "split", "worker": slot, "shard": id(shard), "new": id(residual),
            "at": KeyText::new(boundary),
        }),
        WorkerEvent::Indivisible { shard, key } => json!({
            "event": "indivisible", "worker": slot, "shard": id(shard),
            "key": key.map(KeyText::new),
        }),
        WorkerEvent::Parked { shard, key, reason, detail, retries } => json!({
            "event": "parked", "worker": slot, "shard": id(shard), "key": KeyText::new(key),
            "reason": format!("{reason:?}"), "detail": detail, "retries": retries,
        }),
        WorkerEvent::SetAside { shard, key, tries, wait } => json!({
            "event": "set_aside", "worker": slot, "shard": id(shard), "key": KeyText::new(key),
            "tries": tries, "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        }),
        WorkerEvent::Failed { shard, key, detail } => json!({
            "event": "failed", "worker": slot, "shard": id(shard), "key": KeyText::new(key),
            "detail": detail,
        }),
        WorkerEvent::Completed { shard } => {
            json!({ "event": "completed", "worker": slot, "shard": id(shard) })
        }
        WorkerEvent::Released { shard } => {
            json!({ "event": "released", "worker": slot, "shard": id(shard) })
        }
        WorkerEvent::Lost { shard, reason } => {
            json!({ "event": "lost", "worker": slot, "shard": id(shard), "reason": reason })
        }
        WorkerEvent::Refused { shard } => {
            json!({ "event": "refused", "worker": slot, "shard": id(shard) })
        }
        WorkerEvent::Replayed { shard } => {
            json!({ "event": "replayed", "worker": slot, "shard": id(shard) })
        }
        WorkerEvent::Skipped { reports } => {
            let skipped: Vec<_> = reports.kept().iter().filter_map(skip_json).collect();
            if skipped.is_empty() && reports.more() == 0 {
                return None;
            }
            let more = reports.more();
            json!({
                "event": "skipped", "worker": slot, "entries": skipped, "more": more,
            })
        }
        WorkerEvent::Retrying { message } => {
            json!({ "event": "retrying", "worker": slot, "message": message })
        }
        WorkerEvent::Paused => json!({ "event": "paused", "worker": slot }),
        _ => return None,
    })
}

/// The JSON form of a skip report, or `None` if the skip is expected.
fn skip_json(report: &SkipReport) -> Option<serde_json::Value> {
    let why = Why::of(report.reason)?;
    let key = KeyText::new(&report.key);
    Some(serde_json::json!({ "key": key, "why": why, "detail": report.detail }))
}
