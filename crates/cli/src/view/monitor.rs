//! Counts the events of a run in this process, for the view.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shardwright_contracts::ShardId;
use shardwright_jobs::journal::Why;
use shardwright_jobs::readable::{readable_bytes, readable_time};
use shardwright_jobs::source::Source;
use shardwright_worker::connector::{SkipReport, SkipReports};
use shardwright_worker::{Observer, WorkerEvent};

use super::forecast::{Amount, Forecast};
use crate::console::errln;

/// The number of skipped items that are reported one by one. Further ones are only counted.
const SKIPPED_SHOWN_MAX: u64 = 50;
/// The time over which the speed is averaged.
const SPEED_WINDOW: Duration = Duration::from_secs(10);
/// The time without progress after which an indivisible shard is reported.
const SLOW_AFTER: Duration = Duration::from_secs(10);

/// The output of messages about single events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageOutput {
    /// JSON events, written at once.
    Json,
    /// Lines on stderr, written at once.
    Lines,
    /// Lines above the live view, kept until the next redraw.
    LiveView,
}

/// The counters, worker slots and pending messages of a run in this process.
pub(crate) struct RunMonitor {
    output: MessageOutput,
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
    skipped: u64,
    slots: Vec<SlotState>,
    /// Messages for the next redraw, the newest last.
    messages: Vec<String>,
    window_start: Instant,
    window_items: u64,
    items_per_second: f64,
    forecast: Forecast,
}

/// The shard of a worker slot, and its position in it.
#[derive(Clone, Default)]
pub(crate) struct SlotState {
    pub(crate) shard: Option<ShardId>,
    pub(crate) key: Vec<u8>,
    pub(crate) items: u64,
    pub(crate) is_paused: bool,
    /// The time of the last progress.
    progress_at: Option<Instant>,
    is_slow_reported: bool,
}

impl SlotState {
    fn record_progress(&mut self, now: Instant) {
        (self.progress_at, self.is_slow_reported) = (Some(now), false);
    }

    /// Whether the slot is slow and this was not reported yet. Marks it as reported.
    fn report_slow(&mut self, now: Instant) -> bool {
        let elapsed = self.progress_at.map(|at| now.saturating_duration_since(at));
        let is_slow = elapsed.is_some_and(|elapsed| elapsed >= SLOW_AFTER);
        is_slow && !std::mem::replace(&mut self.is_slow_reported, true)
    }
}

impl RunMonitor {
    pub(crate) fn new(output: MessageOutput, source: Source) -> Self {
        let now = Instant::now();
        let state = State {
            start: now,
            items: 0,
            bytes: 0,
            splits: 0,
            parked: 0,
            lost: 0,
            retries: 0,
            skipped: 0,
            slots: Vec::new(),
            messages: Vec::new(),
            window_start: now,
            window_items: 0,
            items_per_second: 0.0,
            forecast: Forecast::default(),
        };
        Self { output, source, ended: AtomicBool::new(false), state: Mutex::new(state) }
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

    /// Sets the size of the whole run.
    pub(crate) fn set_total(&self, total: Amount) {
        self.state().forecast = Forecast::new(total);
    }

    /// Sets how much of the run is left now.
    pub(crate) fn set_left(&self, left: Amount) {
        let mut state = self.state();
        let at = state.start.elapsed();
        state.update_own();
        state.forecast.set_left(at, left);
    }

    /// The progress line.
    pub(crate) fn summary(&self) -> String {
        let mut state = self.state();
        state.measure();
        state.update_own();
        let done = (state.forecast.items_done(), state.forecast.bytes_done());
        let State { items, splits, parked, lost, retries, skipped, .. } = &*state;
        let State { items_per_second, forecast, .. } = &*state;
        let elapsed = state.start.elapsed();
        let mut line = String::new();
        if let Some(percent) = done.0 {
            line.push_str(&format!("{percent} % of items, "));
        }
        if let Some(percent) = done.1 {
            line.push_str(&format!("{percent} % of bytes, "));
        }
        let (bytes, time) = (readable_bytes(state.bytes), readable_time(elapsed));
        line.push_str(&format!("{items} items here, {bytes}, {items_per_second:.0}/s, {time}"));
        if let Some(left) = forecast.left_at(elapsed) {
            line.push_str(&format!(", about {} left", readable_time(left)));
        }
        for (count, what) in [
            (splits, "splits"),
            (retries, "retries"),
            (parked, "parked"),
            (lost, "lost"),
            (skipped, "skipped"),
        ] {
            if *count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        }
        line
    }

    pub(crate) fn slots(&self) -> Vec<SlotState> {
        self.state().slots.clone()
    }

    /// A key as text.
    pub(crate) fn shown(&self, key: &[u8]) -> String {
        self.source.key_shown(key)
    }

    /// Removes and returns the pending messages.
    pub(crate) fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.state().messages)
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
        let weight = (elapsed.as_secs_f64() / SPEED_WINDOW.as_secs_f64()).min(1.0);
        let is_first = self.window_items == 0;
        let weight = if is_first { 1.0 } else { weight };
        self.items_per_second = self.items_per_second.mul_add(1.0 - weight, done * weight);
        (self.window_start, self.window_items) = (Instant::now(), self.items);
    }

    fn update_own(&mut self) {
        let (items, bytes) = (Some(self.items), Some(self.bytes));
        self.forecast.set_own(Amount { items, bytes });
    }

    fn slot(&mut self, number: usize) -> &mut SlotState {
        if self.slots.len() <= number {
            self.slots.resize(number + 1, SlotState::default());
        }
        #[expect(clippy::indexing_slicing, reason = "the vector was resized above")]
        &mut self.slots[number]
    }
}

impl Observer for RunMonitor {
    fn event(&self, number: usize, event: WorkerEvent<'_>) {
        if self.output == MessageOutput::Json
            && let Some(value) = super::event_json(number, event)
        {
            super::emit(&value);
        }
        let mut state = self.state();
        self.count(&mut state, number, event);
        let messages = match self.output {
            MessageOutput::LiveView => self.messages(&mut state, number, event),
            MessageOutput::Lines => {
                let messages = self.messages(&mut state, number, event);
                drop(state);
                return messages.iter().for_each(|line| errln!("{line}"));
            }
            MessageOutput::Json => return,
        };
        state.messages.extend(messages);
    }
}

impl RunMonitor {
    /// The messages about an event, besides the counters in the summary.
    fn messages(&self, state: &mut State, number: usize, event: WorkerEvent<'_>) -> Vec<String> {
        let line = match event {
            WorkerEvent::Split { shard, boundary, .. } => {
                let cut = self.source.cut_shown(boundary);
                format!("shard {:016x} was split {cut}", shard.as_raw())
            }
            // Idle workers request a split even of a shard that is nearly done.
            WorkerEvent::Indivisible { key: Some(key), .. } => {
                if !state.slot(number).report_slow(Instant::now()) {
                    return Vec::new();
                }
                format!("slow: the items in progress up to {} cannot be split", self.shown(key))
            }
            WorkerEvent::Parked { key, detail, .. } | WorkerEvent::Failed { key, detail, .. } => {
                let detail = detail.lines().next().unwrap_or_default();
                format!("failed: {}: {detail}", self.shown(key))
            }
            WorkerEvent::Lost { reason, shard } => {
                format!("shard {:016x} was lost: {reason}", shard.as_raw())
            }
            WorkerEvent::Retrying { message } => message.to_owned(),
            WorkerEvent::Paused => {
                let was_paused = state.slots.iter().any(|slot| slot.is_paused);
                state.slot(number).is_paused = true;
                if was_paused {
                    return Vec::new();
                }
                "the run is paused; `shardwright resume` resumes it".to_owned()
            }
            WorkerEvent::Skipped { reports } => return self.skip_messages(state, reports),
            _ => return Vec::new(),
        };
        vec![line]
    }

    /// Counts skipped items, and returns a message for each of the first ones except links.
    fn skip_messages(&self, state: &mut State, reports: &SkipReports) -> Vec<String> {
        let message = |report: &SkipReport| {
            let why = Why::of(report.reason)?;
            state.skipped += 1;
            let is_shown = state.skipped <= SKIPPED_SHOWN_MAX && why != Why::Symlink;
            let reason = report.detail.as_deref().unwrap_or(why.word());
            is_shown.then(|| format!("skipped: {}: {reason}", self.shown(&report.key)))
        };
        let messages = reports.kept().iter().filter_map(message).collect();
        state.skipped += reports.more();
        messages
    }

    /// Counts an event.
    fn count(&self, state: &mut State, number: usize, event: WorkerEvent<'_>) {
        match event {
            WorkerEvent::Claimed { shard, after, start, .. } => {
                let slot = state.slot(number);
                (slot.shard, slot.items, slot.is_paused) = (Some(shard), 0, false);
                slot.record_progress(Instant::now());
                after.unwrap_or(start).clone_into(&mut slot.key);
            }
            WorkerEvent::Done { key, bytes, retries, .. } => {
                state.items += 1;
                state.bytes += bytes;
                state.retries += u64::from(retries);
                let slot = state.slot(number);
                slot.items += 1;
                slot.record_progress(Instant::now());
                key.clone_into(&mut slot.key);
            }
            WorkerEvent::Split { .. } => state.splits += 1,
            WorkerEvent::Parked { retries, .. } => {
                state.parked += 1;
                state.retries += u64::from(retries);
                state.slot(number).shard = None;
            }
            WorkerEvent::Failed { .. } => state.parked += 1,
            WorkerEvent::Lost { .. } => {
                state.lost += 1;
                state.slot(number).shard = None;
            }
            WorkerEvent::Completed { .. } | WorkerEvent::Released { .. } | WorkerEvent::Idle => {
                state.slot(number).shard = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor(output: MessageOutput) -> RunMonitor {
        RunMonitor::new(output, Source::Objects { url: "s3://bucket".into() })
    }

    #[test]
    fn only_the_live_view_keeps_messages() {
        for (output, kept) in
            [(MessageOutput::Json, 0), (MessageOutput::Lines, 0), (MessageOutput::LiveView, 3)]
        {
            let monitor = monitor(output);
            for _ in 0..3 {
                monitor.event(0, WorkerEvent::Retrying { message: "the store does not answer" });
            }
            assert_eq!(monitor.take_messages().len(), kept, "{output:?}");
        }
    }

    #[test]
    fn slow_slot_is_reported_once_until_it_progresses() {
        let (mut slot, start) = (SlotState::default(), Instant::now());
        assert!(!slot.report_slow(start));
        slot.record_progress(start);
        let report =
            |slot: &mut SlotState, seconds| slot.report_slow(start + Duration::from_secs(seconds));
        assert_eq!([9, 10, 11].map(|seconds| report(&mut slot, seconds)), [false, true, false]);
        slot.record_progress(start + Duration::from_secs(12));
        assert_eq!([21, 22, 23].map(|seconds| report(&mut slot, seconds)), [false, true, false]);
    }

    #[test]
    fn indivisible_shard_is_not_reported_while_it_is_fast() {
        let monitor = monitor(MessageOutput::LiveView);
        let (shard, fence) = (ShardId::from_raw(1), shardwright_contracts::FenceEpoch::INITIAL);
        let claimed = WorkerEvent::Claimed { shard, fence, start: b"a", end: b"b", after: None };
        monitor.event(0, claimed);
        monitor.event(0, WorkerEvent::Indivisible { shard, key: Some(b"a1") });
        assert!(monitor.take_messages().is_empty());
    }

    #[test]
    fn pause_is_reported_once_until_the_run_resumes() {
        let monitor = monitor(MessageOutput::LiveView);
        let pause = |slots: std::ops::Range<usize>| {
            slots.for_each(|slot| monitor.event(slot, WorkerEvent::Paused));
            monitor.take_messages().len()
        };
        assert_eq!((pause(0..3), pause(0..3)), (1, 0));
        for slot in 0..3 {
            let (shard, fence) = (ShardId::from_raw(1), shardwright_contracts::FenceEpoch::INITIAL);
            let claimed =
                WorkerEvent::Claimed { shard, fence, start: b"a", end: b"b", after: None };
            monitor.event(slot, claimed);
        }
        assert_eq!(pause(0..3), 1);
    }
}
