//! The possible next steps.

use shardwright_contracts::FenceEpoch;
use shardwright_coordination::ShardStatus;

use crate::bounds::Bounds;
use crate::request::{Command, Payload, Plan};
use crate::world::{Shard, World, worker_id};

/// A step. Workers, shards and requests are identified by their index in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named after what they index")]
pub enum Action {
    /// Time passes.
    Tick,
    /// A worker acquires a shard.
    Acquire { worker: u8, shard: u8 },
    /// A worker renews the lease of a shard that it believes to hold.
    Renew { worker: u8, shard: u8 },
    /// A worker sends a request, which arrives at once and only once.
    Send { worker: u8, shard: u8, command: Command },
    /// A worker sends a request, which may arrive at any time and any number of times.
    Post { worker: u8, shard: u8, command: Command },
    /// A request in flight arrives: in time, late, or again.
    Deliver { slot: u8, payload: Payload },
    /// A request in flight is lost: it never arrives again.
    Lose { slot: u8 },
    /// A request that must be refused in every state.
    Probe { worker: u8, shard: u8, command: Option<Command>, probe: Probe },
    /// An operator changes the run.
    Operate(Change),
}

/// A renewal or an operation that must be refused in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Another tenant presents the holder's lease.
    OtherTenant,
    /// A worker presents a fence that was granted to another.
    Forger,
    /// The holder presents a fence older than the current one.
    Zombie,
    /// A checkpoint without a key.
    Keyless,
}

/// A change of the run by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Grant no new leases.
    Pause,
    /// Grant leases again.
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

/// Collects the possible steps in `world`.
pub(crate) fn actions(bounds: &Bounds, world: &World, actions: &mut Vec<Action>) {
    let running = !world.run.status.is_terminal();
    // Time matters only while a lease is live.
    if running && world.shards.iter().any(|shard| is_leased(world, shard)) {
        actions.push(Action::Tick);
    }
    actions.extend(Change::ALL.map(Action::Operate));
    for (shard, index) in world.shards.iter().zip(0..) {
        of_shard(bounds, world, (index, shard), actions);
    }
    for (request, slot) in world.requests.iter().zip(0..) {
        actions.push(Action::Deliver { slot, payload: Payload::Original });
        if bounds.misuse && request.command.altered().is_some() {
            actions.push(Action::Deliver { slot, payload: Payload::Altered });
        }
        if running {
            actions.push(Action::Lose { slot });
        }
    }
}

fn is_leased(world: &World, shard: &Shard) -> bool {
    shard.record.head.lease.is_some_and(|holder| !holder.is_expired(world.now))
}

fn of_shard(
    bounds: &Bounds,
    world: &World,
    (index, shard): (u8, &Shard),
    actions: &mut Vec<Action>,
) {
    for worker in 0..bounds.workers {
        actions.push(Action::Acquire { worker, shard: index });
    }
    let running = !world.run.status.is_terminal();
    let has_room = running && world.requests.len() < usize::from(bounds.requests);
    let shards_left = usize::from(bounds.shards).saturating_sub(world.shards.len());
    let mut send = |worker, command: Command| {
        actions.push(Action::Send { worker, shard: index, command });
        // Shards are never deleted, so a split that does not fit now never will.
        if has_room && command.spawns() <= shards_left {
            actions.push(Action::Post { worker, shard: index, command });
        }
    };
    send(0, Command::Unpark);
    let mut workers = 0..bounds.workers;
    let Some(holder) = workers.find(|worker| shard.granted == Some(worker_id(*worker))) else {
        return;
    };
    commands(bounds, shard, |command| send(holder, command));
    actions.push(Action::Renew { worker: holder, shard: index });
    // Every record is also reached without requests in flight, because requests can be lost.
    if running && world.requests.is_empty() && is_leased(world, shard) {
        probes(bounds, (index, shard), holder, actions);
    }
}

/// The requests that a shard's holder can send, given the shard's state.
fn commands(bounds: &Bounds, shard: &Shard, mut add: impl FnMut(Command)) {
    bounds.checkpoints.iter().for_each(|key| add(Command::Checkpoint(Some(*key))));
    add(Command::Complete(shard.cursor()));
    add(Command::Park);
    add(Command::Release);
    // The planner refuses to split a shard that is not active.
    if shard.record.head.status != ShardStatus::Active {
        return;
    }
    let ((start, end), cursor) = (shard.range(), shard.cursor());
    let first = cursor.map_or(start, |key| key.max(start)) + 1;
    for boundary in first..end {
        let plan = Plan { start, end, boundary, cursor };
        add(Command::Replace(plan));
        add(Command::Residual(plan));
    }
}

/// Requests that try to bypass the holder of a live lease. Other shards need no probes: there even
/// the holder's requests are refused, and those are sent anyway.
fn probes(bounds: &Bounds, (index, shard): (u8, &Shard), holder: u8, actions: &mut Vec<Action>) {
    let mut probe_with = |worker, command, probe| {
        actions.push(Action::Probe { worker, shard: index, command, probe });
    };
    probe_with(holder, Some(Command::Checkpoint(None)), Probe::Keyless);
    probe_with(holder, None, Probe::OtherTenant);
    let forger = (0..bounds.workers).find(|worker| *worker != holder);
    let may_be_old = shard.record.head.fence > FenceEpoch::INITIAL;
    let zombie = may_be_old.then_some(holder);
    for (worker, probe) in [(forger, Probe::Forger), (zombie, Probe::Zombie)] {
        let Some(worker) = worker else { continue };
        probe_with(worker, None, probe);
        // The guard refuses before it checks keys, so one key represents all.
        let mut seen_keys = 0;
        commands(bounds, shard, |command| {
            seen_keys += u8::from(matches!(command, Command::Checkpoint(_)));
            if seen_keys <= 1 || !matches!(command, Command::Checkpoint(_)) {
                probe_with(worker, Some(command), probe);
            }
        });
    }
}
