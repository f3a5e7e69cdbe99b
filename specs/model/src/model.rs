//! Execution of actions. Each step is judged, and its situations are collected.

use std::sync::Arc;

use shardwright_contracts::FenceEpoch;

use crate::action::{Action, Probe, actions};
use crate::bounds::Bounds;
use crate::defect::Defect;
use crate::executor::{Answer, Call, Executor, Operation, Outcome};
use crate::judge::Case;
use crate::operator::operate;
use crate::property::{Rules, Situation, Situations};
use crate::request::{Command, Effect, Memory, Payload, Request};
use crate::world::{OTHER_TENANT, Shard, TENANT, World};

/// A world to explore.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Its size.
    pub bounds: Bounds,
    /// The planted defect, if there is one.
    pub defect: Option<Defect>,
}

/// The result of an action.
#[derive(Debug)]
pub struct Step {
    /// The world after it, if it changed.
    pub after: Option<World>,
    /// The rules that it broke.
    pub broken: Rules,
    /// The situations that occurred.
    pub situations: Situations,
}

impl Step {
    fn quiet(after: World) -> Self {
        Self { after: Some(after), broken: Rules::default(), situations: Situations::default() }
    }
}

/// Which payload a request carries, and its effects so far.
struct Delivery {
    payload: Payload,
    memory: Memory,
}

impl Model {
    /// A model of the protocol as it is.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self { bounds, defect: None }
    }

    /// A model of the protocol without one of its rules.
    #[must_use]
    pub const fn with_defect(bounds: Bounds, defect: Defect) -> Self {
        Self { bounds, defect: Some(defect) }
    }

    /// The initial world.
    #[must_use]
    pub fn start(&self) -> Option<World> {
        World::new(&self.bounds)
    }

    /// Collects the possible steps in `world`.
    pub fn actions(&self, world: &World, into: &mut Vec<Action>) {
        actions(&self.bounds, world, into);
    }

    /// Executes `action` in `world`.
    #[must_use]
    pub fn step(&self, world: &World, action: Action) -> Step {
        match action {
            Action::Tick => {
                let now = world.now.saturating_add(1);
                Step::quiet(World { now, ..world.clone() })
            }
            Action::Acquire { worker, shard } => {
                self.call(world, worker, shard, Operation::Acquire)
            }
            Action::Renew { worker, shard } => self.call(world, worker, shard, Operation::Renew),
            Action::Send { worker, shard, command } => {
                let operation = Operation::Command(command, world.fresh_op());
                self.call(world, worker, shard, operation)
            }
            Action::Post { worker, shard, command } => {
                Step::quiet(post(world, worker, shard, command))
            }
            Action::Deliver { slot, payload } => self.deliver(world, slot, payload),
            Action::Lose { slot } => {
                let mut after = world.clone();
                after.requests.pop_at(usize::from(slot));
                Step::quiet(after)
            }
            Action::Probe { worker, shard, command, probe } => {
                let operation = command.map_or(Operation::Renew, |command| {
                    Operation::Command(command, world.fresh_op())
                });
                self.probe(world, worker, shard, operation, probe)
            }
            Action::Operate(change) => operate(self.defect, world, change),
        }
    }

    fn call(&self, world: &World, worker: u8, shard: u8, operation: Operation) -> Step {
        let fence = world.held(worker, shard);
        let call = Call { tenant: TENANT, worker, shard, fence, operation };
        let delivery = Delivery { payload: Payload::Original, memory: Memory::default() };
        self.handle(world, &call, &delivery)
    }

    fn deliver(&self, world: &World, slot: u8, payload: Payload) -> Step {
        let nothing =
            Step { after: None, broken: Rules::default(), situations: Situations::default() };
        let Some(request) = world.requests.get(usize::from(slot)) else { return nothing };
        let command = match payload {
            Payload::Original => request.command,
            Payload::Altered => request.command.altered().unwrap_or(request.command),
        };
        let Request { worker, op, shard, fence, memory, .. } = *request;
        let call = Call {
            tenant: TENANT,
            worker,
            shard,
            fence,
            operation: Operation::Command(command, op),
        };
        self.handle(world, &call, &Delivery { payload, memory })
    }

    fn probe(
        &self,
        world: &World,
        worker: u8,
        shard: u8,
        operation: Operation,
        probe: Probe,
    ) -> Step {
        let present = world.shard(shard).map(|shard| shard.record.head.fence);
        let before = |fence: FenceEpoch| FenceEpoch::from_raw(fence.as_raw() - 1).ok();
        let (tenant, fence) = match probe {
            Probe::OtherTenant => (OTHER_TENANT, present),
            Probe::Forger | Probe::Keyless => (TENANT, present),
            Probe::Zombie => (TENANT, present.and_then(before)),
        };
        let call = Call { tenant, worker, shard, fence, operation };
        let delivery = Delivery { payload: Payload::Original, memory: Memory::default() };
        self.handle(world, &call, &delivery)
    }

    fn handle(&self, world: &World, call: &Call, delivery: &Delivery) -> Step {
        let nothing =
            Step { after: None, broken: Rules::default(), situations: Situations::default() };
        let Some(shard) = world.shard(call.shard) else { return nothing };
        let room = usize::from(self.bounds.shards).saturating_sub(world.shards.len());
        let executor = Executor { world, defect: self.defect, room };
        let Outcome { answer, changed, spawned } = executor.handle(call, shard);
        let touched = changed.is_some();
        let mut situations = Situations::default();
        let after = changed.map(|record| {
            let granted = match &answer {
                Answer::Granted(lease) => Some(lease.owner()),
                _ if record.head.fence != shard.record.head.fence => None,
                _ => shard.granted,
            };
            let mut after = world.clone();
            if let Some(entry) = after.shards.get_mut(usize::from(call.shard)) {
                *entry = Arc::new(Shard { record, granted });
            }
            after.shards.extend(spawned.into_iter().map(Arc::new));
            note(&mut after, call, &answer, delivery, &mut situations);
            after
        });
        let expected = match call.operation {
            Operation::Command(command, _) => {
                delivery.memory.expected_answer(command, delivery.payload)
            }
            Operation::Acquire | Operation::Renew => None,
        };
        let case =
            Case { call, answer: &answer, before: world, after: after.as_ref(), expected, touched };
        let broken = case.broken();
        situations.extend(case.situations());
        if delivery.memory.is_evicted() {
            situations.extend(case.situations_after_eviction());
        }
        Step { after, broken, situations }
    }
}

/// Records an accepted call in the model's own notes.
fn note(
    after: &mut World,
    call: &Call,
    answer: &Answer,
    from: &Delivery,
    situations: &mut Situations,
) {
    let (Operation::Command(command, op), Answer::Executed) = (call.operation, answer) else {
        return;
    };
    after.next_op = after.next_op.max(op.as_raw() + 1);
    let requests = after.requests.iter_mut();
    for request in requests.filter(|request| request.shard == call.shard) {
        let memory = &mut request.memory;
        if request.op == op {
            memory.effect = Some(Effect { since: 0, payload: from.payload });
            if command.is_residual() {
                memory.residual = Some(from.payload);
            }
        } else {
            let was_known = !memory.is_evicted();
            memory.age();
            situations.insert_if(was_known && memory.is_evicted(), Situation::Evicted);
        }
    }
}

fn post(world: &World, worker: u8, shard: u8, command: Command) -> World {
    let mut after = world.clone();
    let op = after.fresh_op();
    after.next_op += 1;
    let fence = world.held(worker, shard).filter(|_| command != Command::Unpark);
    after.requests.push(Request { worker, op, shard, fence, command, memory: Memory::default() });
    after
}
