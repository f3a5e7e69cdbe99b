//! What a person sees of a run while it goes on.

mod board;
mod forecast;
mod live;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use shardwright_coordination::RunName;
use shardwright_process::KeyText;
use shardwright_worker::connector::SkipReport;
use shardwright_worker::{Observer, WorkerEvent};

pub(crate) use self::board::Board;
use self::board::Told;
pub(crate) use self::forecast::Amount;
use self::live::Live;
use crate::say::{note, say, write_data};
use shardwright_jobs::description::Description;
use shardwright_jobs::journal::Why;
use shardwright_jobs::receipt::Receipt;
use shardwright_jobs::source::Source;

/// How often plain lines tell how far it is.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// How a run is shown.
pub(crate) struct View {
    name: RunName,
    style: Style,
    board: Arc<Board>,
}

enum Style {
    Json,
    Lines,
    Terminal(Live),
}

impl View {
    pub(crate) fn new(json: bool, name: RunName, source: Source) -> Self {
        let told = if json {
            Told::AsEvents
        } else if std::io::stderr().is_terminal() {
            Told::AboveTheRest
        } else {
            Told::AtOnce
        };
        let board = Arc::new(Board::new(told, source));
        let style = match told {
            Told::AsEvents => Style::Json,
            Told::AtOnce => Style::Lines,
            Told::AboveTheRest => Style::Terminal(Live::new(Arc::clone(&board))),
        };
        Self { name, style, board }
    }

    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.board) as Arc<dyn Observer>
    }

    /// Where to note how far the run is, if that is shown.
    pub(crate) fn board(&self) -> Option<Arc<Board>> {
        let is_shown = !matches!(self.style, Style::Json);
        is_shown.then(|| Arc::clone(&self.board))
    }

    pub(crate) fn begin(&self, is_resumed: bool, description: &Description, slots: usize) {
        let how = if is_resumed { "goes on" } else { "begins" };
        match &self.style {
            Style::Json => emit(&serde_json::json!({
                "event": "begun", "name": self.name.as_str(), "resumed": is_resumed,
                "source": description.source.shown(),
            })),
            Style::Lines => {
                note!("run {} {how}: {}", self.name, description.source.title());
                let board = Arc::clone(&self.board);
                tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(LINE_INTERVAL).await;
                        if board.has_ended() {
                            return;
                        }
                        note!("{}", board.summary());
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
        self.board.end();
        if let Style::Terminal(live) = &self.style {
            live.end();
        }
    }

    pub(crate) fn interrupted(&self) {
        match self.style {
            Style::Json => emit(&serde_json::json!({ "event": "interrupted" })),
            Style::Lines | Style::Terminal(_) => {
                note!("interrupted: {}; the same command goes on from here", self.board.summary());
            }
        }
    }

    /// Tells that more has failed than was allowed, and what to do about it.
    pub(crate) fn failed_too_often(&self, advice: &str) {
        match self.style {
            Style::Json => emit(&serde_json::json!({
                "event": "stopped", "reason": "too many items failed", "advice": advice,
            })),
            Style::Lines | Style::Terminal(_) => note!("stopped: too many items failed; {advice}"),
        }
    }

    /// Tells what came of it beside the output, which is for something else.
    pub(crate) fn concluded(&self, receipt: &Receipt, how: &str, lines: &[String]) {
        if let Style::Json = self.style {
            return;
        }
        note!("run {} {how}", self.name);
        for line in receipt.lines().iter().chain(lines) {
            note!("{line}");
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
        say!("run {} {how}", self.name);
        for line in receipt.lines() {
            say!("{line}");
        }
    }
}

pub(crate) fn emit(value: &serde_json::Value) {
    write_data(&value.to_string());
}

/// An event as JSON, if it is one to be told.
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
            let passed_over: Vec<_> = reports.kept().iter().filter_map(skip_json).collect();
            if passed_over.is_empty() && reports.more() == 0 {
                return None;
            }
            let more = reports.more();
            json!({
                "event": "passed_over", "worker": slot, "places": passed_over, "more": more,
            })
        }
        WorkerEvent::Trouble { message } => {
            json!({ "event": "trouble", "worker": slot, "message": message })
        }
        WorkerEvent::Paused => json!({ "event": "paused", "worker": slot }),
        _ => return None,
    })
}

/// What was passed over as JSON, if somebody might miss it.
fn skip_json(report: &SkipReport) -> Option<serde_json::Value> {
    let why = Why::of(report.reason)?;
    let key = KeyText::new(&report.key);
    Some(serde_json::json!({ "key": key, "why": why, "detail": report.detail }))
}
