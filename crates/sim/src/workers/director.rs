//! The world: worker processes, their operator, and when each part is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardwright_contracts::ShardId;
use shardwright_coordination::{AsyncRunManagement, RunConfigError, RunStatus};
use shardwright_runs::{LeaseBinding, StoredCoordinator as Coordinator};
use shardwright_store::memory::{MemoryOptions, MemoryStore};
use shardwright_worker::{StopSignal, Worker, create_run, first_shards};

use super::Report;
use super::handler::ScriptedHandler;
use super::observer::Watcher;
use super::operator::Order;
use super::oracle::{ALONE, judge_alone, judge_commit, judge_lease, judge_tries, unparks};
use super::script::{Call, Script, ScriptEvent};
use super::settings::{CLOCK_OFFSET_MS, Settings};
use super::sink::SharedSink;
use super::source::{Numbers, ranges};
use super::stored_state::{RUN, StoredState, TENANT};
use super::tally::WorkerTally;
use crate::director::findings_of;
use crate::oracle::Finding;
use crate::planted::workers::{Doctored, WorkerBug};
use crate::rng::Rng;
use crate::runtime::direct;
use crate::runtime::env::SimEnv;
use crate::runtime::executor::{Agenda, Clockwork, Executor, TaskOwner};
use crate::runtime::faults::Faults;
use crate::runtime::link::Link;
use crate::runtime::{BEGINNING_US, StoreClock};
use crate::stored::record_checks::RecordChecks;
use crate::trace::Trace;

/// Pause between two attempts to start a process.
const RETRY_US: u64 = 30_000;

/// A process of a world.
pub(super) struct Process {
    pub(super) life: u32,
    pub(super) is_up: bool,
    pub(super) stop: StopSignal,
    pub(super) off_ms: Arc<AtomicI64>,
    pub(super) paused: bool,
}

/// A scheduled event.
#[derive(Clone, Debug)]
pub(super) enum Scheduled {
    Start(usize),
    Resume(usize),
    Reconnect(usize),
    SetWallClock { process: usize, by: i64 },
    DiskFree,
    SessionsInTime,
}

/// What tasks report to the director.
pub(super) enum TaskReport {
    /// A worker has ended by itself.
    Ended { process: usize, life: u32, how: String },
    /// The operator's process is open.
    Opened { life: u32, coordinator: Coordinator },
    /// The operator has an answer.
    Ordered { order: Order, how: String },
}

/// A world.
pub(super) struct Director {
    pub(super) clock: Clockwork,
    pub(super) executor: Executor,
    pub(super) store: MemoryStore,
    pub(super) faults: Faults,
    pub(super) script: Script,
    pub(super) stored: StoredState,
    pub(super) settings: Settings,
    pub(super) rng: Rng,
    /// Worker processes, then the operator's.
    pub(super) processes: Vec<Process>,
    pub(super) operator: Option<Coordinator>,
    /// The order that the operator waits for.
    pub(super) ordered: Option<Order>,
    pub(super) agenda: Agenda<Scheduled>,
    pub(super) next_act_us: u64,
    pub(super) healed: bool,
    pub(super) is_skewed: bool,
    /// The tries of items that were split off, by shard and item, and the unparks of the shard.
    set_aside: BTreeMap<(ShardId, u64), (u32, u64)>,
    /// Slots that have worked on items.
    pub(super) busy: BTreeSet<u64>,
    pub(super) tally: WorkerTally,
    pub(super) trace: Trace,
    pub(super) reports: Arc<Mutex<Vec<TaskReport>>>,
    bug: Option<WorkerBug>,
}

impl Director {
    pub(super) fn new(
        seed: u64,
        keep_trace: bool,
        bug: Option<WorkerBug>,
    ) -> Result<Self, RunConfigError> {
        let mut rng = Rng::new(seed ^ 0x3042_6e25_0000_0000);
        let settings = Settings::draw(&mut rng)?;
        let clock = Clockwork::new(BEGINNING_US);
        let options = MemoryOptions { limits: settings.store, ..MemoryOptions::default() };
        let store = MemoryStore::with_options(Arc::new(StoreClock(clock.clone())), options);
        let faults = Faults::new(Rng::new(rng.next()), settings.serves_stale);
        faults.lock().is_stormy = !settings.is_calm;
        let script = Script::new(clock.clone(), Rng::new(rng.next()), !settings.is_calm);
        let keys = StoredState::keys();
        let has_sessions = matches!(settings.engine.sessions, LeaseBinding::Session { .. });
        let records = RecordChecks::new(keys.clone(), settings.engine.limits, has_sessions);
        let usable_us = settings.run.lease_duration_ms.get() * 1_000 / 10 * 9;
        let mut director = Self {
            executor: Executor::new(clock.clone()),
            clock,
            store,
            faults,
            script,
            stored: StoredState::new(records, keys.keyspace().everything(), usable_us),
            rng,
            processes: Vec::new(),
            operator: None,
            ordered: None,
            agenda: Agenda::default(),
            next_act_us: BEGINNING_US,
            healed: false,
            is_skewed: false,
            set_aside: BTreeMap::new(),
            busy: BTreeSet::new(),
            tally: WorkerTally::default(),
            trace: Trace::new(keep_trace),
            reports: Arc::default(),
            bug,
            settings,
        };
        director.tally.seeds = 1;
        director.tally.calm_seeds = u64::from(director.settings.is_calm);
        director.tally.lopsided_seeds = u64::from(director.settings.is_lopsided);
        for process in 0..=director.settings.processes {
            let off_ms = director.rng.between(0, 2 * CLOCK_OFFSET_MS) as i64;
            director.processes.push(Process {
                life: 0,
                is_up: false,
                stop: StopSignal::default(),
                off_ms: Arc::new(AtomicI64::new(off_ms - CLOCK_OFFSET_MS as i64)),
                paused: false,
            });
            director.start(process);
        }
        Ok(director)
    }

    /// Runs chaos and healing.
    pub(super) fn live(mut self, acts: u64) -> Report {
        let live = || self.chaos(acts).and_then(|()| self.heal()).map_err(|finding| vec![finding]);
        let findings = findings_of(live);
        self.trace.violations(&findings);
        self.tally.simulated_ms = (self.clock.now_us() - BEGINNING_US) / 1_000;
        self.tally.store_faults = std::mem::take(&mut self.faults.lock().counts);
        let mut script = self.script.lock();
        self.tally.faults = std::mem::take(&mut script.faults);
        self.tally.events = std::mem::take(&mut script.events);
        self.tally.calls = script.tries.values().sum();
        drop(script);
        Report { findings, tally: self.tally, trace: self.trace }
    }

    pub(super) fn is_operator(&self, process: usize) -> bool {
        process == self.settings.processes
    }

    /// Starts a process.
    pub(super) fn start(&mut self, process: usize) {
        let is_operator = self.is_operator(process);
        let Some(state) = self.processes.get_mut(process) else { return };
        if state.is_up {
            return;
        }
        state.life += 1;
        (state.is_up, state.stop) = (true, StopSignal::default());
        let (life, stop) = (state.life, state.stop.clone());
        let (off_ms, chance) = (Arc::clone(&state.off_ms), Rng::new(self.rng.next()));
        let (clock, reports) = (self.clock.clone(), self.reports.clone());
        let env = SimEnv::new(clock.clone(), process, off_ms, chance);
        let (store, limits) = (self.store.clone(), self.settings.store);
        let link = Link::new(store, limits, clock.clone(), self.faults.clone(), process);
        let (script, settings, bug) = (self.script.clone(), self.settings.clone(), self.bug);
        self.note(format_args!("process {process} starts life {life}"));
        self.clock.spawn(TaskOwner::Process(process), async move {
            let coordinator = open(&link, &env, &settings, &clock).await;
            if is_operator {
                return send_report(&reports, TaskReport::Opened { life, coordinator });
            }
            let source = Numbers { script: script.clone(), items: settings.items };
            let handler = ScriptedHandler::new(script.clone(), process, &settings);
            let worker = Worker::builder(TENANT, RUN)
                .backend(Doctored::new(coordinator.clone(), bug))
                .connector(Doctored::new(source, bug))
                .handler(Doctored::new(handler, bug))
                .sink(Doctored::new(SharedSink { script: script.clone() }, bug))
                .env(Doctored::new(env, bug))
                .options(settings.worker)
                .stop(stop)
                .observer(Arc::new(Watcher { script, process }));
            let how = format!("{:?}", worker.run().await);
            let _left_to_expire = coordinator.close().await;
            send_report(&reports, TaskReport::Ended { process, life, how });
        });
    }

    /// Stops a process at once.
    pub(super) fn kill(&mut self, process: usize) {
        self.executor.kill(process);
        if self.is_operator(process) {
            (self.operator, self.ordered) = (None, None);
        }
        if let Some(state) = self.processes.get_mut(process) {
            (state.is_up, state.paused) = (false, false);
        }
    }

    pub(super) fn note(&mut self, text: std::fmt::Arguments<'_>) {
        let now = self.clock.now_us();
        self.trace.line(format_args!("{now} {text}"));
    }

    pub(super) fn after_ms(&mut self, delay_ms: u64, what: Scheduled) {
        let at = self.clock.now_us() + delay_ms * 1_000;
        self.agenda.schedule(at, what);
    }

    /// Runs tasks and time until the next act.
    pub(super) fn run_until_act(&mut self) -> Result<(), Finding> {
        loop {
            while self.executor.run_one(&mut self.rng) {
                self.settle()?;
            }
            let now = self.clock.now_us();
            self.judge_live(now)?;
            if now >= self.next_act_us {
                return Ok(());
            }
            let expiry = direct::next_expiry_us(&self.store, now);
            let later = self.agenda.next_us();
            self.executor.advance_to_first([expiry, later, Some(self.next_act_us)]);
            self.store.expire_sessions();
            self.settle()?;
            self.run_due();
        }
    }

    /// Judges commits, then events of the scripted parts, then handles reports of tasks.
    fn settle(&mut self) -> Result<(), Finding> {
        self.update_ceiling();
        let now_us = self.clock.now_us();
        for moved in self.stored.follow(&self.store, &self.faults, now_us)? {
            self.tally.commits += 1;
            judge_commit(&self.script, &moved)?;
        }
        let script_events = std::mem::take(&mut self.script.lock().script_events);
        for event in script_events {
            self.observe(event)?;
        }
        let reports =
            std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner));
        for report in reports {
            self.receive(report);
        }
        Ok(())
    }

    fn observe(&mut self, event: ScriptEvent) -> Result<(), Finding> {
        let now_us = self.clock.now_us();
        match event {
            ScriptEvent::Started(call) => {
                self.busy.insert(call.slot);
                judge_lease(&self.stored, &call, now_us)?;
                for item in &call.items {
                    self.judge_tries(&call, *item)?;
                }
                for other in self.running() {
                    if other.number != call.number {
                        judge_alone(&self.stored, &call, &other, self.is_skewed)?;
                    }
                }
            }
            ScriptEvent::Resumed(call) => judge_lease(&self.stored, &call, now_us)?,
            ScriptEvent::SetAside { shard, item, tries } => {
                let unparks = self.stored.shard(shard).map_or(0, unparks);
                self.set_aside.insert((shard, item), (tries, unparks));
            }
            ScriptEvent::Crashes { process } => self.crash(process),
            ScriptEvent::CreatedTwice(shard, fence) => {
                let text = format!("segment {shard} {fence:?} was created twice");
                return Err(Finding { oracle: ALONE.name, text });
            }
            ScriptEvent::Note(text) => self.note(format_args!("{text}")),
        }
        Ok(())
    }

    fn judge_tries(&self, call: &Call, item: u64) -> Result<(), Finding> {
        let Some((tries, before)) = self.set_aside.get(&(call.shard, item)) else { return Ok(()) };
        let now = self.stored.shard(call.shard).map(unparks);
        if now == Some(*before) { judge_tries(call, *tries) } else { Ok(()) }
    }

    /// The handler calls of processes that are not paused.
    pub(super) fn running(&self) -> Vec<Call> {
        let is_paused = |call: &Call| self.processes.get(call.process).is_some_and(|it| it.paused);
        let state = self.script.lock();
        state.live.values().filter(|call| !is_paused(call)).cloned().collect()
    }

    /// Judges the handler calls in progress, once no task can run at this moment.
    fn judge_live(&self, now_us: u64) -> Result<(), Finding> {
        self.running().iter().try_for_each(|call| judge_lease(&self.stored, call, now_us))
    }

    fn receive(&mut self, report: TaskReport) {
        match report {
            TaskReport::Ended { process, life, how } => {
                if self.processes.get(process).is_some_and(|state| state.life == life) {
                    self.note(format_args!("worker {process} ends: {how}"));
                    self.kill(process);
                    let pause_ms = self.rng.between(10, 300);
                    self.after_ms(pause_ms, Scheduled::Start(process));
                }
            }
            TaskReport::Opened { life, coordinator } => {
                let operator = self.processes.last();
                if operator.is_some_and(|state| state.life == life && state.is_up) {
                    self.operator = Some(coordinator);
                }
            }
            TaskReport::Ordered { order, how } => {
                self.note(format_args!("operator: {order:?}: {how}"));
                self.ordered.take_if(|waiting| *waiting == order);
            }
        }
    }

    /// Updates the limit of the clock mark, and notes wall clocks beyond the allowance.
    pub(super) fn update_ceiling(&mut self) {
        let now_ms = self.clock.now_ms();
        let offs = self.processes.iter().map(|it| it.off_ms.load(Ordering::Relaxed));
        let furthest = offs.max().unwrap_or_default();
        let interval_ms = self.settings.engine.clock_mark_interval_ms;
        let wall_clock_ms = now_ms.saturating_add_signed(furthest);
        self.stored.records.ceiling.rise(now_ms, wall_clock_ms, interval_ms);
    }
}

pub(super) fn send_report(reports: &Mutex<Vec<TaskReport>>, report: TaskReport) {
    reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
}

/// Opens the store and creates the run. Retries until both succeed.
async fn open(link: &Link, env: &SimEnv, settings: &Settings, clock: &Clockwork) -> Coordinator {
    let ranges = ranges(settings.items, settings.shards);
    loop {
        let (link, env) = (link.clone(), env.clone());
        let opened =
            Coordinator::open(link, env, StoredState::keys().keyspace().clone(), settings.engine)
                .await;
        if let Ok(coordinator) = opened {
            let shards = first_shards(&ranges);
            let _refused = create_run(&coordinator, TENANT, RUN, settings.run, &shards).await;
            // A paused or ended run cannot be created again, and exists.
            let found = coordinator.get_run(TENANT, RUN).await;
            if found.is_ok_and(|run| run.status != RunStatus::Initializing) {
                return coordinator;
            }
        }
        clock.sleep_us(RETRY_US).await;
    }
}
