//! What goes wrong: processes die and stand still, links are cut, clocks jump, records get damaged.

use std::sync::atomic::Ordering;
use std::time::Duration;

use shardwright_contracts::{ShardId, ShardKey};
use shardwright_coordination::RunStatus;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{LeaseBinding, StoredCoordinator};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{Commit, Expect, Key, Revision, Store};

use super::StoredDirector;
use super::record_checks::Address;
use crate::director::Later;
use crate::runtime::fault::StoreFault;
use crate::runtime::faults::{Author, Cut};

/// What happens to a store or a calendar at some time.
#[derive(Clone, Debug)]
pub(crate) enum StoreLater {
    Reconnect(usize),
    DiskFree,
    SessionsInTime,
    SetCalendar { process: usize, by: i64 },
    Storm { address: Address, left: u32 },
    Repair,
}

/// A damaged record as it was.
pub(super) struct Damage {
    key: Key,
    value: bytes::Bytes,
    place: (Address, ShardId),
}

impl StoredDirector {
    /// Something goes wrong.
    pub(super) fn next_fault(&mut self) {
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
                self.after_ms(long, Later::Of(StoreLater::DiskFree));
            }
            Some(6) => self.end_session(),
            Some(7) => {
                self.fault(None, Some(StoreFault::SessionOutlived));
                let by = self.rng.between(200, 1_500);
                self.subject.store.let_sessions_outlive(Duration::from_millis(by));
                self.after_ms(by * 2, Later::Of(StoreLater::SessionsInTime));
            }
            Some(8) => self.compact(),
            Some(9) => {
                if let Some(address) = self.any_active() {
                    self.fault(None, Some(StoreFault::ConflictStorm));
                    let left = self.rng.between(10, 60) as u32;
                    self.after_ms(0, Later::Of(StoreLater::Storm { address, left }));
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
        self.after_ms(long, Later::Of(StoreLater::Reconnect(process)));
    }

    fn set_clock(&mut self, process: usize) {
        let far = self.rng.chance(150);
        let by = if far { self.rng.between(1_000, 90_000) } else { self.rng.between(20, 600) };
        let by = by as i64;
        let forward = self.rng.chance(500);
        let fault = if forward { StoreFault::ClockJumped } else { StoreFault::ClockSetBack };
        self.fault(None, Some(fault));
        self.subject.look_at_calendars();
        if let Some(calendar) = self.subject.calendars.get(process) {
            calendar.off_ms.fetch_add(if forward { by } else { -by }, Ordering::Relaxed);
        }
        if far {
            let (long, by) = (self.rng.between(1, 400), if forward { -by } else { by });
            self.after_ms(long, Later::Of(StoreLater::SetCalendar { process, by }));
        }
        if !forward {
            self.set_back(process, by.unsigned_abs());
        }
        self.note(format_args!("calendar of process {} set by {by}, {forward}", process + 1));
    }

    /// What was asked before a calendar is set back may be answered at an earlier time.
    fn set_back(&mut self, process: usize, by_ms: u64) {
        for (task, _) in self.calls.iter().filter(|(_, call)| call.process == process) {
            if let Some(record) = self.subject.log.calls.get_mut(task) {
                record.not_before_ms = record.not_before_ms.saturating_sub(by_ms);
            }
        }
    }

    /// Ends the session of some shard's owner.
    fn end_session(&mut self) {
        if self.subject.settings.engine.sessions == LeaseBinding::Deadline {
            return;
        }
        let Some((tenant, run)) = self.any_active() else { return };
        let range = self.subject.keys.view(tenant, run);
        let page = shardwright_store::ScanFrom::first(1_000);
        let found =
            self.subject.store.inspect(|state| state.scan(&range, &page, Revision::new(u64::MAX)));
        let entries = found.map(|page| page.entries).unwrap_or_default();
        let sessions: Vec<_> = entries.iter().filter_map(|(_, found)| found.session).collect();
        if let Some(session) = self.rng.pick(&sessions).copied() {
            self.fault(None, Some(StoreFault::SessionEndedEarly));
            self.note(format_args!("session {session} ends early"));
            self.subject.store.end_session(session);
        }
    }

    fn compact(&mut self) {
        self.fault(None, Some(StoreFault::Compacted));
        // The history is judged before it is forgotten.
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

    /// Writes something past all processes.
    pub(super) fn scribble(&mut self, key: &Key, value: bytes::Bytes) {
        let found = self.subject.store.inspect(|state| {
            let snapshot = state.load(std::slice::from_ref(key), Revision::new(u64::MAX));
            snapshot.values.into_iter().next().flatten()
        });
        let Some(found) = found else { return };
        let commit = Commit::builder()
            .expect(key.clone(), Expect::At(found.revision))
            .put(key.clone(), value)
            .build();
        let Ok(commit) = commit else { return };
        let mut done = std::pin::pin!(self.subject.store.commit(commit));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if let std::task::Poll::Ready(Ok(revision)) = done.as_mut().poll(&mut context) {
            let author = Author { process: 0, task: None, is_vandal: true };
            self.subject.faults.lock().authors.insert(revision, author);
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
        let found = self.subject.store.inspect(|state| {
            let snapshot = state.load(std::slice::from_ref(&key), Revision::new(u64::MAX));
            snapshot.values.into_iter().next().flatten()
        });
        let Some(found) = found else { return };
        self.fault(None, Some(StoreFault::RecordDamaged));
        self.note(format_args!("shard {shard} of run {run} is damaged"));
        let mut bytes = found.value.to_vec();
        bytes.truncate(bytes.len() / 2);
        self.subject.log.damaged.insert(place);
        self.subject.log.harmed.insert(place);
        self.scribble(&key, bytes.into());
        self.subject.damage.push(Damage { key, value: found.value, place });
        let long = self.rng.between(100, 1_500);
        self.after_ms(long, Later::Of(StoreLater::Repair));
    }

    pub(super) fn happen_later(&mut self, what: StoreLater) {
        match what {
            StoreLater::Reconnect(process) => {
                self.subject.faults.lock().cuts.remove(&process);
            }
            StoreLater::DiskFree => self.subject.faults.lock().is_full = false,
            StoreLater::SessionsInTime => self.subject.store.let_sessions_outlive(Duration::ZERO),
            StoreLater::Storm { address, left } if !self.healed => self.storm(address, left),
            StoreLater::Storm { .. } => {}
            StoreLater::SetCalendar { process, by } => {
                self.subject.look_at_calendars();
                if let Some(calendar) = self.subject.calendars.get(process) {
                    calendar.off_ms.fetch_add(by, Ordering::Relaxed);
                }
                if by < 0 {
                    self.set_back(process, by.unsigned_abs());
                }
            }
            StoreLater::Repair => {
                for Damage { key, value, place } in std::mem::take(&mut self.subject.damage) {
                    if self.subject.log.damaged.remove(&place) {
                        self.scribble(&key, value);
                    }
                }
            }
        }
    }

    /// Writes again what everybody compares, as it is.
    fn storm(&mut self, address: Address, left: u32) {
        let key = self.subject.keys.gate(address.0, address.1);
        let found = self.subject.store.inspect(|state| {
            let snapshot = state.load(std::slice::from_ref(&key), Revision::new(u64::MAX));
            snapshot.values.into_iter().next().flatten()
        });
        if let Some(found) = found {
            self.scribble(&key, found.value);
        }
        if left > 0 {
            let pause = self.rng.between(0, 4);
            self.after_ms(pause, Later::Of(StoreLater::Storm { address, left: left - 1 }));
        }
    }
}

/// Makes a store that nobody works on yet a restored one.
pub(super) fn restore(store: &MemoryStore, keys: &Keyspace) {
    let raised = StoredCoordinator::raise_generation(store.clone(), keys);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    // A store in memory answers at once.
    let _raised = std::pin::pin!(raised).poll(&mut context);
}
