//! The world: its processes, the calls between them, and when each part is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_cluster::Cluster;
use shardwright_node::{Deactivation, Gate, Node, ObjectTypes};
use shardwright_placement::NodeAddress;
use shardwright_store::memory::{MemoryOptions, MemoryStore};

use super::Report;
use super::calls::ObjectCall;
use super::counter::{COUNTER, ObjectEvent, ObjectEvents};
use super::fenced_store::FencedStore;
use super::oracle::balance::{Planned, judge_in_flight, judge_moves, judge_round_trips};
use super::oracle::ownership::{
    ActiveObjects, Effects, holds, judge_claim, judge_start, judge_targets,
};
use super::settings::Settings;
use super::stored_state::{DecodedCommit, Step, StoredState};
use super::tally::ClusterTally;
use super::wire::Wires;
use crate::director::findings_of;
use crate::oracle::{ASSERTIONS, Finding};
use crate::planted::clusters::{ClusterBug, plans_by};
use crate::rng::Rng;
use crate::runtime::direct;
use crate::runtime::env::SimEnv;
use crate::runtime::executor::{Agenda, Clockwork, Executor, TaskId, TaskOwner};
use crate::runtime::faults::Faults;
use crate::runtime::{BEGINNING_US, StoreClock};
use crate::trace::Trace;

pub(super) type SimNode = Node;
pub(super) type SimGate = Gate;
pub(super) type SimCluster = Cluster;

/// The node or gate that runs in a process.
#[derive(Clone)]
pub(super) enum Running {
    Nothing,
    Node(Arc<SimNode>),
    Gate(Arc<SimGate>),
}

/// A process of a world.
pub(super) struct Process {
    pub(super) address: NodeAddress,
    pub(super) is_gate: bool,
    pub(super) life: u32,
    /// Whether it is started. It may not be open yet.
    pub(super) is_started: bool,
    pub(super) running: Running,
    pub(super) off_ms: Arc<AtomicI64>,
    pub(super) paused: bool,
    /// When it last resumed from a pause.
    pub(super) resumed_us: u64,
    pub(super) draining: bool,
    /// When its session last ended before its TTL.
    pub(super) session_ended_us: Option<u64>,
}

/// A scheduled event.
#[derive(Clone, Debug)]
pub(super) enum Scheduled {
    Start(usize),
    Stop(usize, u32),
    Resume(usize),
    Reconnect(usize),
    Rewire(usize, usize),
    DiskFree,
    AcceptClaims(usize),
    SessionsInTime,
    Undrain(NodeAddress),
    Unfreeze,
}

/// What tasks report to the director.
pub(super) enum TaskReport {
    Opened { process: usize, life: u32, running: Running },
    Drained { process: usize, life: u32 },
    Answered { task: TaskId, answer: Result<Bytes, CallError> },
    Operated { task: TaskId, result: Result<(), String> },
}

/// A world.
pub(super) struct Director {
    pub(super) clock: Clockwork,
    pub(super) executor: Executor,
    pub(super) store: MemoryStore,
    pub(super) faults: Faults,
    pub(super) wires: Wires,
    pub(super) fenced_store: FencedStore,
    pub(super) stored: StoredState,
    pub(super) settings: Settings,
    pub(super) rng: Rng,
    pub(super) processes: Vec<Process>,
    pub(super) calls: BTreeMap<TaskId, ObjectCall>,
    pub(super) next_call: u64,
    /// Operations in progress: the process that executes each, and its description.
    pub(super) operations: BTreeMap<TaskId, (usize, String)>,
    /// Tasks of operators. Targets that they write are not a leader's.
    pub(super) operators: BTreeSet<TaskId>,
    /// Increments by counter: acknowledged ones, and those with unknown outcome.
    pub(super) counted: BTreeMap<Arc<str>, (u64, u64)>,
    /// Calls that a node finished after it had lost the shard.
    pub(super) lost_calls: BTreeSet<u64>,
    pub(super) agenda: Agenda<Scheduled>,
    pub(super) next_act_us: u64,
    pub(super) healed: bool,
    /// Whether the cluster has converged, so that no call may fail.
    pub(super) converged: bool,
    pub(super) tally: ClusterTally,
    pub(super) trace: Trace,
    pub(super) reports: Arc<Mutex<Vec<TaskReport>>>,
    pub(super) bug: Option<ClusterBug>,
    pub(super) object_events: ObjectEvents,
    active_objects: ActiveObjects,
    effects: Effects,
}

impl Director {
    pub(super) fn new(
        seed: u64,
        keep_trace: bool,
        bug: Option<ClusterBug>,
    ) -> Result<Self, String> {
        let mut rng = Rng::new(seed ^ 0xc105_7e25_0000_0000);
        let settings = Settings::draw(&mut rng)?;
        let clock = Clockwork::new(BEGINNING_US);
        let limits = MemoryOptions { limits: settings.store, ..MemoryOptions::default() };
        let store = MemoryStore::with_options(Arc::new(StoreClock(clock.clone())), limits);
        let options = &settings.options;
        let keys = options.cluster_keys().map_err(|error| error.to_string())?;
        let num_shards = options.config.sharding.num_shards;
        let everything = options.keys.everything();
        let faults = Faults::new(Rng::new(rng.next()), settings.serves_stale);
        faults.lock().is_stormy = !settings.is_calm;
        let wires = Wires::new(Rng::new(rng.next()), !settings.is_calm);
        let mut director = Self {
            executor: Executor::new(clock.clone()),
            clock,
            store,
            faults,
            wires,
            fenced_store: FencedStore::default(),
            stored: StoredState::new(keys, everything, num_shards),
            rng,
            processes: Vec::new(),
            calls: BTreeMap::new(),
            next_call: 0,
            operations: BTreeMap::new(),
            operators: BTreeSet::new(),
            counted: BTreeMap::new(),
            lost_calls: BTreeSet::new(),
            agenda: Agenda::default(),
            next_act_us: BEGINNING_US,
            healed: false,
            converged: false,
            tally: ClusterTally::default(),
            trace: Trace::new(keep_trace),
            reports: Arc::default(),
            bug,
            object_events: ObjectEvents::default(),
            active_objects: ActiveObjects::default(),
            effects: Effects::default(),
            settings,
        };
        director.tally.seeds = 1;
        director.tally.calm_seeds = u64::from(director.settings.is_calm);
        director.add_processes()?;
        Ok(director)
    }

    /// Adds all processes, and starts all but the spare nodes.
    fn add_processes(&mut self) -> Result<(), String> {
        let Settings { nodes, spare_nodes, gates, .. } = self.settings;
        for process in 0..nodes + spare_nodes + gates {
            let is_gate = process >= nodes + spare_nodes;
            let address = format!("10.0.0.{}:47001", process + 1);
            let address = NodeAddress::parse(&address).map_err(|error| error.to_string())?;
            let off_ms = self.rng.between(0, 100) as i64 - 50;
            self.processes.push(Process {
                address,
                is_gate,
                life: 0,
                is_started: false,
                running: Running::Nothing,
                off_ms: Arc::new(AtomicI64::new(off_ms)),
                paused: false,
                resumed_us: 0,
                draining: false,
                session_ended_us: None,
            });
            if process < nodes || is_gate {
                self.start(process);
            }
        }
        Ok(())
    }

    /// Runs chaos and healing.
    pub(super) fn live(mut self, acts: u64) -> Report {
        let live = || self.chaos(acts).and_then(|()| self.heal()).map_err(|finding| vec![finding]);
        let findings = findings_of(live);
        self.trace.violations(&findings);
        self.tally.simulated_ms = (self.clock.now_us() - BEGINNING_US) / 1_000;
        self.tally.stale_writes = self.fenced_store.lock().refused;
        self.tally.store_faults = std::mem::take(&mut self.faults.lock().counts);
        self.tally.faults = std::mem::take(&mut self.wires.lock().faults);
        Report { findings, tally: self.tally, trace: self.trace }
    }

    /// Starts a process.
    pub(super) fn start(&mut self, process: usize) {
        let Some(state) = self.processes.get_mut(process) else { return };
        if state.is_started {
            return;
        }
        state.life += 1;
        (state.is_started, state.draining) = (true, false);
        let (life, address, is_gate) = (state.life, state.address.clone(), state.is_gate);
        let off_ms = Arc::clone(&state.off_ms);
        let (clock, reports) = (self.clock.clone(), self.reports.clone());
        let env = SimEnv::new(clock.clone(), process, off_ms, Rng::new(self.rng.next()));
        let link = self.link(process);
        let (mut options, mut node_options) =
            (self.settings.options.clone(), self.settings.node.clone());
        plans_by(self.bug, &mut options.config);
        node_options.weight = self.settings.weight(process);
        let gate_options = self.settings.gate;
        let transport = self.transport(process);
        let counters = self.counters(process, life, &address, &transport, &link);
        let types = ObjectTypes::new().with(COUNTER, counters);
        self.note(format_args!("process {process} starts life {life}"));
        self.clock.spawn(TaskOwner::Process(process), async move {
            loop {
                let transport = Arc::clone(&transport);
                let opened = Cluster::open(link.clone(), env.clone(), options.clone()).await;
                if let Ok(cluster) = opened {
                    let address = address.clone();
                    let running = if is_gate {
                        let gate = Gate::open(cluster, address, transport, gate_options).await;
                        gate.ok().map(|gate| Running::Gate(Arc::new(gate)))
                    } else {
                        let (types, options) = (types.clone(), node_options.clone());
                        let node = Node::start(cluster, address, types, transport, options).await;
                        node.ok().map(|node| Running::Node(Arc::new(node)))
                    };
                    if let Some(running) = running {
                        return send_report(
                            &reports,
                            TaskReport::Opened { process, life, running },
                        );
                    }
                }
                clock.sleep_us(30_000).await;
            }
        });
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
            if now >= self.next_act_us {
                return self.check_deadlines();
            }
            let expiry = direct::next_expiry_us(&self.store, now);
            let later = self.agenda.next_us();
            self.executor.advance_to_first([expiry, later, Some(self.next_act_us)]);
            self.store.expire_sessions();
            self.settle()?;
            self.run_due();
        }
    }

    /// Judges commits, then object events and writes, then answers.
    fn settle(&mut self) -> Result<(), Finding> {
        let commits = self.stored.new_commits(&self.store, &self.faults);
        for commit in commits.map_err(|text| Finding { oracle: ASSERTIONS.name, text })? {
            self.judge(&commit)?;
        }
        for event in self.object_events.take() {
            self.observe(event)?;
        }
        let effects = std::mem::take(&mut self.fenced_store.lock().effects);
        for effect in effects {
            self.effects.judge(effect)?;
        }
        let reports =
            std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner));
        for report in reports {
            self.receive(report)?;
        }
        Ok(())
    }

    fn receive(&mut self, report: TaskReport) -> Result<(), Finding> {
        match report {
            TaskReport::Opened { process, life, running } => {
                let Some(state) = self.processes.get_mut(process) else { return Ok(()) };
                if state.life == life && state.is_started {
                    if let Running::Node(node) = &running {
                        self.wires.listen(state.address.clone(), process, node.service());
                    }
                    state.running = running;
                    self.note(format_args!("process {process} is open"));
                }
                Ok(())
            }
            TaskReport::Drained { process, life } => {
                if self.processes.get(process).is_some_and(|state| state.life == life) {
                    self.tally.drains += 1;
                    self.note(format_args!("process {process} has drained"));
                    let linger_ms = self.rng.between(200, 600);
                    self.after_ms(linger_ms, Scheduled::Stop(process, life));
                }
                Ok(())
            }
            TaskReport::Answered { task, answer } => self.answered(task, answer),
            TaskReport::Operated { task, result } => self.operated(task, result),
        }
    }

    /// Judges a commit, and applies it.
    fn judge(&mut self, commit: &DecodedCommit) -> Result<(), Finding> {
        let now_us = self.clock.now_us();
        let mut led = None;
        for step in &commit.steps {
            self.tally.steps += 1;
            self.trace_step(commit, step);
            match step {
                Step::Claim { shard, after } => {
                    self.tally.claims += 1;
                    judge_claim(&self.stored, *shard, after)?;
                    let author = commit.author.map(|author| author.process);
                    if let (None, Some(process)) = (&after.holder, author) {
                        // Deactivations precede the release, so they are counted first.
                        for event in self.object_events.take() {
                            self.observe(event)?;
                        }
                        self.active_objects.judge(process, *shard)?;
                    }
                }
                Step::Targets { after, changes } => {
                    let author = commit.author.filter(|author| {
                        !author.task.is_some_and(|task| self.operators.contains(&task))
                    });
                    let writer = author.and_then(|author| self.processes.get(author.process));
                    let writer = writer.map(|process| &process.address);
                    judge_targets(&self.stored, *after, writer)?;
                    self.tally.moves += changes.len() as u64;
                    if writer.is_some() {
                        let plan = Planned::new(&self.settings.options.config, changes, now_us);
                        let moved = judge_moves(&self.stored, &plan)?;
                        judge_round_trips(&self.stored, &plan)?;
                        led = moved.then_some(changes);
                    }
                }
                Step::Leader { .. } => self.tally.leaders += 1,
                Step::Member => {}
            }
        }
        self.stored.apply(commit, now_us);
        if let Some(changes) = led {
            let plan = Planned::new(&self.settings.options.config, changes, now_us);
            judge_in_flight(&self.stored, &plan)?;
        }
        Ok(())
    }

    fn trace_step(&mut self, commit: &DecodedCommit, step: &Step) {
        let (now, revision) = (self.clock.now_us(), commit.revision);
        let author = commit.author.map(|author| author.process);
        match step {
            Step::Targets { after, changes } => {
                let version = after.version;
                self.trace.line(format_args!(
                    "{now} r{revision} {author:?} targets {version}, changes: {}",
                    changes.len()
                ));
                for change in changes {
                    let (shard, target) = (change.shard.as_raw(), &change.after);
                    self.trace.line(format_args!(
                        "{now}   shard {shard} to {:?} {:?} {:?}",
                        target.node, target.since, target.flags
                    ));
                }
            }
            Step::Claim { shard, after } => self.trace.line(format_args!(
                "{now} r{revision} {author:?} shard {} fence {} {:?}",
                shard.as_raw(),
                after.fence,
                after.holder
            )),
            Step::Leader { after } => {
                self.trace.line(format_args!("{now} r{revision} {author:?} leader {after:?}"));
            }
            Step::Member => {
                for (node, member) in &commit.members {
                    let life = member.map(|life| life.number);
                    self.trace.line(format_args!("{now} r{revision} member {node} {life:?}"));
                }
                for (key, is_set) in &commit.marks {
                    self.trace.line(format_args!("{now} r{revision} {key:?} {is_set}"));
                }
            }
        }
    }

    fn observe(&mut self, event: ObjectEvent) -> Result<(), Finding> {
        match event {
            ObjectEvent::Activated(site) => self.active_objects.activated(&site),
            ObjectEvent::Deactivated(site) => self.active_objects.deactivated(&site),
            ObjectEvent::Leaving(Deactivation::Deleted) => self.tally.deletions += 1,
            ObjectEvent::Leaving(_) => self.tally.evictions += 1,
            ObjectEvent::Started(site) => {
                let ttl_us = super::wire::micros(self.settings.options.session_ttl);
                let now_us = self.clock.now_us();
                let Some(process) = self.processes.get(site.process) else { return Ok(()) };
                // A node may learn as late as after the TTL that its session ended early.
                let ended_early =
                    process.session_ended_us.is_some_and(|at_us| now_us < at_us + ttl_us);
                if !ended_early {
                    judge_start(&self.stored, &process.address, &site)?;
                }
            }
            ObjectEvent::Answered { site, call } => {
                let Some(process) = self.processes.get(site.process) else { return Ok(()) };
                let holds = holds(&self.stored, &process.address, &site);
                if !holds && process.session_ended_us.is_none() {
                    self.lost_calls.insert(call);
                }
            }
        }
        Ok(())
    }

    /// Runs the scheduled events that are due.
    fn run_due(&mut self) {
        while let Some(what) = self.agenda.take_due(self.clock.now_us()) {
            self.run_scheduled(what);
        }
    }
}

/// Reports to the director.
pub(super) fn send_report(reports: &Mutex<Vec<TaskReport>>, report: TaskReport) {
    reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
}
