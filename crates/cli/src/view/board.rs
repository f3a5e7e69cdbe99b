//! What is known of a run while it goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shardwright_contracts::ShardId;
use shardwright_worker::{Observer, WorkerEvent};

use super::forecast::{Amount, Forecast};
use crate::readable::{readable_bytes, readable_time};
use crate::source::Source;

/// The speed is that of about so long.
const WINDOW: Duration = Duration::from_secs(10);

/// What is known of a run, as far as this process works on it.
pub(crate) struct Board {
    json: bool,
    source: Source,
    ended: AtomicBool,
    state: Mutex<State>,
}

struct State {
    start: Instant,
    items: u64,
    bytes: u64,
    splits: u64,
    parked: u64,
    lost: u64,
    retries: u64,
    slots: Vec<SlotState>,
    /// Things to be told once, the newest last.
    news: Vec<String>,
    window_start: Instant,
    window_items: u64,
    items_per_second: f64,
    forecast: Forecast,
}

/// What one slot is doing.
#[derive(Clone, Default)]
pub(crate) struct SlotState {
    pub(crate) shard: Option<ShardId>,
    pub(crate) key: Vec<u8>,
    pub(crate) items: u64,
    pub(crate) is_paused: bool,
}

impl Board {
    pub(crate) fn new(json: bool, source: Source) -> Self {
        let now = Instant::now();
        let state = State {
            start: now,
            items: 0,
            bytes: 0,
            splits: 0,
            parked: 0,
            lost: 0,
            retries: 0,
            slots: Vec::new(),
            news: Vec::new(),
            window_start: now,
            window_items: 0,
            items_per_second: 0.0,
            forecast: Forecast::default(),
        };
        Self { json, source, ended: AtomicBool::new(false), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Notes how much the whole run is.
    pub(crate) fn expect(&self, whole: Amount) {
        self.state().forecast = Forecast::new(whole);
    }

    /// Notes how much of the run is left now.
    pub(crate) fn look(&self, left: Amount) {
        let mut state = self.state();
        let at = state.start.elapsed();
        state.forecast.look(at, left);
    }

    /// One line about everything.
    pub(crate) fn summary(&self) -> String {
        let mut state = self.state();
        state.measure();
        let State { items, splits, parked, lost, retries, items_per_second, forecast, .. } =
            &*state;
        let elapsed = state.start.elapsed();
        let mut line = String::new();
        if let Some(percent) = forecast.items_done() {
            line.push_str(&format!("{percent} % of items, "));
        }
        if let Some(percent) = forecast.bytes_done() {
            line.push_str(&format!("{percent} % of bytes, "));
        }
        let (bytes, time) = (readable_bytes(state.bytes), readable_time(elapsed));
        line.push_str(&format!("{items} items here, {bytes}, {items_per_second:.0}/s, {time}"));
        if let Some(left) = forecast.left_at(elapsed) {
            line.push_str(&format!(", about {} left", readable_time(left)));
        }
        for (count, what) in
            [(splits, "splits"), (retries, "retries"), (parked, "parked"), (lost, "lost")]
        {
            if *count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        }
        line
    }

    pub(crate) fn slots(&self) -> Vec<SlotState> {
        self.state().slots.clone()
    }

    /// A key as people call it.
    pub(crate) fn shown(&self, key: &[u8]) -> String {
        self.source.key_shown(key)
    }

    /// What is to be told once.
    pub(crate) fn take_news(&self) -> Vec<String> {
        std::mem::take(&mut self.state().news)
    }
}

impl State {
    #[expect(clippy::cast_precision_loss, reason = "a speed need not be exact")]
    fn measure(&mut self) {
        let elapsed = self.window_start.elapsed();
        if elapsed < Duration::from_millis(200) {
            return;
        }
        let done = (self.items - self.window_items) as f64 / elapsed.as_secs_f64();
        let weight = (elapsed.as_secs_f64() / WINDOW.as_secs_f64()).min(1.0);
        let is_first = self.window_items == 0;
        let weight = if is_first { 1.0 } else { weight };
        self.items_per_second = self.items_per_second.mul_add(1.0 - weight, done * weight);
        (self.window_start, self.window_items) = (Instant::now(), self.items);
    }

    fn slot(&mut self, number: usize) -> &mut SlotState {
        if self.slots.len() <= number {
            self.slots.resize(number + 1, SlotState::default());
        }
        // It was made long enough just now.
        #[expect(clippy::indexing_slicing, reason = "it was made long enough just now")]
        &mut self.slots[number]
    }
}

impl Observer for Board {
    fn event(&self, number: usize, event: WorkerEvent<'_>) {
        if self.json
            && let Some(value) = super::event_json(number, event)
        {
            super::emit(&value);
        }
        let mut state = self.state();
        match event {
            WorkerEvent::Claimed { shard, after, start, .. } => {
                let slot = state.slot(number);
                (slot.shard, slot.items, slot.is_paused) = (Some(shard), 0, false);
                after.unwrap_or(start).clone_into(&mut slot.key);
            }
            WorkerEvent::Done { key, bytes, retries, .. } => {
                state.items += 1;
                state.bytes += bytes;
                state.retries += u64::from(retries);
                let slot = state.slot(number);
                slot.items += 1;
                key.clone_into(&mut slot.key);
            }
            WorkerEvent::Split { shard, boundary, .. } => {
                state.splits += 1;
                let at = self.shown(boundary);
                state.news.push(format!("shard {:016x} was split at {at}", shard.as_raw()));
            }
            WorkerEvent::Indivisible { key, .. } => {
                let at = key.map_or_else(String::new, |key| self.shown(key));
                state.news.push(format!("{at} takes long and cannot be divided"));
            }
            WorkerEvent::Parked { key, detail, .. } | WorkerEvent::Failed { key, detail, .. } => {
                state.parked += 1;
                let key = self.shown(key);
                let detail = detail.lines().next().unwrap_or_default();
                state.news.push(format!("failed: {key}: {detail}"));
                state.slot(number).shard = None;
            }
            WorkerEvent::Lost { reason, shard } => {
                state.lost += 1;
                state.news.push(format!("shard {:016x} was lost: {reason}", shard.as_raw()));
                state.slot(number).shard = None;
            }
            WorkerEvent::Completed { .. } | WorkerEvent::Released { .. } | WorkerEvent::Idle => {
                state.slot(number).shard = None;
            }
            WorkerEvent::Paused => state.slot(number).is_paused = true,
            WorkerEvent::Noticed { notices } => {
                for notice in notices.kept() {
                    let key = self.shown(&notice.key);
                    state.news.push(format!("passed over: {key}: {:?}", notice.kind));
                }
            }
            WorkerEvent::Trouble { message } => state.news.push(message.to_owned()),
            _ => {}
        }
    }
}
