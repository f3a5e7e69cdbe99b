//! Clients and what they call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::limits::{MAX_CHAIN_LENGTH, MAX_PAYLOAD_SIZE};
use shardwright_api::{CallError, Effect};
use shardwright_node::{Call, Chain, ObjectKey};
use shardwright_placement::ObjectId;

use super::counter::{COUNTER, payload};
use super::director::{Director, Running, Word, tell};
use super::oracle::balance::REST;
use super::oracle::broken;
use super::oracle::calls::{failed_in_calm, judge_deadline, judge_read};
use super::oracle::ownership::acknowledged;
use super::tally;
use super::tally::ClusterFault;
use crate::oracle::Finding;
use crate::planted::clusters::ClusterBug;
use crate::runtime::executor::{TaskId, TaskOwner};

/// A deadline beyond every deadline of a client. Only a planted bug uses it.
const FORGOTTEN: Duration = Duration::from_secs(3_600);

/// What a call is meant to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Add one to a counter.
    Add(Arc<str>),
    /// Read a counter, of which so much had been acknowledged.
    Read(Arc<str>, u64),
    /// Nothing that must be answered.
    Nothing,
}

/// A call under way.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) number: u64,
    pub(super) process: usize,
    pub(super) meaning: Meaning,
    due_us: u64,
}

/// What a client wants.
struct PlannedCall {
    meaning: Meaning,
    target: String,
    method: &'static str,
    argument: String,
}

impl Director {
    /// Some client calls something.
    pub(super) fn client_act(&mut self) {
        let Some(entry) = self.entry() else { return };
        if !self.settings.is_calm && !self.healed && self.rng.chance(25) {
            return self.odd_call(entry);
        }
        let planned = self.planned();
        self.send(entry, planned);
    }

    /// A process that calls can be made through: mostly a gate.
    fn entry(&mut self) -> Option<usize> {
        let wants_gate = self.rng.chance(850);
        let is_entry = |(process, running): (usize, &Running)| match running {
            Running::Gate(_) if wants_gate => Some(process),
            Running::Node(_) if !wants_gate => Some(process),
            _ => None,
        };
        let all = self.processes.iter().map(|process| &process.running).enumerate();
        let mut entries: Vec<usize> = all.filter_map(is_entry).collect();
        // A node that is about to go takes no new calls of clients.
        entries.retain(|entry| {
            let state = self.processes.get(*entry);
            state.is_some_and(|state| !state.paused && !state.draining)
        });
        self.rng.pick(&entries).copied()
    }

    fn shard_number(&mut self) -> u64 {
        self.rng.below(self.settings.options.config.sharding.num_shards.get().into())
    }

    /// The name of some counter: by its hash, or in a shard that it names.
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
            0..45 => PlannedCall { meaning: add, target, method: "add", argument: String::new() },
            45..70 => {
                let meaning = Meaning::Read(name, acknowledged);
                PlannedCall { meaning, target, method: "get", argument: String::new() }
            }
            70..85 => {
                let argument = self.rng.between(500, 120_000).to_string();
                PlannedCall { meaning: add, target, method: "dawdle", argument }
            }
            _ => {
                // Mostly to another counter of the same shard.
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

    fn patience(&mut self) -> Duration {
        let is_patient = self.settings.is_calm || self.healed;
        let ms = if is_patient { 4_000 } else { self.rng.between(100, 2_500) };
        Duration::from_millis(ms)
    }

    fn send(&mut self, entry: usize, planned: PlannedCall) {
        let Ok(id) = ObjectId::parse(&planned.target) else { return };
        let number = self.next_call + 1;
        let (target, timeout) = (ObjectKey::new(COUNTER, id), self.patience());
        let call = Call::new(target, planned.method, payload(number, &planned.argument), timeout);
        self.call(entry, call, planned.meaning);
    }

    /// Calls that cannot be answered, or must not be.
    fn odd_call(&mut self, entry: usize) {
        let timeout = self.patience();
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
            3 => "nothing",
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
        self.call(entry, call, Meaning::Nothing);
    }

    /// Makes a call through a process.
    pub(super) fn call(&mut self, entry: usize, call: Call, meaning: Meaning) -> Option<TaskId> {
        let running = self.processes.get(entry)?.running.clone();
        self.next_call += 1;
        let (number, words, clock) = (self.next_call, self.words.clone(), self.clock.clone());
        let (target, method) = (call.target.id.as_str().to_owned(), Arc::clone(&call.method));
        self.note(format_args!("call {number} {method} of {target} through {entry}"));
        let due_us = self.clock.now_us() + super::wire::micros(call.timeout);
        let mut call = call;
        if self.bug == Some(ClusterBug::DeadlineForgotten) {
            call.timeout = FORGOTTEN;
        }
        let task = self.clock.spawn(TaskOwner::Process(entry), async move {
            let answer = match running {
                Running::Gate(gate) => gate.call(call).await,
                Running::Node(node) => node.call(call).await,
                Running::Nothing => Err(CallError::NotServing),
            };
            if let Some(task) = clock.current() {
                tell(&words, Word::Answered { task, answer });
            }
        });
        self.calls.insert(task, Ask { number, process: entry, meaning, due_us });
        Some(task)
    }

    /// Judges an answer.
    pub(super) fn answered(
        &mut self,
        task: TaskId,
        answer: Result<Bytes, CallError>,
    ) -> Result<(), Finding> {
        let Some(ask) = self.calls.remove(&task) else { return Ok(()) };
        let outcome = tally::outcome(&answer);
        *self.tally.calls.entry(outcome).or_default() += 1;
        self.note(format_args!("call {} {outcome}", ask.number));
        let due_us = self.due_us(&ask);
        judge_deadline(ask.number, self.clock.now_us(), due_us)?;
        if let Err(error) = &answer
            && ask.meaning != Meaning::Nothing
        {
            let (number, why) = (ask.number, error.to_string());
            if self.settings.is_calm {
                return Err(failed_in_calm(number, &why));
            }
            if self.resting {
                return Err(broken(REST, format!("call {number} failed: {why}")));
            }
        }
        if answer.is_ok() && self.lost_calls.contains(&ask.number) {
            return Err(acknowledged(ask.number));
        }
        match (&ask.meaning, &answer) {
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

    /// When a call must have been answered. A process that stands still does so later.
    fn due_us(&self, ask: &Ask) -> u64 {
        let state = self.processes.get(ask.process);
        ask.due_us.max(state.map_or(0, |state| state.resumed_us))
    }

    fn count(&mut self, counter: &Arc<str>, is_acknowledged: bool) {
        let counted = self.counted.entry(Arc::clone(counter)).or_default();
        if is_acknowledged {
            counted.0 += 1;
        } else {
            counted.1 += 1;
        }
    }

    /// Nobody waits for a call any more, and nobody knows what became of it.
    pub(super) fn give_up(&mut self, task: TaskId) {
        let Some(ask) = self.calls.remove(&task) else { return };
        *self.tally.calls.entry("abandoned").or_default() += 1;
        self.note(format_args!("call {} abandoned", ask.number));
        if let Meaning::Add(counter) = &ask.meaning {
            self.count(counter, false);
        }
    }

    /// A caller goes away in the middle of a call.
    pub(super) fn abandon(&mut self) {
        let open: Vec<TaskId> = self.calls.keys().copied().collect();
        let Some(task) = self.rng.pick(&open).copied() else { return };
        self.wires.lock().fault(ClusterFault::CallerGone);
        self.executor.end(task);
        self.give_up(task);
    }

    /// Whether any call is late.
    pub(super) fn check_timely(&self) -> Result<(), Finding> {
        let now_us = self.clock.now_us();
        for ask in self.calls.values() {
            let is_paused = self.processes.get(ask.process).is_some_and(|state| state.paused);
            if !is_paused {
                judge_deadline(ask.number, now_us, self.due_us(ask))?;
            }
        }
        Ok(())
    }
}
