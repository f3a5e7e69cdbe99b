//! The output of a run while it is in progress.

mod forecast;
mod live;
mod monitor;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use shardwright_coordination::RunName;
use shardwright_process::KeyText;
use shardwright_worker::connector::SkipReport;
use shardwright_worker::{Observer, WorkerEvent};

pub(crate) use self::forecast::Amount;
use self::live::Live;
use self::monitor::MessageOutput;
pub(crate) use self::monitor::RunMonitor;
use crate::console::{errln, outln, write_data};
use shardwright_jobs::description::Description;
use shardwright_jobs::journal::Why;
use shardwright_jobs::receipt::Receipt;
use shardwright_jobs::source::Source;

/// The interval of progress lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// The output of a run: JSON events, plain lines, or a live view on a terminal.
pub(crate) struct View {
    name: RunName,
    style: Style,
    monitor: Arc<RunMonitor>,
}

enum Style {
    Json,
    Lines,
    Terminal(Live),
}

impl View {
    pub(crate) fn new(json: bool, name: RunName, source: Source) -> Self {
        let output = if json {
            MessageOutput::Json
        } else if std::io::stderr().is_terminal() {
            MessageOutput::LiveView
        } else {
            MessageOutput::Lines
        };
        let monitor = Arc::new(RunMonitor::new(output, source));
        let style = match output {
            MessageOutput::Json => Style::Json,
            MessageOutput::Lines => Style::Lines,
            MessageOutput::LiveView => Style::Terminal(Live::new(Arc::clone(&monitor))),
        };
        Self { name, style, monitor }
    }

    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.monitor) as Arc<dyn Observer>
    }

    /// The monitor, if the view shows progress.
    pub(crate) fn monitor(&self) -> Option<Arc<RunMonitor>> {
        let is_shown = !matches!(self.style, Style::Json);
        is_shown.then(|| Arc::clone(&self.monitor))
    }

    pub(crate) fn begin(&self, is_resumed: bool, description: &Description, slots: usize) {
        let how = if is_resumed { "resumes" } else { "starts" };
        match &self.style {
            Style::Json => emit(&serde_json::json!({
                "event": "begun", "name": self.name.as_str(), "resumed": is_resumed,
                "source": description.source.shown(),
            })),
            Style::Lines => {
                errln!("run {} {how}: {}", self.name, description.source.title());
                let monitor = Arc::clone(&self.monitor);
                tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(LINE_INTERVAL).await;
                        if monitor.has_ended() {
                            return;
                        }
                        errln!("{}", monitor.summary());
                    }
                });
            }
            Style::Terminal(live) => {
                live.begin(
                    &format!("run {} {how}: {}", self.name, description.source.title()),
                    slots,
                );
            }
        }
    }

    pub(crate) fn end(&self) {
        self.monitor.end();
        if let Style::Terminal(live) = &self.style {
            live.end();
        }
    }

    pub(crate) fn interrupted(&self) {
        match self.style {
            Style::Json => emit(&serde_json::json!({ "event": "interrupted" })),
            Style::Lines | Style::Terminal(_) => {
                errln!("interrupted: {}; the same command resumes the run", self.monitor.summary());
            }
        }
    }

    /// Reports that more items failed than allowed, with the remedy.
    pub(crate) fn too_many_failures(&self, advice: &str) {
        match self.style {
            Style::Json => emit(&serde_json::json!({
                "event": "stopped", "reason": "too many items failed", "advice": advice,
            })),
            Style::Lines | Style::Terminal(_) => errln!("stopped: too many items failed; {advice}"),
        }
    }

    /// Writes the receipt to stderr, because stdout has the findings of a scan.
    pub(crate) fn finished_scan(&self, receipt: &Receipt, how: &str, lines: &[String]) {
        if let Style::Json = self.style {
            return;
        }
        errln!("run {} {how}", self.name);
        for line in receipt.lines().iter().chain(lines) {
            errln!("{line}");
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        matches!(self.style, Style::Json)
    }

    pub(crate) fn finished(&self, receipt: &Receipt, how: &str) {
        if let Style::Json = self.style {
            emit(&serde_json::json!({ "event": "finished", "receipt": receipt }));
            return;
        }
        outln!("run {} {how}", self.name);
        for line in receipt.lines() {
            outln!("{line}");
        }
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
