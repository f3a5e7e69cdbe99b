//! Events of workers, for the trace and the table.

use shardwright_worker::{Observer, WorkerEvent};

use super::script::{Script, ScriptEvent};
use super::source::first_at;

/// A holder has copied an extent of an earlier holder.
pub(super) const GATHERED: &str = "gathered";

/// Events that a sweep must have seen.
pub(super) const EVENTS: &[&str] = &[
    "claimed",
    "done",
    "committed",
    "split",
    "indivisible",
    "parked",
    "set aside",
    "completed",
    "released",
    "lost",
    "refused",
    "replayed",
    "idle",
    "paused",
    "retrying",
    GATHERED,
];

/// The observer of one process's worker.
pub(super) struct Watcher {
    pub(super) script: Script,
    pub(super) process: usize,
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

impl Observer for Watcher {
    fn event(&self, slot: usize, event: WorkerEvent<'_>) {
        let (name, line) = match event {
            WorkerEvent::Claimed { shard, fence, start, end, after } => {
                let (start, end, after) = (text(start), text(end), after.map(text));
                ("claimed", format!("shard {shard} {fence:?}, {start}..{end} after {after:?}"))
            }
            WorkerEvent::Done { shard, key, .. } => {
                ("done", format!("{} of shard {shard}", text(key)))
            }
            WorkerEvent::Committed { shard, key, items, .. } => {
                ("committed", format!("shard {shard} up to {}, {items} items", text(key)))
            }
            WorkerEvent::Split { shard, residual, boundary } => {
                ("split", format!("shard {shard} at {}, {residual}", text(boundary)))
            }
            WorkerEvent::Indivisible { shard, .. } => ("indivisible", format!("shard {shard}")),
            WorkerEvent::Parked { shard, key, detail, .. } => {
                ("parked", format!("{} of shard {shard}: {detail}", text(key)))
            }
            WorkerEvent::SetAside { shard, key, tries, wait } => {
                let item = first_at(key);
                let event = ScriptEvent::SetAside { shard, item, tries };
                self.script.lock().script_events.push(event);
                ("set aside", format!("{} of shard {shard}: {tries} tries, {wait:?}", text(key)))
            }
            WorkerEvent::Completed { shard } => ("completed", format!("shard {shard}")),
            WorkerEvent::Released { shard } => ("released", format!("shard {shard}")),
            WorkerEvent::Lost { shard, reason } => ("lost", format!("shard {shard}: {reason}")),
            WorkerEvent::Refused { shard } => ("refused", format!("shard {shard}")),
            WorkerEvent::Replayed { shard } => ("replayed", format!("shard {shard}")),
            WorkerEvent::Idle => ("idle", String::new()),
            WorkerEvent::Paused => ("paused", String::new()),
            WorkerEvent::Retrying { message } => ("retrying", message.to_owned()),
            _ => ("other", String::new()),
        };
        let mut state = self.script.lock();
        *state.events.entry(name).or_default() += 1;
        let line = format!("worker {}.{slot}: {name} {line}", self.process);
        state.script_events.push(ScriptEvent::Note(line));
    }
}
