//! The steps: what each action makes of the world, judged and witnessed.

use std::sync::Arc;

use shardwright_contracts::FenceEpoch;

use crate::action::{Action, Probe, actions};
use crate::bounds::Bounds;
use crate::defect::Defect;
use crate::executor::{Answer, Call, Executor, Operation, Outcome};
use crate::judge::Case;
use crate::operator::operate;
use crate::property::{Rules, Sight, Sights};
use crate::request::{Ask, Effect, Memory, Request, Wording};
use crate::world::{STRANGER, Shard, TENANT, World};

/// A world to explore.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// How big it is.
    pub bounds: Bounds,
    /// The rule that is missing, if one is.
    pub defect: Option<Defect>,
}

/// What an action did.
#[derive(Debug)]
pub struct Step {
    /// The world after it, if it is another one.
    pub after: Option<World>,
    /// The rules that it broke.
    pub broken: Rules,
    /// What it showed.
    pub sights: Sights,
}

impl Step {
    fn quiet(after: World) -> Self {
        Self { after: Some(after), broken: Rules::default(), sights: Sights::default() }
    }
}

/// How a request comes, and what it has effected before.
struct Delivery {
    wording: Wording,
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

    /// The world before anything happens.
    #[must_use]
    pub fn start(&self) -> Option<World> {
        World::new(&self.bounds)
    }

    /// Everything that can happen in `world`.
    pub fn actions(&self, world: &World, into: &mut Vec<Action>) {
        actions(&self.bounds, world, into);
    }

    /// What `action` does to `world`.
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
            Action::Send { worker, shard, ask } => {
                let operation = Operation::Ask(ask, world.fresh_op());
                self.call(world, worker, shard, operation)
            }
            Action::Post { worker, shard, ask } => Step::quiet(post(world, worker, shard, ask)),
            Action::Deliver { slot, wording } => self.deliver(world, slot, wording),
            Action::GiveUp { slot } => {
                let mut after = world.clone();
                after.requests.pop_at(usize::from(slot));
                Step::quiet(after)
            }
            Action::Probe { worker, shard, ask, probe } => {
                let operation =
                    ask.map_or(Operation::Renew, |ask| Operation::Ask(ask, world.fresh_op()));
                self.probe(world, worker, shard, operation, probe)
            }
            Action::Operate(change) => operate(self.defect, world, change),
        }
    }

    fn call(&self, world: &World, worker: u8, shard: u8, operation: Operation) -> Step {
        let fence = world.held(worker, shard);
        let call = Call { tenant: TENANT, worker, shard, fence, operation };
        let delivery = Delivery { wording: Wording::Meant, memory: Memory::default() };
        self.handle(world, &call, &delivery)
    }

    fn deliver(&self, world: &World, slot: u8, wording: Wording) -> Step {
        let nothing = Step { after: None, broken: Rules::default(), sights: Sights::default() };
        let Some(request) = world.requests.get(usize::from(slot)) else { return nothing };
        let ask = match wording {
            Wording::Meant => request.ask,
            Wording::Misused => request.ask.misused().unwrap_or(request.ask),
        };
        let Request { worker, op, shard, fence, memory, .. } = *request;
        let call =
            Call { tenant: TENANT, worker, shard, fence, operation: Operation::Ask(ask, op) };
        self.handle(world, &call, &Delivery { wording, memory })
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
            Probe::Stranger => (STRANGER, present),
            Probe::Forger | Probe::Keyless => (TENANT, present),
            Probe::Zombie => (TENANT, present.and_then(before)),
        };
        let call = Call { tenant, worker, shard, fence, operation };
        let delivery = Delivery { wording: Wording::Meant, memory: Memory::default() };
        self.handle(world, &call, &delivery)
    }

    fn handle(&self, world: &World, call: &Call, delivery: &Delivery) -> Step {
        let nothing = Step { after: None, broken: Rules::default(), sights: Sights::default() };
        let Some(shard) = world.shard(call.shard) else { return nothing };
        let room = usize::from(self.bounds.shards).saturating_sub(world.shards.len());
        let executor = Executor { world, defect: self.defect, room };
        let Outcome { answer, changed, spawned } = executor.handle(call, shard);
        let touched = changed.is_some();
        let mut sights = Sights::default();
        let after = changed.map(|record| {
            let granted = match &answer {
                Answer::Granted(lease) => Some(lease.owner()),
                _ if record.head.fence != shard.record.head.fence => None,
                _ => shard.granted,
            };
            let mut after = world.clone();
            if let Some(place) = after.shards.get_mut(usize::from(call.shard)) {
                *place = Arc::new(Shard { record, granted });
            }
            after.shards.extend(spawned.into_iter().map(Arc::new));
            note(&mut after, call, &answer, delivery, &mut sights);
            after
        });
        let owed = match call.operation {
            Operation::Ask(ask, _) => delivery.memory.owes(ask, delivery.wording),
            Operation::Acquire | Operation::Renew => None,
        };
        let case =
            Case { call, answer: &answer, before: world, after: after.as_ref(), owed, touched };
        let broken = case.broken();
        sights.extend(case.sights());
        if delivery.memory.is_evicted() {
            sights.extend(case.sights_after_eviction());
        }
        Step { after, broken, sights }
    }
}

/// What the model itself keeps of an accepted call.
fn note(after: &mut World, call: &Call, answer: &Answer, from: &Delivery, sights: &mut Sights) {
    let (Operation::Ask(ask, op), Answer::Executed) = (call.operation, answer) else { return };
    after.next_op = after.next_op.max(op.as_raw() + 1);
    let requests = after.requests.iter_mut();
    for request in requests.filter(|request| request.shard == call.shard) {
        let memory = &mut request.memory;
        if request.op == op {
            memory.effect = Some(Effect { since: 0, wording: from.wording });
            if ask.is_residual() {
                memory.residual = Some(from.wording);
            }
        } else {
            let was_known = !memory.is_evicted();
            memory.age();
            sights.insert_if(was_known && memory.is_evicted(), Sight::Evicted);
        }
    }
}

fn post(world: &World, worker: u8, shard: u8, ask: Ask) -> World {
    let mut after = world.clone();
    let op = after.fresh_op();
    after.next_op += 1;
    let fence = world.held(worker, shard).filter(|_| ask != Ask::Unpark);
    after.requests.push(Request { worker, op, shard, fence, ask, memory: Memory::default() });
    after
}
