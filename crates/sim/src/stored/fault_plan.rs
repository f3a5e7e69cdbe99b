//! Faults: processes crash and pause, links are cut, clocks jump, records are damaged.

use std::sync::atomic::Ordering;
use std::time::Duration;

use shardwright_contracts::{ShardId, ShardKey};
use shardwright_coordination::RunStatus;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{LeaseBinding, StoredCoordinator};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{Commit, Expect, Key};

use super::StoredDirector;
use super::record_checks::Address;
use crate::director::Scheduled;
use crate::runtime::direct;
use crate::runtime::fault::StoreFault;
use crate::runtime::faults::Cut;

/// A scheduled change of a store or a wall clock.
#[derive(Clone, Debug)]
pub(crate) enum StoreEvent {
    Reconnect(usize),
    DiskFree,
    SessionsInTime,
    SetWallClock { process: usize, by: i64 },
    Storm { address: Address, left: u32 },
    Repair,
}

/// A damaged record and its original value.
pub(super) struct Damage {
    key: Key,
    value: bytes::Bytes,
    place: (Address, ShardId),
}

impl StoredDirector {
    /// Injects a random fault.
    pub(super) fn inject_fault(&mut self) {
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
            Some(0) => {
                let long_ms = self.rng.between(5, 500);
                self.crash(process, long_ms);
            }
            Some(1) => {
                let most_ms = if self.rng.chance(600) { 150 } else { 1_200 };
                let long_ms = self.rng.between(10, most_ms);
                self.pause(process, long_ms);
            }
            Some(2) => self.cut_off(process, Cut::Everything, StoreFault::Partitioned),
            Some(3) => self.cut_off(process, Cut::Replies, StoreFault::RepliesCut),
            Some(4) => self.set_clock(process),
            Some(5) => {
                self.subject.faults.lock().is_full = true;
                let long = self.rng.between(10, 250);
                self.note(format_args!("the disk is full for {long} ms"));
                self.after_ms(long, Scheduled::OfSubject(StoreEvent::DiskFree));
            }
            Some(6) => self.end_session(),
            Some(7) => {
                self.fault(None, Some(StoreFault::SessionOutlived));
                let by = self.rng.between(200, 1_500);
                self.subject.store.let_sessions_outlive(Duration::from_millis(by));
                self.after_ms(by * 2, Scheduled::OfSubject(StoreEvent::SessionsInTime));
            }
            Some(8) => self.compact(),
            Some(9) => {
                if let Some(address) = self.any_active() {
                    self.fault(None, Some(StoreFault::ConflictStorm));
                    let left = self.rng.between(10, 60) as u32;
                    self.after_ms(0, Scheduled::OfSubject(StoreEvent::Storm { address, left }));
                }
            }
            Some(10) => self.damage(),
            _ => self.abandon(),
        }
    }

    fn cut_off(&mut self, process: usize, cut: Cut, fault: StoreFault) {
        let long = self.rng.between(20, 900);
        self.fault(None, Some(fault));
        self.note(format_args!("process {} loses {cut:?} for {long} ms", process + 1));
        self.subject.faults.lock().cuts.insert(process, cut);
        self.after_ms(long, Scheduled::OfSubject(StoreEvent::Reconnect(process)));
    }

    fn set_clock(&mut self, process: usize) {
        let far = self.rng.chance(150);
        let by = if far { self.rng.between(1_000, 90_000) } else { self.rng.between(20, 600) };
        let by = by as i64;
        let forward = self.rng.chance(500);
        let fault = if forward { StoreFault::ClockJumped } else { StoreFault::ClockSetBack };
        self.fault(None, Some(fault));
        self.subject.update_ceiling();
        if let Some(wall_clock) = self.subject.wall_clocks.get(process) {
            wall_clock.off_ms.fetch_add(if forward { by } else { -by }, Ordering::Relaxed);
        }
        if far {
            let (long, by) = (self.rng.between(1, 400), if forward { -by } else { by });
            self.after_ms(long, Scheduled::OfSubject(StoreEvent::SetWallClock { process, by }));
        }
        if !forward {
            self.set_back(process, by.unsigned_abs());
        }
        self.note(format_args!("wall clock of process {} is set by {by}, {forward}", process + 1));
    }

    /// A call from before its clock is set back may be decided at an earlier time.
    fn set_back(&mut self, process: usize, by_ms: u64) {
        for (task, _) in self.calls.iter().filter(|(_, call)| call.process == process) {
            if let Some(record) = self.subject.log.calls.get_mut(task) {
                record.not_before_ms = record.not_before_ms.saturating_sub(by_ms);
            }
        }
    }

    /// Ends the session of a random owner.
    fn end_session(&mut self) {
        if self.subject.settings.engine.sessions == LeaseBinding::Deadline {
            return;
        }
        let Some((tenant, run)) = self.any_active() else { return };
        let range = self.subject.keys.view(tenant, run);
        let sessions = direct::sessions_in(&self.subject.store, &range);
        if let Some(session) = self.rng.pick(&sessions).copied() {
            self.fault(None, Some(StoreFault::SessionEndedEarly));
            self.note(format_args!("session {session} ends early"));
            self.subject.store.end_session(session);
        }
    }

    fn compact(&mut self) {
        self.fault(None, Some(StoreFault::Compacted));
        // The history is judged before it is compacted.
        let seen = self.subject.log.seen();
        self.subject.store.compact(seen);
    }

    pub(super) fn any_active(&mut self) -> Option<Address> {
        let tenants = self.subject.log.model.tenants.iter();
        let active: Vec<Address> = tenants
            .flat_map(|(tenant, state)| {
                state.runs.iter().map(|(run, state)| (*tenant, *run, state))
            })
            .filter(|(_, _, state)| state.status == RunStatus::Active)
            .map(|(tenant, run, _)| (tenant, run))
            .collect();
        self.rng.pick(&active).copied()
    }

    /// Writes a value past all processes.
    pub(super) fn scribble(&mut self, key: &Key, value: bytes::Bytes) {
        let Some(found) = direct::current(&self.subject.store, key) else { return };
        let commit = Commit::builder()
            .expect(key.clone(), Expect::At(found.revision))
            .put(key.clone(), value)
            .build();
        if let Ok(commit) = commit {
            direct::commit(&self.subject.store, &self.subject.faults, commit);
        }
    }

    fn damage(&mut self) {
        let Some(address) = self.any_active() else { return };
        let (tenant, run) = address;
        let shards = self.subject.log.model.run(tenant, run).map(|run| &run.shards);
        let shards: Vec<_> = shards.into_iter().flat_map(|shards| shards.keys().copied()).collect();
        let Some(shard) = self.rng.pick(&shards).copied() else { return };
        let place = (address, shard);
        if self.subject.log.damaged.contains(&place) {
            return;
        }
        let key = self.subject.keys.progress(tenant, ShardKey::new(run, shard));
        let Some(found) = direct::current(&self.subject.store, &key) else { return };
        self.fault(None, Some(StoreFault::RecordDamaged));
        self.note(format_args!("shard {shard} of run {run} is damaged"));
        let mut bytes = found.value.to_vec();
        bytes.truncate(bytes.len() / 2);
        self.subject.log.damaged.insert(place);
        self.subject.log.harmed.insert(place);
        self.scribble(&key, bytes.into());
        self.subject.damage.push(Damage { key, value: found.value, place });
        let long = self.rng.between(100, 1_500);
        self.after_ms(long, Scheduled::OfSubject(StoreEvent::Repair));
    }

    pub(super) fn run_store_event(&mut self, what: StoreEvent) {
        match what {
            StoreEvent::Reconnect(process) => {
                self.subject.faults.lock().cuts.remove(&process);
            }
            StoreEvent::DiskFree => self.subject.faults.lock().is_full = false,
            StoreEvent::SessionsInTime => self.subject.store.let_sessions_outlive(Duration::ZERO),
            StoreEvent::Storm { address, left } if !self.healed => self.storm(address, left),
            StoreEvent::Storm { .. } => {}
            StoreEvent::SetWallClock { process, by } => {
                self.subject.update_ceiling();
                if let Some(wall_clock) = self.subject.wall_clocks.get(process) {
                    wall_clock.off_ms.fetch_add(by, Ordering::Relaxed);
                }
                if by < 0 {
                    self.set_back(process, by.unsigned_abs());
                }
            }
            StoreEvent::Repair => {
                for Damage { key, value, place } in std::mem::take(&mut self.subject.damage) {
                    if self.subject.log.damaged.remove(&place) {
                        self.scribble(&key, value);
                    }
                }
            }
        }
    }

    /// Rewrites the record that every commit compares, with the same value.
    fn storm(&mut self, address: Address, left: u32) {
        let key = self.subject.keys.gate(address.0, address.1);
        if let Some(found) = direct::current(&self.subject.store, &key) {
            self.scribble(&key, found.value);
        }
        if left > 0 {
            let pause = self.rng.between(0, 4);
            self.after_ms(
                pause,
                Scheduled::OfSubject(StoreEvent::Storm { address, left: left - 1 }),
            );
        }
    }
}

/// Makes an unused store a restored one.
pub(super) fn restore(store: &MemoryStore, keys: &Keyspace) {
    let raised = StoredCoordinator::raise_generation(store.clone(), keys);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    // An in-memory store answers at once.
    let _raised = std::pin::pin!(raised).poll(&mut context);
}
