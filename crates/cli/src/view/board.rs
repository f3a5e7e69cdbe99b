//! What is known of a run while it goes on.

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
use crate::say::note;

/// Of more things that were passed over, only their number is told.
const PASSED_OVER_TOLD: u64 = 50;
/// The speed is that of about so long.
const WINDOW: Duration = Duration::from_secs(10);

/// So long nothing has to have been done before it is told that something takes long.
const LONG: Duration = Duration::from_secs(10);

/// How it is told what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// As JSON, each event when it happens.
    AsEvents,
    /// As a line, when it happens.
    AtOnce,
    /// As a line above what is drawn, when that is drawn.
    AboveTheRest,
}

/// What is known of a run, as far as this process works on it.
pub(crate) struct Board {
    told: Told,
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
    passed_over: u64,
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
    /// Since when it has been at what it is at.
    moved_at: Option<Instant>,
    is_long_told: bool,
}

impl SlotState {
    fn moved(&mut self, now: Instant) {
        (self.moved_at, self.is_long_told) = (Some(now), false);
    }

    /// Whether it has been at the same thing for long, and nobody was told.
    fn is_long_news(&mut self, now: Instant) -> bool {
        let is_long = self.moved_at.is_some_and(|at| now.saturating_duration_since(at) >= LONG);
        is_long && !std::mem::replace(&mut self.is_long_told, true)
    }
}

impl Board {
    pub(crate) fn new(told: Told, source: Source) -> Self {
        let now = Instant::now();
        let state = State {
            start: now,
            items: 0,
            bytes: 0,
            splits: 0,
            parked: 0,
            lost: 0,
            retries: 0,
            passed_over: 0,
            slots: Vec::new(),
            news: Vec::new(),
            window_start: now,
            window_items: 0,
            items_per_second: 0.0,
            forecast: Forecast::default(),
        };
        Self { told, source, ended: AtomicBool::new(false), state: Mutex::new(state) }
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
        state.note_here();
        state.forecast.look(at, left);
    }

    /// One line about everything.
    pub(crate) fn summary(&self) -> String {
        let mut state = self.state();
        state.measure();
        state.note_here();
        let done = (state.forecast.items_done(), state.forecast.bytes_done());
        let State { items, splits, parked, lost, retries, passed_over, .. } = &*state;
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
            (passed_over, "passed over"),
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

    fn note_here(&mut self) {
        let (items, bytes) = (Some(self.items), Some(self.bytes));
        self.forecast.note_here(Amount { items, bytes });
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
        if self.told == Told::AsEvents
            && let Some(value) = super::event_json(number, event)
        {
            super::emit(&value);
        }
        let mut state = self.state();
        self.note(&mut state, number, event);
        let news = match self.told {
            Told::AboveTheRest => self.news(&mut state, number, event),
            Told::AtOnce => {
                let news = self.news(&mut state, number, event);
                drop(state);
                return news.iter().for_each(|line| note!("{line}"));
            }
            Told::AsEvents => return,
        };
        state.news.extend(news);
    }
}

impl Board {
    /// What is to be told of an event beside what is shown all the time.
    fn news(&self, state: &mut State, number: usize, event: WorkerEvent<'_>) -> Vec<String> {
        let line = match event {
            WorkerEvent::Split { shard, boundary, .. } => {
                format!("shard {:016x} was split at {}", shard.as_raw(), self.shown(boundary))
            }
            // Whoever has nothing to do asks for a part of what is nearly done as well.
            WorkerEvent::Indivisible { key: Some(key), .. } => {
                if !state.slot(number).is_long_news(Instant::now()) {
                    return Vec::new();
                }
                format!(
                    "what is in work up to {} takes long and cannot be divided",
                    self.shown(key)
                )
            }
            WorkerEvent::Parked { key, detail, .. } | WorkerEvent::Failed { key, detail, .. } => {
                let detail = detail.lines().next().unwrap_or_default();
                format!("failed: {}: {detail}", self.shown(key))
            }
            WorkerEvent::Lost { reason, shard } => {
                format!("shard {:016x} was lost: {reason}", shard.as_raw())
            }
            WorkerEvent::Trouble { message } => message.to_owned(),
            WorkerEvent::Paused => {
                let was_paused = state.slots.iter().any(|slot| slot.is_paused);
                state.slot(number).is_paused = true;
                if was_paused {
                    return Vec::new();
                }
                "the run is paused: `shardwright resume` lets it go on".to_owned()
            }
            WorkerEvent::Skipped { reports } => return self.told_skipped(state, reports),
            _ => return Vec::new(),
        };
        vec![line]
    }

    /// What was passed over and somebody might miss, as long as it is not too much to tell.
    fn told_skipped(&self, state: &mut State, skipped: &SkipReports) -> Vec<String> {
        let told = |report: &SkipReport| {
            let why = Why::of(report.reason)?;
            state.passed_over += 1;
            let is_told = state.passed_over <= PASSED_OVER_TOLD && why != Why::Symlink;
            let reason = report.detail.as_deref().unwrap_or(why.word());
            is_told.then(|| format!("passed over: {}: {reason}", self.shown(&report.key)))
        };
        let news = skipped.kept().iter().filter_map(told).collect();
        state.passed_over += skipped.more();
        news
    }

    /// Counts an event.
    fn note(&self, state: &mut State, number: usize, event: WorkerEvent<'_>) {
        match event {
            WorkerEvent::Claimed { shard, after, start, .. } => {
                let slot = state.slot(number);
                (slot.shard, slot.items, slot.is_paused) = (Some(shard), 0, false);
                slot.moved(Instant::now());
                after.unwrap_or(start).clone_into(&mut slot.key);
            }
            WorkerEvent::Done { key, bytes, retries, .. } => {
                state.items += 1;
                state.bytes += bytes;
                state.retries += u64::from(retries);
                let slot = state.slot(number);
                slot.items += 1;
                slot.moved(Instant::now());
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

    fn board(told: Told) -> Board {
        Board::new(told, Source::Objects { url: "s3://bucket".to_owned() })
    }

    #[test]
    fn news_wait_only_where_somebody_draws_them() {
        for (told, waiting) in [(Told::AsEvents, 0), (Told::AtOnce, 0), (Told::AboveTheRest, 3)] {
            let board = board(told);
            for _ in 0..3 {
                board.event(0, WorkerEvent::Trouble { message: "the store does not answer" });
            }
            assert_eq!(board.take_news().len(), waiting, "{told:?}");
        }
    }

    #[test]
    fn that_something_takes_long_is_told_when_it_has_and_once() {
        let (mut slot, start) = (SlotState::default(), Instant::now());
        assert!(!slot.is_long_news(start));
        slot.moved(start);
        let told =
            |slot: &mut SlotState, seconds| slot.is_long_news(start + Duration::from_secs(seconds));
        assert_eq!([9, 10, 11].map(|seconds| told(&mut slot, seconds)), [false, true, false]);
        slot.moved(start + Duration::from_secs(12));
        assert_eq!([21, 22, 23].map(|seconds| told(&mut slot, seconds)), [false, true, false]);
    }

    #[test]
    fn what_cannot_be_divided_and_is_quick_is_not_told() {
        let board = board(Told::AboveTheRest);
        let (shard, fence) = (ShardId::from_raw(1), shardwright_contracts::FenceEpoch::INITIAL);
        board.event(0, WorkerEvent::Claimed { shard, fence, start: b"a", end: b"b", after: None });
        board.event(0, WorkerEvent::Indivisible { shard, key: Some(b"a1") });
        assert!(board.take_news().is_empty());
    }

    #[test]
    fn a_pause_is_told_once_until_the_run_goes_on() {
        let board = board(Told::AboveTheRest);
        let pause = |slots: std::ops::Range<usize>| {
            slots.for_each(|slot| board.event(slot, WorkerEvent::Paused));
            board.take_news().len()
        };
        assert_eq!((pause(0..3), pause(0..3)), (1, 0));
        for slot in 0..3 {
            let (shard, fence) = (ShardId::from_raw(1), shardwright_contracts::FenceEpoch::INITIAL);
            let claimed =
                WorkerEvent::Claimed { shard, fence, start: b"a", end: b"b", after: None };
            board.event(slot, claimed);
        }
        assert_eq!(pause(0..3), 1);
    }
}
