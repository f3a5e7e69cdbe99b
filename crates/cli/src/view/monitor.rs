//! Counts the events of a run in this process, for the view.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use shardwright_contracts::ShardId;
use shardwright_jobs::journal::Why;
use shardwright_jobs::readable::{failure_line, readable_time};
use shardwright_jobs::source::Source;
use shardwright_worker::connector::{SkipReport, SkipReports};
use shardwright_worker::handler::Batch;
use shardwright_worker::{Observer, WorkerEvent};

use super::ending::Here;
use super::forecast::{Amount, Forecast, TimeLeft};
use super::running::Running;
use super::snapshot::{Snapshot, WorkerState};

/// The number of skipped items, and of failed ones, that are reported one by one. Further ones are
/// only counted.
const REPORTED_MAX: u64 = 50;
/// Messages that wait for a reader of stderr. Further ones are only counted.
const PENDING_MAX: usize = 10_000;
/// The time over which the speed is averaged.
const SPEED_WINDOW: Duration = Duration::from_secs(10);
/// The time without progress after which an indivisible shard is reported.
const SLOW_AFTER: Duration = Duration::from_secs(10);
/// The time without an answer after which the store counts as not answering.
const SILENT_AFTER: Duration = Duration::from_secs(3);

/// Where messages about single events go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Voice {
    /// JSON events on stdout, at once.
    pub(crate) has_events: bool,
    /// Messages on stderr.
    pub(crate) has_messages: bool,
    /// Messages about splits as well.
    pub(crate) is_verbose: bool,
}

/// The counters, worker slots and pending messages of a run in this process.
pub(crate) struct RunMonitor {
    voice: Voice,
    source: Source,
    state: Mutex<State>,
    /// Notified when a message is pending, and when the run has ended.
    changed: Condvar,
}

struct State {
    start: Instant,
    has_ended: bool,
    items: u64,
    bytes: u64,
    /// Items that failed and were parked. The others that failed have a result.
    parked: u64,
    failed: u64,
    lost: u64,
    retries: u64,
    skipped: u64,
    slots: Vec<SlotState>,
    running: BTreeMap<u64, Running>,
    next_running: u64,
    /// Messages for the next write, the newest last.
    messages: Vec<String>,
    more_messages: u64,
    window: Window,
    forecast: Forecast,
    store: StoreState,
}

/// The speed of this process over the last seconds.
struct Window {
    start: Instant,
    items: u64,
    items_per_second: f64,
}

/// What is known about the store.
#[derive(Default)]
struct StoreState {
    /// When a call began that has no answer yet.
    asked_at: Option<Instant>,
    /// The last failure that is retried.
    failure: Option<String>,
}

/// The shard of a worker slot.
#[derive(Clone, Default)]
struct SlotState {
    has_started: bool,
    shard: Option<ShardId>,
    is_paused: bool,
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
    pub(crate) fn new(voice: Voice, source: Source, slots: usize) -> Self {
        let start = Instant::now();
        let state = State {
            start,
            has_ended: false,
            items: 0,
            bytes: 0,
            parked: 0,
            failed: 0,
            lost: 0,
            retries: 0,
            skipped: 0,
            slots: vec![SlotState::default(); slots],
            running: BTreeMap::new(),
            next_running: 0,
            messages: Vec::new(),
            more_messages: 0,
            window: Window { start, items: 0, items_per_second: 0.0 },
            forecast: Forecast::new(Amount::default(), slots),
            store: StoreState::default(),
        };
        Self { voice, source, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state().has_ended
    }

    /// Waits for a message or for the end, at most for a time.
    pub(crate) fn wait(&self, most: Duration) {
        let state = self.state();
        if !state.has_ended && state.messages.is_empty() {
            let _state = self.changed.wait_timeout(state, most);
        }
    }

    /// Sets the size of the whole run.
    pub(crate) fn set_total(&self, total: Amount) {
        self.state().forecast.set_total(total);
    }

    /// Sets how much of the run is left now.
    pub(crate) fn set_left(&self, left: Amount) {
        let mut state = self.state();
        let at = state.update_own(Instant::now());
        state.forecast.set_left(at, left);
    }

    /// A call of the store begins.
    pub(crate) fn ask_store(&self) {
        self.state().store.asked_at.get_or_insert_with(Instant::now);
    }

    /// A call of the store succeeded.
    pub(crate) fn store_answered(&self) {
        self.state().store = StoreState::default();
    }

    /// Records that a batch is processed. Returns its number.
    pub(super) fn start(&self, batch: &Batch<'_>) -> u64 {
        let running = Running::of(batch);
        let mut state = self.state();
        let number = state.next_running;
        state.next_running += 1;
        state.running.extend(running.map(|running| (number, running)));
        number
    }

    /// Records that a batch is no longer processed.
    pub(super) fn stop(&self, number: u64) {
        self.state().running.remove(&number);
    }

    /// The state of the run now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_at(Instant::now())
    }

    fn snapshot_at(&self, now: Instant) -> Snapshot {
        let mut state = self.state();
        state.measure(now);
        let elapsed = state.update_own(now);
        let (done, mut total) = (state.forecast.done(), state.forecast.total());
        if let Source::Lines { .. } = self.source {
            // The length of rows has no meaning for a reader.
            total.bytes = None;
        }
        let (by_items, by_bytes) = state.forecast.speeds();
        let is_silent = state.is_store_silent(now) || state.slots.iter().any(|it| it.is_paused);
        let (left, idle) = (state.forecast.left_at(elapsed), state.forecast.idle_at(elapsed));
        let left = match left {
            TimeLeft::Nothing | TimeLeft::Stalled(_) => left,
            _ if is_silent && idle >= SILENT_AFTER => TimeLeft::Stalled(idle),
            left => left,
        };
        Snapshot {
            elapsed,
            done,
            total,
            own_items: state.items,
            own_bytes: state.bytes,
            items_per_second: by_items.unwrap_or(state.window.items_per_second),
            bytes_per_second: by_bytes.unwrap_or_default(),
            left,
            why_idle: state.why_idle(now, &self.source),
            failed: state.parked + state.failed,
            retries: state.retries,
            skipped: state.skipped,
            lost: state.lost,
            workers: state.workers(now, &self.source),
        }
    }

    /// What this process has done so far.
    pub(crate) fn here(&self) -> Here {
        let State { items, bytes, start, .. } = *self.state();
        Here { items, bytes, elapsed: start.elapsed() }
    }

    /// Removes and returns the pending messages.
    pub(crate) fn take_messages(&self) -> Vec<String> {
        let mut state = self.state();
        let mut messages = std::mem::take(&mut state.messages);
        let more = std::mem::take(&mut state.more_messages);
        if more > 0 {
            messages.push(format!("{more} further messages are left out"));
        }
        messages
    }
}

impl State {
    #[expect(clippy::cast_precision_loss, reason = "a speed need not be exact")]
    fn measure(&mut self, now: Instant) {
        let Window { start, items, items_per_second } = &mut self.window;
        let elapsed = now.saturating_duration_since(*start);
        if elapsed < Duration::from_millis(200) {
            return;
        }
        let done = (self.items - *items) as f64 / elapsed.as_secs_f64();
        let weight = (elapsed.as_secs_f64() / SPEED_WINDOW.as_secs_f64()).min(1.0);
        let weight = if *items == 0 { 1.0 } else { weight };
        *items_per_second = items_per_second.mul_add(1.0 - weight, done * weight);
        (*start, *items) = (now, self.items);
    }

    /// Passes what this process has done to the forecast. Returns the time since the start.
    fn update_own(&mut self, now: Instant) -> Duration {
        let at = now.saturating_duration_since(self.start);
        // A parked item is handled: no worker tries it again by itself.
        let (items, bytes) = (Some(self.items + self.parked), Some(self.bytes));
        self.forecast.set_own(at, Amount { items, bytes });
        at
    }

    fn is_store_silent(&self, now: Instant) -> bool {
        let asked_at = self.store.asked_at;
        asked_at.is_some_and(|at| now.saturating_duration_since(at) >= SILENT_AFTER)
    }

    /// Why nothing may be done at the moment.
    fn why_idle(&self, now: Instant, source: &Source) -> Option<String> {
        if self.slots.iter().any(|slot| slot.is_paused) {
            return Some("the run is paused".to_owned());
        }
        if self.is_store_silent(now) {
            return Some("store not answering".to_owned());
        }
        if let Some(failure) = &self.store.failure {
            return Some(failure.clone());
        }
        let longest = self.running.values().min_by_key(|running| running.since);
        if let Some(longest) = longest {
            let time = readable_time(now.saturating_duration_since(longest.since));
            return Some(format!("{} has been running for {time}", longest.shown(source)));
        }
        let is_waiting = self.slots.iter().all(|slot| slot.shard.is_none());
        is_waiting.then(|| "other processes hold all shards".to_owned())
    }

    fn workers(&self, now: Instant, source: &Source) -> Vec<WorkerState> {
        let mut by_shard: BTreeMap<ShardId, (&Running, usize)> = BTreeMap::new();
        for running in self.running.values() {
            let items = running.items;
            by_shard
                .entry(running.shard)
                .and_modify(|(first, count)| {
                    *count += items;
                    if running.since < first.since {
                        *first = running;
                    }
                })
                .or_insert((running, items));
        }
        let state = |slot: &SlotState| {
            if slot.is_paused {
                return WorkerState::Paused;
            }
            let Some(shard) = slot.shard else {
                let has_started = slot.has_started;
                return if has_started { WorkerState::Waiting } else { WorkerState::Starting };
            };
            let Some((running, count)) = by_shard.get(&shard) else { return WorkerState::Between };
            WorkerState::Busy {
                item: running.shown(source),
                time: now.saturating_duration_since(running.since),
                attempt: running.attempt,
                more: count.saturating_sub(1),
            }
        };
        self.slots.iter().map(state).collect()
    }

    fn slot(&mut self, number: usize) -> &mut SlotState {
        if self.slots.len() <= number {
            self.slots.resize(number + 1, SlotState::default());
        }
        #[expect(clippy::indexing_slicing, reason = "the vector was resized above")]
        &mut self.slots[number]
    }

    /// The slot, if it holds the shard. A shard whose items wait for retries has left its slot.
    fn holder(&mut self, number: usize, shard: ShardId) -> Option<&mut SlotState> {
        Some(self.slot(number)).filter(|slot| slot.shard == Some(shard))
    }

    fn leave(&mut self, number: usize, shard: ShardId) {
        if let Some(slot) = self.holder(number, shard) {
            slot.shard = None;
        }
    }

    /// Adds messages for the next write.
    fn enqueue(&mut self, messages: Vec<String>) {
        let room = PENDING_MAX.saturating_sub(self.messages.len());
        self.more_messages += messages.len().saturating_sub(room) as u64;
        self.messages.extend(messages.into_iter().take(room));
    }

    /// Counts an event.
    fn count(&mut self, number: usize, event: WorkerEvent<'_>) {
        match event {
            WorkerEvent::Claimed { shard, .. } => {
                let slot = self.slot(number);
                (slot.has_started, slot.shard, slot.is_paused) = (true, Some(shard), false);
                slot.record_progress(Instant::now());
                self.store.failure = None;
            }
            WorkerEvent::Done { shard, bytes, retries, .. } => {
                self.items += 1;
                self.bytes += bytes;
                self.retries += u64::from(retries);
                if let Some(slot) = self.holder(number, shard) {
                    slot.record_progress(Instant::now());
                }
            }
            WorkerEvent::Committed { .. } => self.store.failure = None,
            WorkerEvent::Parked { shard, retries, .. } => {
                self.parked += 1;
                self.retries += u64::from(retries);
                self.leave(number, shard);
            }
            WorkerEvent::Failed { .. } => self.failed += 1,
            WorkerEvent::Retrying { message } => self.store.failure = Some(message.to_owned()),
            WorkerEvent::Lost { shard, .. } => {
                self.lost += 1;
                self.leave(number, shard);
            }
            WorkerEvent::Completed { shard } | WorkerEvent::Released { shard } => {
                self.slot(number).has_started = true;
                self.leave(number, shard);
            }
            WorkerEvent::Idle => {
                let slot = self.slot(number);
                (slot.has_started, slot.shard) = (true, None);
            }
            _ => {}
        }
    }
}

impl Observer for RunMonitor {
    fn event(&self, number: usize, event: WorkerEvent<'_>) {
        if self.voice.has_events
            && let Some(value) = super::event_json(number, event)
        {
            super::emit(&value);
        }
        let mut state = self.state();
        state.count(number, event);
        let messages = self.messages(&mut state, number, event);
        if self.voice.has_messages && !messages.is_empty() {
            state.enqueue(messages);
            self.changed.notify_all();
        }
    }
}

impl RunMonitor {
    /// The messages about an event, besides the counters.
    fn messages(&self, state: &mut State, number: usize, event: WorkerEvent<'_>) -> Vec<String> {
        let line = match event {
            WorkerEvent::Split { shard, boundary, .. } if self.voice.is_verbose => {
                let cut = self.source.cut_shown(boundary);
                format!("shard {:016x} was split {cut}", shard.as_raw())
            }
            // Idle workers request a split even of a shard that is nearly done.
            WorkerEvent::Indivisible { key: Some(key), .. } => {
                if !state.slot(number).report_slow(Instant::now()) {
                    return Vec::new();
                }
                let key = self.source.key_shown(key);
                format!("slow: the items in progress up to {key} cannot be split")
            }
            WorkerEvent::Parked { key, detail, .. } | WorkerEvent::Failed { key, detail, .. } => {
                return self.failure(state, key, detail);
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

    /// A message about a failed item, for each of the first ones.
    fn failure(&self, state: &State, key: &[u8], detail: &str) -> Vec<String> {
        let failed = state.parked + state.failed;
        if failed > REPORTED_MAX {
            let last = "further failures are counted, and listed at the end";
            return (failed == REPORTED_MAX + 1).then(|| last.to_owned()).into_iter().collect();
        }
        vec![format!("failed: {}: {}", self.source.key_shown(key), failure_line(detail))]
    }

    /// Counts skipped items, and returns a message for each of the first ones except links.
    fn skip_messages(&self, state: &mut State, reports: &SkipReports) -> Vec<String> {
        let message = |report: &SkipReport| {
            let why = Why::of(report.reason)?;
            state.skipped += 1;
            let is_shown = state.skipped <= REPORTED_MAX && why != Why::Symlink;
            let reason = report.detail.as_deref().unwrap_or(why.word());
            let key = self.source.key_shown(&report.key);
            is_shown.then(|| format!("skipped: {key}: {reason}"))
        };
        let messages = reports.kept().iter().filter_map(message).collect();
        state.skipped += reports.more();
        messages
    }
}

/// A message as JSON, for a stderr that has nothing else.
pub(super) fn message_json(message: &str) -> serde_json::Value {
    json!({ "event": "message", "text": message })
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::{FenceEpoch, RunId, WorkerId};
    use shardwright_coordination::ParkReason;
    use shardwright_jobs::source::Filter;
    use shardwright_worker::connector::Item;
    use shardwright_worker::handler::Assignment;

    use super::*;

    const SHARD: ShardId = ShardId::from_raw(1);

    fn monitor(slots: usize) -> RunMonitor {
        let voice = Voice { has_messages: true, ..Voice::default() };
        let source = Source::Objects { url: "s3://bucket".into(), filter: Filter::default() };
        RunMonitor::new(voice, source, slots)
    }

    fn claim(monitor: &RunMonitor, slot: usize) {
        let fence = FenceEpoch::INITIAL;
        let claimed =
            WorkerEvent::Claimed { shard: SHARD, fence, start: b"a", end: b"b", after: None };
        monitor.event(slot, claimed);
    }

    fn park(monitor: &RunMonitor) {
        let (reason, detail) = (ParkReason::TooManyErrors, "exit code 1: reading\nno such table");
        monitor
            .event(0, WorkerEvent::Parked { shard: SHARD, key: b"x", reason, detail, retries: 2 });
    }

    fn items(items: u64) -> Amount {
        Amount { items: Some(items), bytes: None }
    }

    #[test]
    fn failed_items_are_handled_and_retries_counted() {
        let monitor = monitor(1);
        monitor.set_total(items(10));
        monitor.set_left(items(10));
        park(&monitor);
        monitor.event(0, WorkerEvent::Done { shard: SHARD, key: b"y", bytes: 7, retries: 1 });
        let now = monitor.snapshot();
        assert_eq!((now.done.items, now.failed, now.retries), (Some(2), 1, 3));
        assert_eq!(monitor.take_messages(), ["failed: x: exit code 1: no such table"]);
    }

    #[test]
    fn failures_are_reported_one_by_one_up_to_a_limit() {
        let monitor = monitor(1);
        (0..3 * REPORTED_MAX).for_each(|_| park(&monitor));
        let messages = monitor.take_messages();
        assert_eq!(messages.len() as u64, REPORTED_MAX + 1);
        assert!(messages.last().unwrap().starts_with("further failures"), "{messages:?}");
    }

    #[test]
    fn messages_without_a_reader_do_not_grow_without_bound() {
        let monitor = monitor(1);
        for _ in 0..PENDING_MAX + 3 {
            monitor.event(0, WorkerEvent::Retrying { message: "no answer" });
        }
        let messages = monitor.take_messages();
        assert_eq!(messages.len(), PENDING_MAX + 1);
        assert_eq!(messages.last().unwrap(), "3 further messages are left out");
        assert!(monitor.take_messages().is_empty());
    }

    #[test]
    fn silent_store_is_a_stall_until_it_answers() {
        let monitor = monitor(1);
        monitor.set_total(items(10));
        monitor.set_left(items(10));
        monitor.event(0, WorkerEvent::Done { shard: SHARD, key: b"y", bytes: 0, retries: 0 });
        monitor.snapshot();
        monitor.ask_store();
        let later = Instant::now() + Duration::from_secs(5);
        let text = monitor.snapshot_at(later).left_text().unwrap();
        assert_eq!(text, "stalled for 5 s: store not answering");
        monitor.store_answered();
        assert_eq!(monitor.snapshot_at(later).left_text(), None);
    }

    #[test]
    fn failing_store_is_named_until_the_next_commit() {
        let monitor = monitor(1);
        monitor.event(0, WorkerEvent::Retrying { message: "etcd: no leader" });
        assert_eq!(monitor.snapshot().why_idle.as_deref(), Some("etcd: no leader"));
        monitor.event(0, WorkerEvent::Committed { shard: SHARD, key: b"x", items: 1, bytes: 1 });
        let why = monitor.snapshot().why_idle;
        assert_eq!(why.as_deref(), Some("other processes hold all shards"));
    }

    #[test]
    fn worker_shows_its_longest_item() {
        let monitor = monitor(2);
        claim(&monitor, 0);
        let assignment = Assignment {
            run: RunId::from_raw(7),
            shard: SHARD,
            fence: FenceEpoch::INITIAL,
            worker: WorkerId::from_raw(1),
        };
        let row = |number| Item::row(vec![b'k'], number, "caf\u{e9}\n");
        let batch = |items, attempt| Batch { assignment: &assignment, sequence: 0, items, attempt };
        let rows = [row(0), row(1), row(2)];
        let first = monitor.start(&batch(&rows[..2], 1));
        let second = monitor.start(&batch(&rows[2..], 2));
        let shown = |monitor: &RunMonitor| match &monitor.snapshot().workers[..] {
            [WorkerState::Busy { item, attempt, more, .. }, WorkerState::Starting] => {
                (item.clone(), *attempt, *more)
            }
            [WorkerState::Between, WorkerState::Starting] => (String::new(), 0, 0),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown(&monitor), ("k: caf\u{e9}\\n".to_owned(), 1, 2));
        monitor.stop(first);
        assert_eq!(shown(&monitor), ("k: caf\u{e9}\\n".to_owned(), 2, 0));
        monitor.stop(second);
        assert_eq!(shown(&monitor), (String::new(), 0, 0));
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
        let monitor = monitor(1);
        claim(&monitor, 0);
        monitor.event(0, WorkerEvent::Indivisible { shard: SHARD, key: Some(b"a1") });
        assert!(monitor.take_messages().is_empty());
    }

    #[test]
    fn shard_that_left_its_slot_does_not_change_the_slots_line() {
        let monitor = monitor(1);
        claim(&monitor, 0);
        let (fence, held) = (FenceEpoch::INITIAL, ShardId::from_raw(2));
        let claimed =
            WorkerEvent::Claimed { shard: held, fence, start: b"b", end: b"c", after: None };
        monitor.event(0, claimed);
        monitor.event(0, WorkerEvent::Completed { shard: SHARD });
        assert!(matches!(monitor.snapshot().workers[..], [WorkerState::Between]));
        monitor.event(0, WorkerEvent::Completed { shard: held });
        assert!(matches!(monitor.snapshot().workers[..], [WorkerState::Waiting]));
    }

    #[test]
    fn splits_are_reported_only_on_request() {
        for is_verbose in [false, true] {
            let voice = Voice { has_messages: true, is_verbose, ..Voice::default() };
            let source = Source::Objects { url: "s3://bucket".into(), filter: Filter::default() };
            let monitor = RunMonitor::new(voice, source, 1);
            let residual = ShardId::from_raw(2);
            monitor.event(0, WorkerEvent::Split { shard: SHARD, residual, boundary: b"m" });
            assert_eq!(monitor.take_messages().len(), usize::from(is_verbose));
        }
    }

    #[test]
    fn pause_is_reported_once_until_the_run_resumes() {
        let monitor = monitor(3);
        let pause = |slots: std::ops::Range<usize>| {
            slots.for_each(|slot| monitor.event(slot, WorkerEvent::Paused));
            monitor.take_messages().len()
        };
        assert_eq!((pause(0..3), pause(0..3)), (1, 0));
        assert_eq!(monitor.snapshot().why_idle.as_deref(), Some("the run is paused"));
        (0..3).for_each(|slot| claim(&monitor, slot));
        assert_eq!(pause(0..3), 1);
    }
}
