//! Who does what when: processes, the actors in them, and what is under way.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardwright_contracts::{FenceEpoch, RunId, ShardId, TenantId, WorkerId};
use shardwright_coordination::CoordError;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::keys::RunKeys;
use shardwright_runs::{Listener, Sessions, StoredCoordinator};
use shardwright_store::Key;
use shardwright_store::memory::{MemoryOptions, MemoryStore};

use super::Report;
use super::asks::{Ask, Coordinator, Reply, put, put_doctored};
use super::books::{Address, Books};
use super::ledger::{CallRecord, Ledger};
use super::settings::Settings;
use super::tally::StoredTally;
use super::{answers, mishap};
use crate::coverage;
use crate::ground::env::SimEnv;
use crate::ground::executor::{Clockwork, Executor, Home, TaskId};
use crate::ground::fault::StoreFault;
use crate::ground::weather::Weather;
use crate::ground::{BEGINNING_US, StoreClock};
use crate::model::{Model, TenantModel};
use crate::network::Actor;
use crate::oracle::{ASSERTIONS, Finding, LIVENESS};
use crate::planted::stored::StoredBug;
use crate::planted::stored_doctor::StoredDoctor;
use crate::planted::stored_tamper::Rumours;
use crate::request::Request;
use crate::rng::Rng;
use crate::system::Outcome;
use crate::trace::Trace;
use crate::world::belief::{Operator, Pending, Worker};
use crate::world::intent::Intent;
use crate::world::message;

/// Fences of one incarnation of a store; the number of the incarnation lies above.
const FENCE_BITS: u32 = 32;
/// How long a call may take before it counts as stuck.
const STUCK_MS: u64 = 60_000;

pub(super) type Findings = Vec<Finding>;

/// A process of a world.
pub(super) struct Process {
    pub(super) life: u32,
    pub(super) coordinator: Option<Arc<Coordinator>>,
    pub(super) listener: Option<Listener>,
    pub(super) off_ms: Arc<AtomicI64>,
    pub(super) paused: bool,
    /// The time that was marked when it started; it tells none before.
    floor_ms: u64,
}

/// A tenant's actors.
pub(super) struct Tenant {
    pub(super) id: TenantId,
    pub(super) tag: u8,
    pub(super) workers: Vec<Worker>,
    pub(super) operator: Operator,
    pub(super) next_run: u64,
    pub(super) full: bool,
}

/// A call under way.
pub(super) struct Call {
    pub(super) actor: Option<Actor>,
    pub(super) process: usize,
    pub(super) intent: Option<Intent>,
    pub(super) attempts: u32,
    since_ms: u64,
}

/// What is going to happen at some time.
#[derive(Clone, Debug)]
pub(super) enum Later {
    Start(usize),
    Resume(usize),
    Reconnect(usize),
    DiskFree,
    SessionsInTime,
    SetCalendar { process: usize, by: i64 },
    Storm { address: Address, left: u32 },
    Repair,
}

/// What tasks tell.
enum Word {
    Opened { process: usize, life: u32, coordinator: Coordinator },
    Answered { task: TaskId, reply: Reply },
}

/// A damaged record as it was.
pub(super) struct Damage {
    pub(super) key: Key,
    pub(super) value: bytes::Bytes,
    pub(super) place: (Address, ShardId),
}

/// A world.
pub(super) struct Director {
    pub(super) clock: Clockwork,
    pub(super) executor: Executor,
    pub(super) store: MemoryStore,
    pub(super) keys: RunKeys,
    pub(super) weather: Weather,
    pub(super) ledger: Ledger,
    pub(super) settings: Settings,
    pub(super) rng: Rng,
    pub(super) processes: Vec<Process>,
    pub(super) tenants: Vec<Tenant>,
    pub(super) calls: BTreeMap<TaskId, Call>,
    pub(super) later: BTreeMap<(u64, u64), Later>,
    pub(super) damage: Vec<Damage>,
    pub(super) next_op: u64,
    pub(super) next_act_us: u64,
    pub(super) healed: bool,
    pub(super) tally: StoredTally,
    pub(super) trace: Trace,
    words: Arc<Mutex<Vec<Word>>>,
    pub(super) bug: Option<StoredBug>,
    doctor: Option<Arc<StoredDoctor>>,
    pub(super) rumours: Rumours,
    next_later: u64,
}

impl Director {
    pub(super) fn new(seed: u64, keep_trace: bool, bug: Option<StoredBug>) -> Self {
        let mut rng = Rng::new(seed ^ 0x5eed_0000_0000_0000);
        let settings = Settings::draw(&mut rng);
        let clock = Clockwork::new(BEGINNING_US);
        let options = MemoryOptions { limits: settings.store, ..MemoryOptions::default() };
        let store = MemoryStore::with_options(Arc::new(StoreClock(clock.clone())), options);
        let keys = RunKeys::new(Keyspace::bare());
        for _ in 0..settings.restored {
            mishap::restore(&store, keys.keyspace());
        }
        let floor = u64::from(settings.restored) << FENCE_BITS;
        let tenants: Vec<Tenant> = settings
            .workers
            .iter()
            .zip(0..)
            .map(|(workers, index)| tenant(index, *workers))
            .collect();
        let accounts = tenants.iter().map(|tenant| {
            let workers = tenant.workers.len() as u32;
            let (runs, cooldowns) = (BTreeMap::new(), BTreeMap::new());
            (tenant.id, TenantModel { tag: tenant.tag, workers, runs, cooldowns })
        });
        let model = Model {
            tenants: accounts.collect(),
            limits: settings.engine.limits,
            cooldown_ms: 0,
            skew_ms: settings.engine.skew_allowance_ms,
            floor: floor.max(FenceEpoch::INITIAL.as_raw()),
            bytes_capacity: None,
        };
        let has_sessions = matches!(settings.engine.sessions, Sessions::Bound { .. });
        let books = Books::new(keys.clone(), settings.engine.limits, has_sessions);
        let serves_stale = settings.terms.serves_stale || bug == Some(StoredBug::CachedRefusalTold);
        let weather = Weather::new(Rng::new(rng.next()), serves_stale);
        let mut director = Self {
            executor: Executor::new(clock.clone()),
            clock,
            store,
            ledger: Ledger::new(books, model, keys.keyspace().everything()),
            keys,
            weather,
            rng,
            processes: Vec::new(),
            tenants,
            calls: BTreeMap::new(),
            later: BTreeMap::new(),
            damage: Vec::new(),
            next_op: 0,
            next_act_us: BEGINNING_US,
            healed: false,
            tally: StoredTally::default(),
            trace: Trace::new(keep_trace),
            words: Arc::default(),
            bug,
            doctor: bug.map(StoredDoctor::new).map(Arc::new),
            rumours: Arc::default(),
            next_later: 0,
            settings,
        };
        director.tally.counts.seeds = 1;
        director.people();
        director
    }

    /// Makes the processes and starts them.
    fn people(&mut self) {
        for process in 0..self.settings.processes {
            let off_ms = self.rng.between(0, 100) as i64 - 50;
            self.processes.push(Process {
                life: 0,
                coordinator: None,
                listener: None,
                off_ms: Arc::new(AtomicI64::new(off_ms)),
                paused: false,
                floor_ms: 0,
            });
            self.start(process);
        }
    }

    /// Lives through chaos and healing.
    pub(super) fn live(mut self, acts: u64) -> Report {
        // What is caught here ends the world, so that nobody sees what the panic left half done.
        let lived = catch_unwind(AssertUnwindSafe(|| self.chaos(acts).and_then(|()| self.heal())));
        let findings = match lived {
            Ok(result) => result.err().unwrap_or_default(),
            Err(payload) => {
                vec![Finding { oracle: ASSERTIONS.name, text: message(&*payload) }]
            }
        };
        for finding in &findings {
            self.trace.line(format_args!("VIOLATION of {}: {}", finding.oracle, finding.text));
        }
        self.tally.counts.simulated_ms = (self.clock.now_us() - BEGINNING_US) / 1_000;
        self.tally.add_faults(&self.weather.lock().faults);
        Report { findings, tally: self.tally, trace: self.trace }
    }

    /// Opens the engine in a process.
    pub(super) fn start(&mut self, process: usize) {
        let Some(state) = self.processes.get_mut(process) else { return };
        state.life += 1;
        // A stale read shows an older mark.
        let is_exact = !self.settings.terms.serves_stale;
        state.floor_ms = if is_exact { self.ledger.books.clock.as_millis() } else { 0 };
        let (life, chance) = (state.life, Rng::new(self.rng.next()));
        let off_ms = Arc::clone(&state.off_ms);
        let env = SimEnv::new(self.clock.clone(), process, off_ms, chance);
        let link = self.link(process);
        let (keys, mut config) = (self.keys.keyspace().clone(), self.settings.engine);
        if self.bug == Some(StoredBug::SkewIgnored) {
            config.skew_allowance_ms = 0;
        }
        let words = self.words.clone();
        let clock = self.clock.clone();
        self.clock.spawn(Home::Process(process), async move {
            loop {
                let (link, env, keys) = (link.clone(), env.clone(), keys.clone());
                match StoredCoordinator::open(link, env, keys, config).await {
                    Ok(coordinator) => {
                        return tell(&words, Word::Opened { process, life, coordinator });
                    }
                    Err(_) => clock.sleep_us(30_000).await,
                }
            }
        });
    }

    /// Has a process do something for somebody.
    pub(super) fn call(
        &mut self,
        process: usize,
        ask: Ask,
        actor: Option<Actor>,
        intent: Option<Intent>,
        attempts: u32,
    ) -> Option<TaskId> {
        let state = self.processes.get(process)?;
        let coordinator = state.coordinator.clone()?;
        let now_ms = self.clock.now_ms();
        let wall_ms = now_ms.saturating_add_signed(state.off_ms.load(Ordering::Relaxed));
        let not_before_ms = wall_ms.max(state.floor_ms);
        let (words, clock, asked) = (self.words.clone(), self.clock.clone(), ask.clone());
        let doctor = self.doctor.clone();
        let task = self.clock.spawn(Home::Process(process), async move {
            let reply = match doctor {
                Some(doctor) => put_doctored(coordinator, asked, now_ms, process, &doctor).await,
                None => put(coordinator, asked, now_ms).await,
            };
            if let Some(task) = clock.current() {
                tell(&words, Word::Answered { task, reply });
            }
        });
        let address = match &ask {
            Ask::Request { tenant, request, .. } => Some((*tenant, request.run())),
            Ask::Collect(_) | Ask::ListActive => None,
        };
        let told = address.and_then(|address| self.ledger.told_watermarks.get(&address));
        let life = (process, state.life);
        let mut record = CallRecord::new(ask, life, self.store.revision(), now_ms, not_before_ms);
        record.watermark = told.cloned().flatten();
        self.ledger.calls.insert(task, record);
        self.calls.insert(task, Call { actor, process, intent, attempts, since_ms: now_ms });
        Some(task)
    }

    pub(super) fn fault(&mut self, fault: StoreFault) {
        self.weather.lock().fault(fault);
    }

    pub(super) fn after_ms(&mut self, delay_ms: u64, what: Later) {
        self.next_later += 1;
        let at = self.clock.now_us() + delay_ms * 1_000;
        self.later.insert((at, self.next_later), what);
    }

    /// Lets everything go on until somebody is to act again.
    pub(super) fn run_until_act(&mut self) -> Result<(), Findings> {
        loop {
            while self.executor.run_one(&mut self.rng) {
                self.settle()?;
            }
            let now = self.clock.now_us();
            if now >= self.next_act_us {
                return Ok(());
            }
            let expiry = self.store.until_next_expiry();
            let expiry = expiry.map(|left| now + (left.as_micros() as u64).max(1));
            let later = self.later.keys().next().map(|(at, _)| *at);
            let moments = [self.executor.next_timer_us(), expiry, later, Some(self.next_act_us)];
            let next = moments.into_iter().flatten().min().unwrap_or(now);
            self.executor.advance_to(next.max(now));
            self.store.expire_sessions();
            self.settle()?;
            self.do_later()?;
        }
    }

    /// Judges what was stored, then what was answered.
    fn settle(&mut self) -> Result<(), Findings> {
        self.look_at_calendars();
        let counts = &mut self.tally.counts;
        let now_ms = self.clock.now_ms();
        self.ledger.follow(&self.store, now_ms, &self.weather, counts, &mut self.trace)?;
        for event in self.published() {
            self.ledger.told(&event).map_err(|finding| vec![finding])?;
        }
        let words = std::mem::take(&mut *self.words.lock().unwrap_or_else(PoisonError::into_inner));
        for word in words {
            match word {
                Word::Opened { process, life, coordinator } => {
                    if let Some(state) = self.processes.get_mut(process)
                        && state.life == life
                    {
                        state.listener = Some(coordinator.listen());
                        state.coordinator = Some(Arc::new(coordinator));
                    }
                }
                Word::Answered { task, reply } => self.answered(task, reply)?,
            }
        }
        Ok(())
    }

    fn answered(&mut self, task: TaskId, reply: Reply) -> Result<(), Findings> {
        let Some(call) = self.calls.remove(&task) else { return Ok(()) };
        self.note_answer(task, &call, &reply);
        let judged = self.ledger.answered(task, &reply, self.settings.terms);
        judged.map_err(|finding| vec![finding])?;
        self.learn(call, reply);
        Ok(())
    }

    fn note_answer(&mut self, task: TaskId, call: &Call, reply: &Reply) {
        let Some(record) = self.ledger.calls.get(&task) else { return };
        let name = record.ask.name();
        let run = record.ask.request().map_or(0, |request| request.run().as_raw());
        let shard = record.ask.request().and_then(|it| it.shard()).map_or(0, |it| it.as_raw());
        let op = record.ask.request().and_then(|it| it.op()).map_or(0, |it| it.as_raw());
        let told = match reply {
            Reply::Unsent => "unsent",
            Reply::Collected(Ok(_)) | Reply::Active(Ok(_)) => "ok",
            Reply::Collected(Err(_)) | Reply::Active(Err(_)) => "failed",
            Reply::Told(outcome) => {
                if let Some(request) = record.ask.request() {
                    self.tally.outcome(request, outcome);
                }
                match &**outcome {
                    Ok(answer) if answer.is_replay() => "replayed",
                    Ok(_) => "ok",
                    outcome @ Err(_) if answers::is_unknown(outcome) => "unknown",
                    outcome @ Err(_) if answers::is_retryable(outcome) => "not applied",
                    Err(refusal) => coverage::name(refusal),
                }
            }
        };
        let (now, process) = (self.clock.now_us(), call.process + 1);
        self.trace.line(format_args!(
            "{now} process {process} answers {name} run {run} shard {shard:x} op {op}: {told}"
        ));
    }

    /// Lets whoever asked learn of the answer, or ask again.
    fn learn(&mut self, call: Call, reply: Reply) {
        let (Some(actor), Some(intent)) = (call.actor, call.intent) else { return };
        let (Actor::Worker { tenant, .. } | Actor::Operator { tenant }) = actor;
        let outcome = match reply {
            Reply::Told(outcome) => outcome,
            Reply::Unsent => {
                if let Some(worker) = self.worker_mut(actor) {
                    worker.pending = None;
                    worker.held.clear();
                }
                return;
            }
            Reply::Collected(_) | Reply::Active(_) => return,
        };
        if answers::is_retryable(&outcome) && intent.awaited {
            let retry_at = self.clock.now_ms() + self.rng.between(5, 80);
            let pending = Pending { id: 0, intent, retry_at, attempts: call.attempts };
            self.set_pending(actor, Some(pending));
            return;
        }
        let stubborn = !self.healed && self.rng.chance(150);
        let Some(tag) = self.tenants.get(tenant).map(|tenant| tenant.tag) else { return };
        if let Some(worker) = self.worker_mut(actor) {
            worker.learn(tag, &intent.request, &outcome, stubborn);
        }
        if intent.awaited {
            self.set_pending(actor, None);
        }
        if let Some(tenant) = self.tenants.get_mut(tenant) {
            tenant.hear_of_limits(&intent.request, &outcome);
        }
    }

    pub(super) fn worker_mut(&mut self, actor: Actor) -> Option<&mut Worker> {
        let Actor::Worker { tenant, worker, life } = actor else { return None };
        let worker = self.tenants.get_mut(tenant)?.workers.get_mut(worker)?;
        (worker.life == life).then_some(worker)
    }

    pub(super) fn set_pending(&mut self, actor: Actor, pending: Option<Pending>) {
        match actor {
            Actor::Worker { .. } => {
                if let Some(worker) = self.worker_mut(actor) {
                    worker.pending = pending;
                }
            }
            Actor::Operator { tenant } => {
                if let Some(tenant) = self.tenants.get_mut(tenant) {
                    tenant.operator.pending = pending;
                }
            }
        }
    }

    /// Whether somebody waits in vain.
    pub(super) fn check_stuck(&self) -> Result<(), Findings> {
        let now = self.clock.now_ms();
        let stuck = self.calls.iter().find(|(_, call)| {
            let is_up = self.processes.get(call.process).is_some_and(|it| !it.paused);
            is_up && now > call.since_ms + STUCK_MS
        });
        match stuck.and_then(|(task, _)| self.ledger.calls.get(task)) {
            Some(call) => {
                let text = format!("{} has not been answered for a minute", call.ask.name());
                Err(vec![Finding { oracle: LIVENESS.name, text }])
            }
            None => Ok(()),
        }
    }
}

impl Tenant {
    /// An operator whose manifest did not fit tries a smaller one, down to none.
    fn hear_of_limits(&mut self, request: &Request, outcome: &Outcome) {
        if let (Some(shards), Err(CoordError::ShardLimitExceeded(_))) =
            (request.manifest(), outcome)
        {
            self.operator.shards_max = Some(shards.len() / 2);
            self.full = shards.len() <= 1;
        }
    }

    pub(super) fn next_run(&mut self) -> RunId {
        self.next_run += 1;
        RunId::from_raw(self.next_run)
    }
}

fn tell(words: &Mutex<Vec<Word>>, word: Word) {
    words.lock().unwrap_or_else(PoisonError::into_inner).push(word);
}

fn tenant(index: u8, workers: usize) -> Tenant {
    // Both tenants have the same worker and run ids, so that only the tenant tells them apart.
    let workers = (0..workers as u64).map(|raw| Worker::new(WorkerId::from_raw(raw + 1))).collect();
    Tenant {
        id: TenantId::from_bytes([index + 1; TenantId::SIZE]),
        tag: b'A' + index,
        workers,
        operator: Operator::default(),
        next_run: u64::from(index),
        full: false,
    }
}
