//! The stored coordinator as a subject: processes with wall clocks of their own, links to one
//! store, and the history of that store, which the oracles judge.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use shardwright_contracts::{BoxFuture, FenceEpoch};
use shardwright_coordination::{Backend, RunStatus, StateTransitionEvent};
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::keys::RunKeys;
use shardwright_runs::{EventStream, LeaseBinding, Retention, StoredCoordinator};
use shardwright_store::memory::{MemoryOptions, MemoryStore};

use super::call_log::{CallLog, CallRecord, CallState};
use super::fault_plan::{self, Damage, StoreEvent};
use super::record_checks::RecordChecks;
use super::settings::Settings;
use super::{StoredDirector, listening};
use crate::director::{
    Call, CallReply, CallRequest, Cast, Director, Findings, Subject, Tenant, lock,
};
use crate::model::Model;
use crate::oracle::Finding;
use crate::planted::stored::StoredBug;
use crate::planted::stored_doctor::StoredDoctor;
use crate::planted::stored_tamper::{AddedEvents, StoredTamper};
use crate::rng::Rng;
use crate::runtime::direct;
use crate::runtime::env::SimEnv;
use crate::runtime::executor::{Clockwork, TaskId, TaskOwner};
use crate::runtime::faults::Faults;
use crate::runtime::link::Link;
use crate::runtime::{BEGINNING_US, StoreClock};
use crate::tally::RunTally;
use crate::trace::Trace;

/// Bits of a fence within one generation of a store. The bits above are the generation.
const FENCE_BITS: u32 = 32;
/// Attempts within which every ended run has to be deleted.
const COLLECTIONS_MAX: u64 = 400;

/// The wall clock of a process.
#[derive(Default)]
pub(super) struct WallClock {
    pub(super) off_ms: Arc<AtomicI64>,
    /// The clock mark when the process started. The process returns no time before it.
    floor_ms: u64,
}

/// A store and its history.
pub(crate) struct Stored {
    pub(super) clock: Clockwork,
    pub(super) store: MemoryStore,
    pub(super) keys: RunKeys,
    pub(super) faults: Faults,
    pub(super) log: CallLog,
    pub(super) settings: Settings,
    pub(super) wall_clocks: Vec<WallClock>,
    pub(super) damage: Vec<Damage>,
    listeners: Vec<Option<EventStream>>,
    bug: Option<StoredBug>,
    doctor: Option<Arc<StoredDoctor>>,
    rumours: AddedEvents,
}

/// A world around a store.
pub(super) fn world(seed: u64, keep_trace: bool, bug: Option<StoredBug>) -> StoredDirector {
    let mut rng = Rng::new(seed ^ 0x5eed_0000_0000_0000);
    let settings = Settings::draw(&mut rng);
    let clock = Clockwork::new(BEGINNING_US);
    let options = MemoryOptions { limits: settings.store, ..MemoryOptions::default() };
    let store = MemoryStore::with_options(Arc::new(StoreClock(clock.clone())), options);
    let keys = RunKeys::new(Keyspace::bare());
    for _ in 0..settings.restored {
        fault_plan::restore(&store, keys.keyspace());
    }
    let floor = u64::from(settings.restored) << FENCE_BITS;
    let tenants = Tenant::all(&settings.workers);
    let model = Model {
        tenants: tenants.iter().map(Tenant::new_model).collect(),
        limits: settings.engine.limits,
        cooldown_ms: 0,
        skew_ms: settings.engine.skew_allowance_ms,
        floor: floor.max(FenceEpoch::INITIAL.as_raw()),
        bytes_capacity: None,
    };
    let has_sessions = matches!(settings.engine.sessions, LeaseBinding::Session { .. });
    let records = RecordChecks::new(keys.clone(), settings.engine.limits, has_sessions);
    let serves_stale = settings.terms.serves_stale || bug == Some(StoredBug::CachedRefusalReturned);
    let faults = Faults::new(Rng::new(rng.next()), serves_stale);
    let wall_clocks = (0..settings.processes).map(|_| WallClock::default()).collect();
    let (processes, open_runs) = (settings.processes, settings.open_runs);
    let cast = Cast { processes, tenants, open_runs };
    let subject = Stored {
        clock: clock.clone(),
        store,
        log: CallLog::new(records, model, keys.keyspace().everything()),
        keys,
        faults,
        wall_clocks,
        damage: Vec::new(),
        listeners: (0..settings.processes).map(|_| None).collect(),
        bug,
        doctor: bug.map(StoredDoctor::new).map(Arc::new),
        rumours: Arc::default(),
        settings,
    };
    Director::new(clock, rng, Trace::new(keep_trace), cast, subject)
}

impl Stored {
    /// A process's link to the store, with a planted bug if there is one.
    fn link(&self, process: usize) -> Link {
        let (store, limits, clock) = (self.store.clone(), self.settings.store, self.clock.clone());
        let link = Link::new(store, limits, clock, self.faults.clone(), process);
        let Some(bug) = self.bug else { return link };
        let interval_ms = self.settings.engine.clock_mark_interval_ms;
        let (keys, rumours) = (self.keys.clone(), Arc::clone(&self.rumours));
        link.tampered(Arc::new(StoredTamper::new(bug, keys, interval_ms, rumours)))
    }

    /// Events since the last call, and those that a bug adds.
    fn published(&mut self) -> Vec<StateTransitionEvent> {
        let mut events = std::mem::take(&mut *lock(&self.rumours));
        for listener in self.listeners.iter_mut().flatten() {
            events.extend(listening::delivered(listener));
        }
        if self.bug == Some(StoredBug::PublishedTwice) {
            events = events.into_iter().flat_map(|event| [event.clone(), event]).collect();
        }
        events
    }

    /// Updates the upper bound of the logical time.
    pub(super) fn update_ceiling(&mut self) {
        let now_ms = self.clock.now_ms();
        let offsets = self.wall_clocks.iter().map(|it| it.off_ms.load(Ordering::Relaxed));
        let furthest = offsets.map(|off_ms| now_ms.saturating_add_signed(off_ms)).max();
        let interval_ms = self.settings.engine.clock_mark_interval_ms;
        self.log.records.ceiling.rise(now_ms, furthest.unwrap_or(now_ms), interval_ms);
    }
}

impl Subject for Stored {
    type Port = Arc<StoredCoordinator>;
    type Scheduled = StoreEvent;
    const MISUSE: (u64, u64) = (150, 120);

    fn model(&self) -> &Model {
        &self.log.model
    }

    fn open(director: &mut StoredDirector, process: usize) {
        let subject = &mut director.subject;
        // A stale read may show an older mark.
        let is_exact = !subject.settings.terms.serves_stale;
        let floor_ms = if is_exact { subject.log.records.clock.as_millis() } else { 0 };
        let Some(wall_clock) = subject.wall_clocks.get_mut(process) else { return };
        wall_clock.floor_ms = floor_ms;
        let off_ms = Arc::clone(&wall_clock.off_ms);
        if director.processes.get(process).is_some_and(|process| process.life == 1) {
            off_ms.store(director.rng.between(0, 100) as i64 - 50, Ordering::Relaxed);
        }
        let chance = Rng::new(director.rng.next());
        let env = SimEnv::new(director.clock.clone(), process, off_ms, chance);
        let (link, keys) = (subject.link(process), subject.keys.keyspace().clone());
        let mut config = subject.settings.engine;
        if subject.bug == Some(StoredBug::SkewIgnored) {
            config.skew_allowance_ms = 0;
            config.clock_mark_interval_ms = 0;
        }
        if subject.bug == Some(StoredBug::LimitsHalved) {
            config.limits.per_tenant /= 2;
            config.limits.total /= 2;
        }
        let (opened, clock) = (director.opening(process), director.clock.clone());
        director.clock.spawn(TaskOwner::Process(process), async move {
            loop {
                let (link, env, keys) = (link.clone(), env.clone(), keys.clone());
                match StoredCoordinator::open(link, env, keys, config).await {
                    Ok(coordinator) => return opened(Arc::new(coordinator)),
                    Err(_) => clock.sleep_us(30_000).await,
                }
            }
        });
    }

    fn opened(&mut self, process: usize, port: &Self::Port) {
        if let Some(listener) = self.listeners.get_mut(process) {
            *listener = Some(port.subscribe());
        }
    }

    fn stopped(&mut self, process: usize) {
        if let Some(listener) = self.listeners.get_mut(process) {
            *listener = None;
        }
    }

    fn put(
        &self,
        port: Self::Port,
        sent: CallRequest,
        process: usize,
    ) -> BoxFuture<'static, CallReply> {
        let doctor = self.doctor.clone();
        Box::pin(async move {
            match sent {
                CallRequest::Request { tenant, request, .. } => {
                    let answer = match doctor {
                        Some(doctor) => doctor.call(&port, process, tenant, request).await,
                        None => port.call(tenant, request.as_ref()).await,
                    };
                    CallReply::Answer(Box::new(answer))
                }
                CallRequest::Collect(retention) => {
                    let mut out = Vec::new();
                    CallReply::Collected(port.collect_into(retention, &mut out).await.map(|()| out))
                }
                CallRequest::ListActive => {
                    let mut out = Vec::new();
                    CallReply::Active(port.list_active_runs_into(&mut out).await.map(|()| out))
                }
            }
        })
    }

    fn called(director: &mut StoredDirector, task: TaskId, sent: CallRequest, call: &Call) {
        let life = director.processes.get(call.process).map_or(0, |process| process.life);
        let Stored { log, store, wall_clocks, .. } = &mut director.subject;
        let Some(wall_clock) = wall_clocks.get(call.process) else { return };
        let off_ms = wall_clock.off_ms.load(Ordering::Relaxed);
        let wall_ms = call.since_ms.saturating_add_signed(off_ms);
        let not_before_ms = wall_ms.max(wall_clock.floor_ms);
        let address = match &sent {
            CallRequest::Request { tenant, request, .. } => request.run().map(|run| (*tenant, run)),
            CallRequest::Collect(_) | CallRequest::ListActive => None,
        };
        let shown = address.and_then(|address| log.shown_watermarks.get(&address));
        let watermark = shown.cloned().flatten();
        let life = (call.process, life);
        let mut record =
            CallRecord::new(sent, life, store.revision(), call.since_ms, not_before_ms);
        record.watermark = watermark;
        log.calls.insert(task, record);
    }

    fn abandoned(&mut self, task: TaskId, now_ms: u64) {
        if let Some(record) = self.log.calls.get_mut(&task) {
            record.state = CallState::Abandoned;
            record.ended_ms = Some(now_ms);
        }
    }

    fn follow(director: &mut StoredDirector) -> Result<(), Findings> {
        let Director { subject, tally, trace, clock, .. } = director;
        subject.update_ceiling();
        let Stored { log, store, faults, .. } = subject;
        log.follow(store, clock.now_ms(), faults, &mut tally.counts, trace)?;
        for event in subject.published() {
            subject.log.judge_event(&event).map_err(|finding| vec![finding])?;
        }
        Ok(())
    }

    fn judge_answer(
        director: &mut StoredDirector,
        task: TaskId,
        reply: &CallReply,
    ) -> Result<(), Finding> {
        let Director { subject, tally, .. } = director;
        let record = subject.log.calls.get(&task);
        if let (Some(request), CallReply::Answer(answer)) =
            (record.and_then(|it| it.sent.request()), reply)
        {
            tally.outcome(request, answer);
        }
        let terms = subject.settings.terms;
        subject.log.answered(task, reply, terms)
    }

    fn pause_us(rng: &mut Rng) -> u64 {
        match rng.below(100) {
            0..35 => rng.below(300),
            35..96 => rng.between(300, 8_000),
            _ => rng.between(8_000, 60_000),
        }
    }

    fn act(director: &mut StoredDirector) -> Result<(), Findings> {
        match director.rng.below(1_000) {
            0..790 => {
                let tenant = director.rng.index(director.tenants.len());
                let workers = director.tenants.get(tenant).map_or(0, |it| it.workers.len());
                let worker = director.rng.index(workers);
                director.work(tenant, worker);
            }
            790..915 => {
                let tenant = director.rng.index(director.tenants.len());
                director.operate(tenant);
            }
            915..927 => chore(director),
            _ => director.inject_fault(),
        }
        Ok(())
    }

    fn next_moment_us(&self, now_us: u64) -> Option<u64> {
        direct::next_expiry_us(&self.store, now_us)
    }

    fn time_passed(&mut self) {
        self.store.expire_sessions();
    }

    fn run_scheduled(director: &mut StoredDirector, event: StoreEvent) {
        director.run_store_event(event);
    }

    fn heal(director: &mut StoredDirector) {
        director.subject.faults.lock().stop();
        director.subject.store.let_sessions_outlive(Duration::ZERO);
    }

    /// Deletes all runs, until no record is left.
    fn conclude(director: &mut StoredDirector) -> Result<(), Findings> {
        let log = &director.subject.log;
        let runs = log.model.tenants.values().flat_map(|tenant| tenant.runs.values());
        director.tally.counts.runs =
            runs.filter(|run| run.status == RunStatus::Done).count() as u64;
        director.tally.collected = log.collected.len() as u64;
        for _ in 0..COLLECTIONS_MAX {
            if director.subject.log.records.leftovers().is_none() {
                return Ok(());
            }
            if director.calls.is_empty() {
                let process = director.rng.index(director.processes.len());
                let retention = Retention { ended_ms: 0, initializing_ms: 0 };
                director.call(process, CallRequest::Collect(retention), None, None, 1);
            }
            director.next_act_us = director.clock.now_us() + 50_000;
            director.run_until_act()?;
            director.check_stuck()?;
        }
        let left = director.subject.log.records.leftovers();
        left.map_or(Ok(()), |finding| Err(vec![finding]))
    }

    fn count(&self, tally: &mut RunTally) {
        tally.add_store_faults(&self.faults.lock().counts);
    }
}

fn chore(director: &mut StoredDirector) {
    let process = director.rng.index(director.processes.len());
    let sent = match director.rng.chance(600) {
        true => CallRequest::Collect(Retention {
            ended_ms: director.rng.between(0, 1_500),
            initializing_ms: director.rng.between(300, 3_000),
        }),
        false => CallRequest::ListActive,
    };
    director.call(process, sent, None, None, 1);
}
