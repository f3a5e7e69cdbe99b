//! What can happen next.

use shardwright_contracts::FenceEpoch;
use shardwright_coordination::ShardStatus;

use crate::bounds::Bounds;
use crate::request::{Ask, Plan, Wording};
use crate::world::{Shard, World, worker_id};

/// Something that happens. Workers, shards and requests go by their place in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say whose, of which and what")]
pub enum Action {
    /// Time passes.
    Tick,
    /// A worker wants a shard.
    Acquire { worker: u8, shard: u8 },
    /// A worker wants to keep a shard that it believes to hold.
    Renew { worker: u8, shard: u8 },
    /// A worker sends a request, which arrives once and at once.
    Send { worker: u8, shard: u8, ask: Ask },
    /// A worker sends a request, which may arrive at any time and any number of times.
    Post { worker: u8, shard: u8, ask: Ask },
    /// A request that is under way arrives: in time, late, or again.
    Deliver { slot: u8, wording: Wording },
    /// Its worker gives a request up: it never arrives again.
    GiveUp { slot: u8 },
    /// Somebody tries what must be refused in every state.
    Probe { worker: u8, shard: u8, ask: Option<Ask>, probe: Probe },
    /// An operator changes the run.
    Operate(Change),
}

/// What must be refused in every state. It asks for a renewal or for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A foreign tenant shows the holder's own lease.
    Stranger,
    /// A worker shows a fence that was granted to another.
    Forger,
    /// The holder itself shows a fence from before the present one.
    Zombie,
    /// A checkpoint that names no key.
    Keyless,
}

/// What an operator does to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Hand out nothing new.
    Pause,
    /// Hand out shards again.
    Resume,
    /// End it as done.
    Complete,
    /// End it as failed.
    Fail,
    /// End it as cancelled.
    Cancel,
}

impl Change {
    const ALL: [Self; 5] = [Self::Pause, Self::Resume, Self::Complete, Self::Fail, Self::Cancel];
}

/// Everything that can happen in `world`.
pub(crate) fn actions(bounds: &Bounds, world: &World, actions: &mut Vec<Action>) {
    let running = !world.run.status.is_terminal();
    // Time matters as long as some lease is not over.
    if running && world.shards.iter().any(|shard| is_leased(world, shard)) {
        actions.push(Action::Tick);
    }
    actions.extend(Change::ALL.map(Action::Operate));
    for (shard, place) in world.shards.iter().zip(0..) {
        of_shard(bounds, world, (place, shard), actions);
    }
    for (request, slot) in world.requests.iter().zip(0..) {
        actions.push(Action::Deliver { slot, wording: Wording::Meant });
        if bounds.misuse && request.ask.misused().is_some() {
            actions.push(Action::Deliver { slot, wording: Wording::Misused });
        }
        if running {
            actions.push(Action::GiveUp { slot });
        }
    }
}

fn is_leased(world: &World, shard: &Shard) -> bool {
    shard.record.head.lease.is_some_and(|holder| !holder.is_expired(world.now))
}

fn of_shard(
    bounds: &Bounds,
    world: &World,
    (place, shard): (u8, &Shard),
    actions: &mut Vec<Action>,
) {
    for worker in 0..bounds.workers {
        actions.push(Action::Acquire { worker, shard: place });
    }
    let running = !world.run.status.is_terminal();
    let has_room = running && world.requests.len() < usize::from(bounds.requests);
    let shards_left = usize::from(bounds.shards).saturating_sub(world.shards.len());
    let mut ask = |worker, ask: Ask| {
        actions.push(Action::Send { worker, shard: place, ask });
        // Shards never go away, so what finds no room now will never find it.
        if has_room && ask.spawns() <= shards_left {
            actions.push(Action::Post { worker, shard: place, ask });
        }
    };
    ask(0, Ask::Unpark);
    let mut workers = 0..bounds.workers;
    let Some(holder) = workers.find(|worker| shard.granted == Some(worker_id(*worker))) else {
        return;
    };
    asks(bounds, shard, |what| ask(holder, what));
    actions.push(Action::Renew { worker: holder, shard: place });
    // Every record is also there with nothing under way, because requests can be given up.
    if running && world.requests.is_empty() && is_leased(world, shard) {
        probes(bounds, (place, shard), holder, actions);
    }
}

/// What the holder of a shard can ask for, given what the shard looks like now.
fn asks(bounds: &Bounds, shard: &Shard, mut ask: impl FnMut(Ask)) {
    bounds.checkpoints.iter().for_each(|key| ask(Ask::Checkpoint(Some(*key))));
    ask(Ask::Complete(shard.cursor()));
    ask(Ask::Park);
    ask(Ask::Release);
    // The planner itself refuses to cut a shard that is no more.
    if shard.record.head.status != ShardStatus::Active {
        return;
    }
    let ((start, end), cursor) = (shard.range(), shard.cursor());
    let first = cursor.map_or(start, |key| key.max(start)) + 1;
    for boundary in first..end {
        let plan = Plan { start, end, boundary, cursor };
        ask(Ask::Replace(plan));
        ask(Ask::Residual(plan));
    }
}

/// Tries to get past the holder of a live lease. Of a lease that is over, or of a shard that is no
/// more, not even the holder's own requests are accepted, and those are tried anyway.
fn probes(bounds: &Bounds, (place, shard): (u8, &Shard), holder: u8, actions: &mut Vec<Action>) {
    let mut try_out = |worker, ask, probe| {
        actions.push(Action::Probe { worker, shard: place, ask, probe });
    };
    try_out(holder, Some(Ask::Checkpoint(None)), Probe::Keyless);
    try_out(holder, None, Probe::Stranger);
    let forger = (0..bounds.workers).find(|worker| *worker != holder);
    let may_be_old = shard.record.head.fence > FenceEpoch::INITIAL;
    let zombie = may_be_old.then_some(holder);
    for (worker, probe) in [(forger, Probe::Forger), (zombie, Probe::Zombie)] {
        let Some(worker) = worker else { continue };
        try_out(worker, None, probe);
        // Nobody gets as far as the keys, so one of them will do.
        let mut seen_keys = 0;
        asks(bounds, shard, |ask| {
            seen_keys += u8::from(matches!(ask, Ask::Checkpoint(_)));
            if seen_keys <= 1 || !matches!(ask, Ask::Checkpoint(_)) {
                try_out(worker, Some(ask), probe);
            }
        });
    }
}
