//! Faults: processes crash and pause, links are cut, leaders are deposed, wall clocks are set.

use std::sync::atomic::Ordering;
use std::time::Duration;

use shardwright_cluster::keys::ClusterKey;
use shardwright_store::{Commit, Expect};

use super::director::{Director, Running, Scheduled};
use super::tally::ClusterFault;
use crate::runtime::direct;
use crate::runtime::executor::TaskId;
use crate::runtime::fault::StoreFault;
use crate::runtime::faults::Cut;

impl Director {
    /// Injects a random fault.
    pub(super) fn inject_fault(&mut self) {
        let process = self.victim();
        let kind = self.rng.weighted(&[
            (14, 0),
            (16, 1),
            (12, 2),
            (8, 3),
            (16, 4),
            (7, 5),
            (4, 6),
            (8, 7),
            (6, 8),
            (8, 9),
            (6, 10),
            (8, 11),
            (8, 12),
        ]);
        match kind {
            Some(0) => self.crash(process),
            Some(1) => self.pause(process),
            Some(2) => self.cut_off(process, Cut::Everything, StoreFault::Partitioned),
            Some(3) => self.cut_off(process, Cut::Replies, StoreFault::RepliesCut),
            Some(4) => self.cut_wire(process),
            Some(5) if self.settings.sets_clocks => self.set_clock(process),
            Some(6) => {
                self.faults.lock().is_full = true;
                let long = self.rng.between(10, 400);
                self.note(format_args!("the disk is full for {long} ms"));
                self.after_ms(long, Scheduled::DiskFree);
            }
            Some(7) if self.settings.ends_sessions_early => self.end_session(),
            Some(8) => {
                self.store_fault(StoreFault::SessionOutlived);
                let by = self.rng.between(300, 2_500);
                self.store.let_sessions_outlive(Duration::from_millis(by));
                self.after_ms(by * 2, Scheduled::SessionsInTime);
            }
            Some(9) => {
                self.store_fault(StoreFault::Compacted);
                // The history is judged before it is compacted.
                self.store.compact(self.stored.seen);
            }
            Some(10) => self.depose(),
            Some(12) => {
                let long = self.rng.between(100, self.settings.options.config.stuck_after_ms * 2);
                self.refuse_claims(process);
                self.after_ms(long, Scheduled::AcceptClaims(process));
            }
            _ => self.abandon(),
        }
    }

    fn store_fault(&mut self, fault: StoreFault) {
        self.faults.lock().fault(fault);
    }

    fn fault(&mut self, fault: ClusterFault) {
        self.wires.lock().fault(fault);
    }

    /// A random process, with a bias for the leader.
    fn victim(&mut self) -> usize {
        if let Some(leader) = self.leader_process()
            && self.rng.chance(250)
        {
            return leader;
        }
        self.rng.index(self.processes.len())
    }

    fn leader_process(&self) -> Option<usize> {
        let leader = self.stored.leader.as_ref()?;
        self.processes.iter().position(|process| process.address == leader.address)
    }

    fn note_if_leader(&mut self, process: usize) {
        if self.leader_process() == Some(process) {
            self.fault(ClusterFault::LeaderHit);
        }
    }

    fn crash(&mut self, process: usize) {
        let Some(state) = self.processes.get(process).filter(|state| state.is_started) else {
            return;
        };
        let is_gate = state.is_gate;
        self.note_if_leader(process);
        self.store_fault(StoreFault::ProcessCrashed);
        if is_gate {
            self.fault(ClusterFault::GateCrashed);
        }
        let long = self.rng.between(5, 2_000);
        self.note(format_args!("process {process} crashes for {long} ms"));
        self.stop(process);
        self.after_ms(long, Scheduled::Start(process));
    }

    /// Stops a process at once.
    pub(super) fn stop(&mut self, process: usize) {
        self.executor.kill(process);
        let Some(state) = self.processes.get_mut(process) else { return };
        (state.is_started, state.paused, state.draining) = (false, false, false);
        let address = state.address.clone();
        let running = std::mem::replace(&mut state.running, Running::Nothing);
        self.wires.unlisten(&address);
        drop(running);
        let of_process = |(task, access): (&TaskId, &super::calls::ObjectCall)| {
            (access.process == process).then_some(*task)
        };
        let gone: Vec<TaskId> = self.calls.iter().filter_map(of_process).collect();
        for task in gone {
            self.give_up(task);
        }
        // Its operations will not be answered.
        self.operations.retain(|_, (executor, _)| *executor != process);
    }

    fn pause(&mut self, process: usize) {
        let Some(state) = self.processes.get_mut(process) else { return };
        if state.paused || !state.is_started {
            return;
        }
        state.paused = true;
        let is_node = !state.is_gate;
        let ttl_ms = self.settings.options.session_ttl.as_millis() as u64;
        let long = if self.rng.chance(500) { 300 } else { ttl_ms * 3 };
        let long = self.rng.between(10, long);
        self.note_if_leader(process);
        self.store_fault(StoreFault::ProcessPaused);
        if is_node && long > ttl_ms {
            self.fault(ClusterFault::PausedBeyondSession);
        }
        self.note(format_args!("process {process} pauses for {long} ms"));
        self.executor.pause(process, true);
        self.after_ms(long, Scheduled::Resume(process));
    }

    fn cut_off(&mut self, process: usize, cut: Cut, fault: StoreFault) {
        let ttl_ms = self.settings.options.session_ttl.as_millis() as u64;
        let long = self.rng.between(50, ttl_ms * 2);
        self.note_if_leader(process);
        self.store_fault(fault);
        self.note(format_args!("process {process} loses {cut:?} of its store link for {long} ms"));
        self.faults.lock().cuts.insert(process, cut);
        self.after_ms(long, Scheduled::Reconnect(process));
    }

    fn cut_wire(&mut self, one: usize) {
        let other = self.rng.index(self.processes.len());
        let is_gate = |process: usize| self.processes.get(process).is_some_and(|it| it.is_gate);
        let fault = match (is_gate(one), is_gate(other)) {
            (true, true) => return,
            (false, false) if one == other => return,
            (false, false) => ClusterFault::NodesCut,
            _ => ClusterFault::GateCut,
        };
        let (one, other) = (one.min(other), one.max(other));
        let long = self.rng.between(50, 2_500);
        self.fault(fault);
        self.note(format_args!("processes {one} and {other} are cut apart for {long} ms"));
        self.wires.lock().cuts.insert((one, other));
        self.after_ms(long, Scheduled::Rewire(one, other));
    }

    /// Rejects the claims and releases of a node, which keeps its session.
    pub(super) fn refuse_claims(&mut self, process: usize) {
        self.fault(ClusterFault::ClaimsRefused);
        self.note(format_args!("claims of process {process} are rejected"));
        self.faults.lock().claimless.insert(process);
    }

    fn set_clock(&mut self, process: usize) {
        let by = self.rng.between(20, 600) as i64;
        let forward = self.rng.chance(500);
        let fault = if forward { StoreFault::ClockJumped } else { StoreFault::ClockSetBack };
        self.store_fault(fault);
        let by = if forward { by } else { -by };
        let Some(state) = self.processes.get(process) else { return };
        state.off_ms.fetch_add(by, Ordering::Relaxed);
        self.note(format_args!("wall clock of process {process} is set by {by} ms"));
    }

    /// Ends the session of a random node before its TTL.
    fn end_session(&mut self) {
        let members: Vec<_> =
            self.stored.members.iter().map(|(node, now)| (node.clone(), now.session)).collect();
        let Some((node, Some(session))) = self.rng.pick(&members).cloned() else { return };
        self.store_fault(StoreFault::SessionEndedEarly);
        self.note(format_args!("session {session} of {node} ends early"));
        let now_us = self.clock.now_us();
        let owner = self.processes.iter_mut().find(|process| process.address == node);
        if let Some(process) = owner {
            process.session_ended_us = Some(now_us);
        }
        self.store.end_session(session);
    }

    /// Deletes the leader's entry.
    fn depose(&mut self) {
        let Ok(keys) = self.settings.options.cluster_keys() else { return };
        let key = keys.key(&ClusterKey::Leader);
        let Some(found) = direct::current(&self.store, &key) else { return };
        let commit =
            Commit::builder().expect(key.clone(), Expect::At(found.revision)).delete(key).build();
        if commit.is_ok_and(|commit| direct::commit(&self.store, &self.faults, commit)) {
            self.fault(ClusterFault::LeaderDeposed);
        }
    }

    pub(super) fn run_scheduled(&mut self, what: Scheduled) {
        match what {
            Scheduled::Start(process) => self.start(process),
            Scheduled::Stop(process, life) => {
                if self.processes.get(process).is_some_and(|state| state.life == life) {
                    self.note(format_args!("process {process} ends"));
                    self.stop(process);
                }
            }
            Scheduled::Resume(process) => {
                self.executor.pause(process, false);
                let now_us = self.clock.now_us();
                if let Some(state) = self.processes.get_mut(process) {
                    state.paused = false;
                    state.resumed_us = now_us;
                }
                self.note(format_args!("process {process} resumes"));
            }
            Scheduled::Reconnect(process) => {
                self.faults.lock().cuts.remove(&process);
            }
            Scheduled::Rewire(one, other) => {
                self.wires.lock().cuts.remove(&(one, other));
            }
            Scheduled::DiskFree => self.faults.lock().is_full = false,
            Scheduled::AcceptClaims(process) => {
                self.faults.lock().claimless.remove(&process);
            }
            Scheduled::SessionsInTime => self.store.let_sessions_outlive(Duration::ZERO),
            Scheduled::Undrain(node) => self.set_drained(node, false),
            Scheduled::Unfreeze => self.set_frozen(false),
        }
    }
}
