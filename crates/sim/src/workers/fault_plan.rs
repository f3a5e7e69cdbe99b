//! Faults: processes crash and pause, links are cut, wall clocks are set.

use std::sync::atomic::Ordering;
use std::time::Duration;

use shardwright_runs::LeaseBinding;

use super::director::{Director, Scheduled};
use super::stored_state::{RUN, StoredState, TENANT};
use super::tally::WorkerFault;
use crate::runtime::direct;
use crate::runtime::fault::StoreFault;
use crate::runtime::faults::Cut;

impl Director {
    /// Injects a random fault.
    pub(super) fn inject_fault(&mut self) {
        let process = self.rng.index(self.processes.len());
        let kinds = [(16, 0), (16, 1), (10, 2), (8, 3), (7, 4), (4, 5), (8, 6), (6, 7), (5, 8)];
        match self.rng.weighted(&kinds) {
            Some(0) => self.crash(process),
            Some(1) => self.pause(process),
            Some(2) => self.cut_off(process, Cut::Everything, StoreFault::Partitioned),
            Some(3) => self.cut_off(process, Cut::Replies, StoreFault::RepliesCut),
            Some(4) => self.set_clock(process),
            Some(5) => {
                self.faults.lock().is_full = true;
                let long = self.rng.between(10, 300);
                self.note(format_args!("the disk is full for {long} ms"));
                self.after_ms(long, Scheduled::DiskFree);
            }
            Some(6) => self.end_session(),
            Some(7) => {
                self.store_fault(StoreFault::SessionOutlived);
                let by = self.rng.between(200, 1_500);
                self.store.let_sessions_outlive(Duration::from_millis(by));
                self.after_ms(by * 2, Scheduled::SessionsInTime);
            }
            _ => {
                self.store_fault(StoreFault::Compacted);
                // The history is judged before it is compacted.
                self.store.compact(self.stored.seen);
            }
        }
    }

    fn store_fault(&mut self, fault: StoreFault) {
        self.faults.lock().fault(fault);
    }

    /// Counts a fault of a process whose handlers run.
    fn note_if_busy(&mut self, process: usize, fault: WorkerFault) {
        if self.running().iter().any(|call| call.process == process) {
            self.script.lock().fault(fault);
        }
    }

    pub(super) fn crash(&mut self, process: usize) {
        if self.processes.get(process).is_none_or(|state| !state.is_up) {
            return;
        }
        self.store_fault(StoreFault::ProcessCrashed);
        self.note_if_busy(process, WorkerFault::CrashedInHandler);
        let long = self.rng.between(5, 500);
        self.note(format_args!("process {process} crashes for {long} ms"));
        self.kill(process);
        self.after_ms(long, Scheduled::Start(process));
    }

    fn pause(&mut self, process: usize) {
        let longest = if self.rng.chance(600) { 150 } else { 2_500 };
        let long = self.rng.between(10, longest);
        if self.processes.get(process).is_none_or(|state| !state.is_up || state.paused) {
            return;
        }
        self.store_fault(StoreFault::ProcessPaused);
        if long > self.settings.run.lease_duration_ms.get() {
            self.store_fault(StoreFault::PausedBeyondLease);
        }
        self.note_if_busy(process, WorkerFault::PausedInHandler);
        self.note(format_args!("process {process} pauses for {long} ms"));
        self.executor.pause(process, true);
        if let Some(state) = self.processes.get_mut(process) {
            state.paused = true;
        }
        self.after_ms(long, Scheduled::Resume(process));
    }

    fn cut_off(&mut self, process: usize, cut: Cut, fault: StoreFault) {
        let long = self.rng.between(20, 2_500);
        self.store_fault(fault);
        self.note_if_busy(process, WorkerFault::CutInHandler);
        self.note(format_args!("process {process} loses {cut:?} for {long} ms"));
        self.faults.lock().cuts.insert(process, cut);
        self.after_ms(long, Scheduled::Reconnect(process));
    }

    fn set_clock(&mut self, process: usize) {
        if !self.settings.may_skew {
            return;
        }
        let by = self.rng.between(20, 3_000) as i64;
        let is_forward = self.rng.chance(500);
        self.store_fault(if is_forward {
            StoreFault::ClockJumped
        } else {
            StoreFault::ClockSetBack
        });
        self.script.lock().fault(WorkerFault::SkewBeyondAllowance);
        self.is_skewed = true;
        let by = if is_forward { by } else { -by };
        self.note(format_args!("wall clock of process {process} is set by {by} ms"));
        self.set_wall_clock(process, by);
        let long = self.rng.between(1, 800);
        self.after_ms(long, Scheduled::SetWallClock { process, by: -by });
    }

    fn set_wall_clock(&mut self, process: usize, by: i64) {
        self.update_ceiling();
        if let Some(state) = self.processes.get(process) {
            state.off_ms.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Ends the session of a random owner.
    fn end_session(&mut self) {
        if self.settings.engine.sessions == LeaseBinding::Deadline {
            return;
        }
        let sessions = direct::sessions_in(&self.store, &StoredState::keys().view(TENANT, RUN));
        if let Some(session) = self.rng.pick(&sessions).copied() {
            self.store_fault(StoreFault::SessionEndedEarly);
            if !self.running().is_empty() {
                self.script.lock().fault(WorkerFault::SessionEndedInHandler);
            }
            self.note(format_args!("session {session} ends early"));
            self.store.end_session(session);
        }
    }

    /// Runs the scheduled events that are due.
    pub(super) fn run_due(&mut self) {
        while let Some(what) = self.agenda.take_due(self.clock.now_us()) {
            self.run_scheduled(what);
        }
    }

    pub(super) fn run_scheduled(&mut self, what: Scheduled) {
        match what {
            Scheduled::Start(process) => self.start(process),
            Scheduled::Resume(process) => {
                self.executor.pause(process, false);
                if let Some(state) = self.processes.get_mut(process) {
                    state.paused = false;
                }
            }
            Scheduled::Reconnect(process) => {
                self.faults.lock().cuts.remove(&process);
            }
            Scheduled::SetWallClock { process, by } => self.set_wall_clock(process, by),
            Scheduled::DiskFree => self.faults.lock().is_full = false,
            Scheduled::SessionsInTime => self.store.let_sessions_outlive(Duration::ZERO),
        }
    }
}
