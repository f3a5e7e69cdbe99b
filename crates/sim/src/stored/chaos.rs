//! The first phase: everything goes wrong that can.

use std::sync::atomic::Ordering;
use std::time::Duration;

use shardwright_contracts::ShardKey;
use shardwright_coordination::RunStatus;
use shardwright_engine::{Retention, Sessions};
use shardwright_store::{Commit, Expect, Key, Revision, Store};

use super::asks::Ask;
use super::books::Address;
use super::director::{Damage, Director, Findings, Later};
use super::fault::StoreFault;
use super::ledger::CallState;
use super::weather::{Author, Cut};
use crate::network::Actor;
use crate::world::belief::Operator;
use crate::world::intent::{Intent, Scene};

/// How often an outcome that stays unknown is asked for before whoever asks gives up.
const ATTEMPTS_MAX: u32 = 4;

impl Director {
    pub(super) fn chaos(&mut self, acts: u64) -> Result<(), Findings> {
        for act in 0..acts {
            self.next_act_us = self.clock.now_us()
                + match self.rng.below(100) {
                    0..35 => self.rng.below(300),
                    35..96 => self.rng.between(300, 8_000),
                    _ => self.rng.between(8_000, 60_000),
                };
            self.run_until_act()?;
            if act % 64 == 0 {
                self.check_stuck()?;
            }
            match self.rng.below(1_000) {
                0..790 => self.worker_act(),
                790..915 => self.operator_act(),
                915..927 => self.chore_act(),
                _ => self.mishap()?,
            }
        }
        Ok(())
    }

    fn worker_act(&mut self) {
        let tenant = self.rng.index(self.tenants.len());
        let workers = self.tenants.get(tenant).map_or(0, |tenant| tenant.workers.len());
        let worker = self.rng.index(workers);
        self.work(tenant, worker);
    }

    /// The process that a worker lives in.
    pub(super) fn home(&self, tenant: usize, worker: usize) -> usize {
        (tenant + worker) % self.processes.len().max(1)
    }

    fn is_up(&self, process: usize) -> bool {
        self.processes.get(process).is_some_and(|it| it.coordinator.is_some() && !it.paused)
    }

    pub(super) fn work(&mut self, tenant: usize, index: usize) {
        let home = self.home(tenant, index);
        if !self.is_up(home) {
            return;
        }
        let now_ms = self.clock.now_ms();
        let Some(world) = self.tenants.get_mut(tenant) else { return };
        let Some(worker) = world.workers.get_mut(index) else { return };
        let actor = Actor::Worker { tenant, worker: index, life: worker.life };
        if let Some(pending) = worker.pending.take() {
            if pending.id != 0 || pending.retry_at > now_ms {
                worker.pending = Some(pending);
                return;
            }
            return self.retry(home, actor, pending.intent, pending.attempts);
        }
        let mut scene = Scene {
            rng: &mut self.rng,
            ops: &mut self.next_op,
            model: &self.ledger.model,
            clock: now_ms,
            tenant: world.id,
            tag: world.tag,
            healed: self.healed,
        };
        let misbehaves = !self.healed && scene.rng.chance(150);
        let intent = match misbehaves.then(|| worker.misbehave(&mut scene)).flatten() {
            Some(intent) => Some(intent),
            None => worker.choose(&mut scene),
        };
        let Some(intent) = intent else { return };
        if intent.fault.is_none() {
            worker.remember_sent(&intent);
        }
        // Now and then another process is asked than the one that a worker lives in.
        let process = if self.healed || self.rng.chance(960) {
            home
        } else {
            self.rng.index(self.processes.len())
        };
        self.send(process, actor, intent, 1);
    }

    pub(super) fn retry(&mut self, process: usize, actor: Actor, intent: Intent, attempts: u32) {
        let gives_up = attempts >= ATTEMPTS_MAX || self.rng.chance(120);
        if gives_up && !self.healed {
            self.fault(StoreFault::GaveUp);
            self.set_pending(actor, None);
            return;
        }
        self.fault(StoreFault::Retried);
        self.send(process, actor, intent, attempts + 1);
    }

    /// Asks a process for something, and waits for the answer if it is meant seriously.
    pub(super) fn send(&mut self, process: usize, actor: Actor, intent: Intent, attempts: u32) {
        let (Actor::Worker { tenant, .. } | Actor::Operator { tenant }) = actor;
        let Some(tenant) = self.tenants.get(tenant).map(|tenant| tenant.id) else { return };
        if let Some(fault) = intent.fault {
            self.tally.counts.fault(fault);
            self.fault(StoreFault::Mischief);
        }
        let (request, processed) = (intent.request.clone(), intent.processed);
        let ask = Ask::Request { tenant, request, processed };
        let called = self.call(process, ask, Some(actor), Some(intent.clone()), attempts);
        if intent.awaited {
            let retry_at = self.clock.now_ms();
            let id = called.unwrap_or_default();
            let pending = crate::world::belief::Pending { id, intent, retry_at, attempts };
            self.set_pending(actor, Some(pending));
        }
    }

    fn operator_act(&mut self) {
        let index = self.rng.index(self.tenants.len());
        let process = self.rng.index(self.processes.len());
        if !self.is_up(process) {
            return;
        }
        let (open_runs, now_ms) = (self.settings.open_runs, self.clock.now_ms());
        let Some(world) = self.tenants.get_mut(index) else { return };
        let actor = Actor::Operator { tenant: index };
        if let Some(pending) = world.operator.pending.take() {
            if pending.id != 0 || pending.retry_at > now_ms {
                world.operator.pending = Some(pending);
            } else {
                return self.retry(process, actor, pending.intent, pending.attempts);
            }
        }
        let runs = self.ledger.model.tenants.get(&world.id).map(|tenant| &tenant.runs);
        let is_open = |status: RunStatus| !status.is_terminal();
        let open = runs.map_or(0, |runs| runs.values().filter(|run| is_open(run.status)).count());
        let mut scene = Scene {
            rng: &mut self.rng,
            ops: &mut self.next_op,
            model: &self.ledger.model,
            clock: now_ms,
            tenant: world.id,
            tag: world.tag,
            healed: self.healed,
        };
        let busy = world.operator.pending.is_some();
        let intent = if !busy && open < open_runs && !world.full {
            let run = world.next_run();
            if scene.rng.chance(400) {
                world.operator.create_with_shards(run, &mut scene)
            } else {
                Operator::create(run, &mut scene)
            }
        } else if scene.rng.chance(120) {
            world.operator.misbehave(&mut scene)
        } else if busy {
            None
        } else {
            world.operator.choose(&mut scene)
        };
        let Some(intent) = intent else { return };
        if intent.fault.is_none() {
            world.operator.remember_sent(&intent);
        }
        self.send(process, actor, intent, 1);
    }

    fn chore_act(&mut self) {
        let process = self.rng.index(self.processes.len());
        let ask = match self.rng.chance(600) {
            true => Ask::Collect(Retention {
                ended_ms: self.rng.between(0, 1_500),
                initializing_ms: self.rng.between(300, 3_000),
            }),
            false => Ask::ListActive,
        };
        self.call(process, ask, None, None, 1);
    }

    /// Something goes wrong.
    fn mishap(&mut self) -> Result<(), Findings> {
        let process = self.rng.index(self.processes.len());
        let kind = self.rng.weighted(&[
            (10, 0),
            (14, 1),
            (10, 2),
            (8, 3),
            (8, 4),
            (5, 5),
            (12, 6),
            (6, 7),
            (14, 8),
            (8, 9),
            (3, 10),
            (14, 11),
        ]);
        match kind {
            Some(0) => self.crash(process),
            Some(1) => self.pause(process),
            Some(2) => self.cut_off(process, Cut::Everything, StoreFault::Partitioned),
            Some(3) => self.cut_off(process, Cut::Replies, StoreFault::RepliesCut),
            Some(4) => self.set_clock(process),
            Some(5) => {
                self.weather.lock().is_full = true;
                let long = self.rng.between(10, 250);
                self.note(format_args!("the disk is full for {long} ms"));
                self.after_ms(long, Later::DiskFree);
            }
            Some(6) => self.end_session(),
            Some(7) => {
                self.fault(StoreFault::SessionOutlived);
                let by = self.rng.between(200, 1_500);
                self.store.let_sessions_outlive(Duration::from_millis(by));
                self.after_ms(by * 2, Later::SessionsInTime);
            }
            Some(8) => self.compact(),
            Some(9) => {
                if let Some(address) = self.any_active() {
                    self.fault(StoreFault::ConflictStorm);
                    let left = self.rng.between(10, 60) as u32;
                    self.after_ms(0, Later::Storm { address, left });
                }
            }
            Some(10) => self.damage()?,
            _ => self.abandon(),
        }
        Ok(())
    }

    pub(super) fn note(&mut self, text: std::fmt::Arguments<'_>) {
        let now = self.clock.now_us();
        self.trace.line(format_args!("{now} {text}"));
    }

    fn crash(&mut self, process: usize) {
        let long = self.rng.between(5, 500);
        self.fault(StoreFault::ProcessCrashed);
        self.note(format_args!("process {} crashes for {long} ms", process + 1));
        self.stop(process);
        self.after_ms(long, Later::Start(process));
    }

    /// Ends a process at once.
    pub(super) fn stop(&mut self, process: usize) {
        self.executor.kill(process);
        if let Some(state) = self.processes.get_mut(process) {
            state.life += 1;
            state.coordinator = None;
            state.paused = false;
        }
        let gone: Vec<_> = self
            .calls
            .iter()
            .filter(|(_, call)| call.process == process)
            .map(|(task, _)| *task)
            .collect();
        for task in gone {
            self.give_up(task);
        }
        let processes = self.processes.len().max(1);
        for (tenant, world) in self.tenants.iter_mut().enumerate() {
            for (index, worker) in world.workers.iter_mut().enumerate() {
                if (tenant + index) % processes == process {
                    worker.crash(0);
                }
            }
        }
    }

    /// Whoever waited for a call has to find out otherwise what came of it.
    fn give_up(&mut self, task: super::executor::TaskId) {
        if let Some(record) = self.ledger.calls.get_mut(&task) {
            record.state = CallState::Abandoned;
        }
        let Some(call) = self.calls.remove(&task) else { return };
        if let (Some(actor), Some(intent)) = (call.actor, call.intent)
            && intent.awaited
        {
            let (retry_at, attempts) = (self.clock.now_ms() + 10, call.attempts);
            let pending = crate::world::belief::Pending { id: 0, intent, retry_at, attempts };
            self.set_pending(actor, Some(pending));
        }
    }

    fn abandon(&mut self) {
        let open: Vec<_> = self.calls.keys().copied().collect();
        let Some(task) = self.rng.pick(&open).copied() else { return };
        self.fault(StoreFault::CallAbandoned);
        self.executor.end(task);
        self.give_up(task);
    }

    fn pause(&mut self, process: usize) {
        let long = if self.rng.chance(600) { 150 } else { 1_200 };
        let long = self.rng.between(10, long);
        self.fault(StoreFault::ProcessPaused);
        self.note(format_args!("process {} stands still for {long} ms", process + 1));
        let until = self.clock.now_ms() + long;
        let sleeps_through = self.tenants.iter().enumerate().any(|(tenant, world)| {
            world.workers.iter().enumerate().any(|(index, worker)| {
                (tenant + index) % self.processes.len().max(1) == process
                    && worker.held.iter().any(|held| held.lease.deadline().as_millis() < until)
            })
        });
        if sleeps_through {
            self.fault(StoreFault::PausedBeyondLease);
        }
        self.executor.pause(process, true);
        if let Some(state) = self.processes.get_mut(process) {
            state.paused = true;
        }
        self.after_ms(long, Later::Resume(process));
    }

    fn cut_off(&mut self, process: usize, cut: Cut, fault: StoreFault) {
        let long = self.rng.between(20, 900);
        self.fault(fault);
        self.note(format_args!("process {} loses {cut:?} for {long} ms", process + 1));
        self.weather.lock().cuts.insert(process, cut);
        self.after_ms(long, Later::Reconnect(process));
    }

    fn set_clock(&mut self, process: usize) {
        let by = self.rng.between(20, 600) as i64;
        let forward = self.rng.chance(500);
        self.fault(if forward { StoreFault::ClockJumped } else { StoreFault::ClockSetBack });
        if let Some(state) = self.processes.get(process) {
            state.off_ms.fetch_add(if forward { by } else { -by }, Ordering::Relaxed);
        }
        self.note(format_args!("calendar of process {} set by {by}, {forward}", process + 1));
    }

    /// Ends the session of some shard's owner.
    fn end_session(&mut self) {
        if self.settings.engine.sessions == Sessions::Unbound {
            return;
        }
        let Some((tenant, run)) = self.any_active() else { return };
        let range = self.keys.view(tenant, run);
        let page = shardwright_store::Page::first(1_000);
        let found = self.store.inspect(|state| state.scan(&range, &page, Revision::new(u64::MAX)));
        let entries = found.map(|page| page.entries).unwrap_or_default();
        let sessions: Vec<_> = entries.iter().filter_map(|(_, found)| found.session).collect();
        if let Some(session) = self.rng.pick(&sessions).copied() {
            self.fault(StoreFault::SessionEndedEarly);
            self.note(format_args!("session {session} ends early"));
            self.store.end_session(session);
        }
    }

    fn compact(&mut self) {
        self.fault(StoreFault::Compacted);
        // The history is judged before it is forgotten.
        let seen = self.ledger.seen();
        self.store.compact(seen);
    }

    pub(super) fn any_active(&mut self) -> Option<Address> {
        let tenants = self.ledger.model.tenants.iter();
        let active: Vec<Address> = tenants
            .flat_map(|(tenant, state)| {
                state.runs.iter().map(|(run, state)| (*tenant, *run, state))
            })
            .filter(|(_, _, state)| state.status == RunStatus::Active)
            .map(|(tenant, run, _)| (tenant, run))
            .collect();
        self.rng.pick(&active).copied()
    }

    /// Writes something past all processes.
    pub(super) fn scribble(&mut self, key: &Key, value: bytes::Bytes) {
        let found = self.store.inspect(|state| {
            let snapshot = state.load(std::slice::from_ref(key), Revision::new(u64::MAX));
            snapshot.values.into_iter().next().flatten()
        });
        let Some(found) = found else { return };
        let commit = Commit::builder()
            .expect(key.clone(), Expect::At(found.revision))
            .put(key.clone(), value)
            .build();
        let Ok(commit) = commit else { return };
        let mut done = std::pin::pin!(self.store.commit(commit));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if let std::task::Poll::Ready(Ok(revision)) = done.as_mut().poll(&mut context) {
            let author = Author { process: 0, task: None, is_vandal: true };
            self.weather.lock().authors.insert(revision, author);
        }
    }

    fn damage(&mut self) -> Result<(), Findings> {
        let Some(address) = self.any_active() else { return Ok(()) };
        let (tenant, run) = address;
        let shards = self.ledger.model.run(tenant, run).map(|run| &run.shards);
        let shards: Vec<_> = shards.into_iter().flat_map(|shards| shards.keys().copied()).collect();
        let Some(shard) = self.rng.pick(&shards).copied() else { return Ok(()) };
        let place = (address, shard);
        if self.ledger.damaged.contains(&place) {
            return Ok(());
        }
        let key = self.keys.progress(tenant, ShardKey::new(run, shard));
        let found = self.store.inspect(|state| {
            let snapshot = state.load(std::slice::from_ref(&key), Revision::new(u64::MAX));
            snapshot.values.into_iter().next().flatten()
        });
        let Some(found) = found else { return Ok(()) };
        self.fault(StoreFault::RecordDamaged);
        self.note(format_args!("shard {shard} of run {run} is damaged"));
        let mut bytes = found.value.to_vec();
        bytes.truncate(bytes.len() / 2);
        self.ledger.damaged.insert(place);
        self.ledger.harmed.insert(place);
        self.scribble(&key, bytes.into());
        self.damage.push(Damage { key, value: found.value, place });
        let long = self.rng.between(100, 1_500);
        self.after_ms(long, Later::Repair);
        Ok(())
    }

    /// Does what was going to happen by now.
    pub(super) fn do_later(&mut self) -> Result<(), Findings> {
        while let Some(due) =
            self.later.first_entry().filter(|first| first.key().0 <= self.clock.now_us())
        {
            let what = due.remove();
            self.happen(what);
        }
        Ok(())
    }

    pub(super) fn happen(&mut self, what: Later) {
        match what {
            Later::Start(process) => {
                let is_down =
                    self.processes.get(process).is_some_and(|it| it.coordinator.is_none());
                if is_down {
                    self.start(process);
                }
            }
            Later::Resume(process) => {
                self.executor.pause(process, false);
                if let Some(state) = self.processes.get_mut(process) {
                    state.paused = false;
                }
            }
            Later::Reconnect(process) => {
                self.weather.lock().cuts.remove(&process);
            }
            Later::DiskFree => self.weather.lock().is_full = false,
            Later::SessionsInTime => self.store.let_sessions_outlive(Duration::ZERO),
            Later::Storm { address, left } => self.storm(address, left),
            Later::Repair => {
                for Damage { key, value, place } in std::mem::take(&mut self.damage) {
                    if self.ledger.damaged.remove(&place) {
                        self.scribble(&key, value);
                    }
                }
            }
        }
    }

    /// Writes again what everybody compares, as it is.
    fn storm(&mut self, address: Address, left: u32) {
        let key = self.keys.gate(address.0, address.1);
        let found = self.store.inspect(|state| {
            let snapshot = state.load(std::slice::from_ref(&key), Revision::new(u64::MAX));
            snapshot.values.into_iter().next().flatten()
        });
        if let Some(found) = found {
            self.scribble(&key, found.value);
        }
        if left > 0 {
            let pause = self.rng.between(0, 4);
            self.after_ms(pause, Later::Storm { address, left: left - 1 });
        }
    }
}
