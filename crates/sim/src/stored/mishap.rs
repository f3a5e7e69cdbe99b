//! What goes wrong: processes die and stand still, links are cut, clocks jump, records get damaged.

use std::sync::atomic::Ordering;
use std::time::Duration;

use shardwright_contracts::ShardKey;
use shardwright_coordination::RunStatus;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{Sessions, StoredCoordinator};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{Commit, Expect, Key, Revision, Store};

use super::books::Address;
use super::director::{Damage, Director, Findings, Later};
use super::ledger::CallState;
use crate::ground::fault::StoreFault;
use crate::ground::weather::{Author, Cut};

impl Director {
    /// Something goes wrong.
    pub(super) fn mishap(&mut self) -> Result<(), Findings> {
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
            (state.coordinator, state.listener) = (None, None);
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
    fn give_up(&mut self, task: crate::ground::executor::TaskId) {
        if let Some(record) = self.ledger.calls.get_mut(&task) {
            record.state = CallState::Abandoned;
            record.ended_ms = Some(self.clock.now_ms());
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
        let far = self.rng.chance(150);
        let by = if far { self.rng.between(1_000, 90_000) } else { self.rng.between(20, 600) };
        let by = by as i64;
        let forward = self.rng.chance(500);
        self.fault(if forward { StoreFault::ClockJumped } else { StoreFault::ClockSetBack });
        self.look_at_calendars();
        if let Some(state) = self.processes.get(process) {
            state.off_ms.fetch_add(if forward { by } else { -by }, Ordering::Relaxed);
        }
        if far {
            let (long, by) = (self.rng.between(1, 400), if forward { -by } else { by });
            self.after_ms(long, Later::SetCalendar { process, by });
        }
        if !forward {
            self.set_back(process, by.unsigned_abs());
        }
        self.note(format_args!("calendar of process {} set by {by}, {forward}", process + 1));
    }

    /// What was asked before a calendar is set back may be answered at an earlier time.
    fn set_back(&mut self, process: usize, by_ms: u64) {
        for (task, _) in self.calls.iter().filter(|(_, call)| call.process == process) {
            if let Some(record) = self.ledger.calls.get_mut(task) {
                record.not_before_ms = record.not_before_ms.saturating_sub(by_ms);
            }
        }
    }

    /// Ends the session of some shard's owner.
    fn end_session(&mut self) {
        if self.settings.engine.sessions == Sessions::Unbound {
            return;
        }
        let Some((tenant, run)) = self.any_active() else { return };
        let range = self.keys.view(tenant, run);
        let page = shardwright_store::ScanFrom::first(1_000);
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
            Later::SetCalendar { process, by } => {
                self.look_at_calendars();
                if let Some(state) = self.processes.get(process) {
                    state.off_ms.fetch_add(by, Ordering::Relaxed);
                }
                if by < 0 {
                    self.set_back(process, by.unsigned_abs());
                }
            }
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

/// Makes a store that nobody works on yet a restored one.
pub(super) fn restore(store: &MemoryStore, keys: &Keyspace) {
    let raised = StoredCoordinator::raise_incarnation(store.clone(), keys);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    // A store in memory answers at once.
    let _raised = std::pin::pin!(raised).poll(&mut context);
}
