//! Clients and their calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::limits::{MAX_CHAIN_LENGTH, MAX_PAYLOAD_SIZE};
use shardwright_api::{CallError, Effect};
use shardwright_node::{Call, CallKind, Chain, ObjectKey};
use shardwright_placement::ObjectId;

use super::counter::{COUNTER, payload};
use super::director::{Director, Running, TaskReport, send_report};
use super::oracle::balance::CONVERGENCE;
use super::oracle::calls::{failed_in_calm, judge_deadline, judge_read};
use super::oracle::ownership::acknowledged;
use super::oracle::violation;
use super::tally;
use super::tally::ClusterFault;
use crate::oracle::Finding;
use crate::planted::clusters::ClusterBug;
use crate::runtime::executor::{TaskId, TaskOwner};

/// A timeout beyond that of every client. Only a planted bug uses it.
const ONE_HOUR: Duration = Duration::from_secs(3_600);

/// The purpose of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Add one to a counter.
    Add(Arc<str>),
    /// Read a counter. The number is its acknowledged value when the call was made.
    Read(Arc<str>, u64),
    /// Delete a counter from memory. Its stored value stays.
    Delete,
    /// Misuse, which may fail.
    Misuse,
}

/// A call in progress.
#[derive(Clone, Debug)]
pub(super) struct ObjectCall {
    pub(super) number: u64,
    pub(super) process: usize,
    pub(super) meaning: Meaning,
    due_us: u64,
}

/// A call that a client is about to make.
struct PlannedCall {
    meaning: Meaning,
    target: String,
    method: &'static str,
    argument: String,
}

impl Director {
    /// A client makes a random call.
    pub(super) fn client_act(&mut self) {
        let Some(entry) = self.entry() else { return };
        if !self.settings.is_calm && !self.healed && self.rng.chance(25) {
            return self.misuse(entry);
        }
        let planned = self.planned();
        self.send(entry, planned);
    }

    /// The process through which the next call is made: mostly a gate.
    fn entry(&mut self) -> Option<usize> {
        let wants_gate = self.rng.chance(850);
        let is_entry = |(process, running): (usize, &Running)| match running {
            Running::Gate(_) if wants_gate => Some(process),
            Running::Node(_) if !wants_gate => Some(process),
            _ => None,
        };
        let all = self.processes.iter().map(|process| &process.running).enumerate();
        let mut entries: Vec<usize> = all.filter_map(is_entry).collect();
        // Clients make no new calls through a draining node.
        entries.retain(|entry| {
            let state = self.processes.get(*entry);
            state.is_some_and(|state| !state.paused && !state.draining)
        });
        self.rng.pick(&entries).copied()
    }

    fn shard_number(&mut self) -> u64 {
        self.rng.below(self.settings.options.config.sharding.num_shards.get().into())
    }

    /// A random counter. Its name is hashed, or names its shard.
    fn counter(&mut self) -> String {
        if self.rng.chance(500) {
            return format!("c{}", self.rng.below(24));
        }
        let shard = self.shard_number();
        format!("shard#{shard}/{}", if self.rng.chance(500) { "a" } else { "b" })
    }

    fn planned(&mut self) -> PlannedCall {
        let target = self.counter();
        let name: Arc<str> = target.as_str().into();
        let acknowledged = self.counted.get(&name).map_or(0, |counted| counted.0);
        let add = Meaning::Add(Arc::clone(&name));
        match self.rng.below(100) {
            0..40 => PlannedCall { meaning: add, target, method: "add", argument: String::new() },
            40..45 => {
                let (meaning, argument) = (Meaning::Delete, String::new());
                PlannedCall { meaning, target, method: "delete", argument }
            }
            45..70 => {
                let meaning = Meaning::Read(name, acknowledged);
                PlannedCall { meaning, target, method: "get", argument: String::new() }
            }
            70..85 => {
                let argument = self.rng.between(500, 120_000).to_string();
                PlannedCall { meaning: add, target, method: "slow_add", argument }
            }
            _ => {
                // Mostly another counter of the same shard.
                let shard = self.shard_number();
                let other = match self.rng.chance(700) {
                    true => format!("shard#{shard}/b"),
                    false => format!("c{}", self.rng.below(24)),
                };
                let (target, argument) = (format!("shard#{shard}/a"), other);
                let meaning = Meaning::Add(argument.as_str().into());
                PlannedCall { meaning, target, method: "relay", argument }
            }
        }
    }

    fn timeout(&mut self) -> Duration {
        let is_long = self.settings.is_calm || self.healed;
        let ms = if is_long { 4_000 } else { self.rng.between(100, 2_500) };
        Duration::from_millis(ms)
    }

    fn send(&mut self, entry: usize, planned: PlannedCall) {
        let Ok(id) = ObjectId::parse(&planned.target) else { return };
        let number = self.next_call + 1;
        let (target, timeout) = (ObjectKey::new(COUNTER, id), self.timeout());
        let mut call =
            Call::new(target, planned.method, payload(number, &planned.argument), timeout);
        if planned.meaning == Meaning::Delete {
            call.kind = CallKind::Delete;
        }
        self.call(entry, call, planned.meaning);
    }

    /// Makes a call that may or must fail.
    fn misuse(&mut self, entry: usize) {
        let timeout = self.timeout();
        let node = self.rng.index(self.settings.nodes + self.settings.spare_nodes);
        let node = self.processes.get(node).map(|process| process.address.clone());
        let kind = self.rng.below(9);
        let target = match (kind, node) {
            (0, _) => "shard#4000/x".to_owned(),
            (6 | 7, Some(node)) => format!("{node}/status"),
            _ => self.counter(),
        };
        let Ok(id) = ObjectId::parse(&target) else { return };
        let object_type = if kind == 1 { "Unknown" } else { COUNTER };
        let method = match kind {
            2 => "panic",
            3 => "unknown_method",
            4 => "relay",
            _ => "get",
        };
        let argument = if kind == 4 { target } else { String::new() };
        let key = ObjectKey::new(object_type, id);
        let mut call = Call::new(key, method, payload(0, &argument), timeout);
        if kind == 5 {
            let link = |n| ObjectId::parse(&format!("link-{n}")).ok();
            let links = (0..MAX_CHAIN_LENGTH).filter_map(link);
            call.chain = Chain::new(links.map(|id| ObjectKey::new(COUNTER, id)));
        }
        if kind == 8 {
            call.payload = Bytes::from(vec![0; MAX_PAYLOAD_SIZE + 1]);
        }
        if kind == 3 && self.rng.chance(500) {
            call.chain = Chain::new([call.target.clone()]);
        }
        self.call(entry, call, Meaning::Misuse);
    }

    /// Makes a call through a process.
    pub(super) fn call(&mut self, entry: usize, call: Call, meaning: Meaning) -> Option<TaskId> {
        let running = self.processes.get(entry)?.running.clone();
        self.next_call += 1;
        let (number, reports, clock) = (self.next_call, self.reports.clone(), self.clock.clone());
        let (target, method) = (call.target.id.as_str().to_owned(), Arc::clone(&call.method));
        self.note(format_args!("call {number} {method} of {target} through {entry}"));
        let due_us = self.clock.now_us() + super::wire::micros(call.timeout);
        let mut call = call;
        if self.bug == Some(ClusterBug::DeadlineForgotten) {
            call.timeout = ONE_HOUR;
        }
        let task = self.clock.spawn(TaskOwner::Process(entry), async move {
            let answer = match running {
                Running::Gate(gate) => gate.call(call).await,
                Running::Node(node) => node.call(call).await,
                Running::Nothing => Err(CallError::NotServing),
            };
            if let Some(task) = clock.current() {
                send_report(&reports, TaskReport::Answered { task, answer });
            }
        });
        self.calls.insert(task, ObjectCall { number, process: entry, meaning, due_us });
        Some(task)
    }

    /// Judges an answer.
    pub(super) fn answered(
        &mut self,
        task: TaskId,
        answer: Result<Bytes, CallError>,
    ) -> Result<(), Finding> {
        let Some(access) = self.calls.remove(&task) else { return Ok(()) };
        let outcome = tally::outcome(&answer);
        *self.tally.calls.entry(outcome).or_default() += 1;
        self.note(format_args!("call {} {outcome}", access.number));
        let due_us = self.due_us(&access);
        judge_deadline(access.number, self.clock.now_us(), due_us)?;
        if let Err(error) = &answer
            && access.meaning != Meaning::Misuse
        {
            let (number, why) = (access.number, error.to_string());
            if self.settings.is_calm {
                return Err(failed_in_calm(number, &why));
            }
            if self.converged {
                return Err(violation(CONVERGENCE, format!("call {number} failed: {why}")));
            }
        }
        if answer.is_ok() && self.lost_calls.contains(&access.number) {
            return Err(acknowledged(access.number));
        }
        match (&access.meaning, &answer) {
            (Meaning::Add(counter), Ok(_)) => self.count(counter, true),
            (Meaning::Add(counter), Err(error)) if error.effect() == Effect::Unknown => {
                self.count(counter, false);
            }
            (Meaning::Read(counter, at_least), Ok(read)) if !self.settings.ends_sessions_early => {
                let read = str::from_utf8(read).ok().and_then(|read| read.parse().ok());
                judge_read(counter, read.unwrap_or_default(), *at_least)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The deadline of a call. A paused process may answer when it resumes.
    fn due_us(&self, access: &ObjectCall) -> u64 {
        let state = self.processes.get(access.process);
        access.due_us.max(state.map_or(0, |state| state.resumed_us))
    }

    fn count(&mut self, counter: &Arc<str>, is_acknowledged: bool) {
        let counted = self.counted.entry(Arc::clone(counter)).or_default();
        if is_acknowledged {
            counted.0 += 1;
        } else {
            counted.1 += 1;
        }
    }

    /// Forgets a call whose caller is gone. Its outcome stays unknown.
    pub(super) fn give_up(&mut self, task: TaskId) {
        let Some(access) = self.calls.remove(&task) else { return };
        *self.tally.calls.entry("abandoned").or_default() += 1;
        self.note(format_args!("call {} abandoned", access.number));
        if let Meaning::Add(counter) = &access.meaning {
            self.count(counter, false);
        }
    }

    /// Abandons a random call in progress.
    pub(super) fn abandon(&mut self) {
        let open: Vec<TaskId> = self.calls.keys().copied().collect();
        let Some(task) = self.rng.pick(&open).copied() else { return };
        self.wires.lock().fault(ClusterFault::CallerGone);
        self.executor.end(task);
        self.give_up(task);
    }

    /// Judges the deadlines of calls that are not answered yet.
    pub(super) fn check_deadlines(&self) -> Result<(), Finding> {
        let now_us = self.clock.now_us();
        for access in self.calls.values() {
            let is_paused = self.processes.get(access.process).is_some_and(|state| state.paused);
            if !is_paused {
                judge_deadline(access.number, now_us, self.due_us(access))?;
            }
        }
        Ok(())
    }
}
