//! Acts around the reference: workers, operators, the clock and the fences.

use shardwright_contracts::FenceEpoch;
use shardwright_coordination::RunStatus;

use super::MemoryDirector;
use crate::director::{Director, Findings};
use crate::fault::Fault;

/// Has a worker act that can, or the operator if none can.
pub(super) fn worker_act(director: &mut MemoryDirector) {
    let tenant = director.rng.index(director.tenants.len());
    let now_ms = director.clock.now_ms();
    let Some(world) = director.tenants.get(tenant) else { return };
    let runs = director.subject.model.tenants.get(&world.id).map(|tenant_model| &tenant_model.runs);
    let has_work =
        runs.is_some_and(|runs| runs.values().any(|run| run.status == RunStatus::Active));
    let able: Vec<usize> = (0..world.workers.len())
        .filter(|index| director.is_up(director.home(tenant, *index)))
        .filter(|index| {
            let pending = world.workers.get(*index).and_then(|worker| worker.pending.as_ref());
            pending.is_none_or(|pending| pending.id == 0 && pending.retry_at <= now_ms)
        })
        .collect();
    match director.rng.pick(&able).copied() {
        Some(worker) if has_work => director.work(tenant, worker),
        _ => director.operate(tenant),
    }
}

pub(super) fn operator_act(director: &mut MemoryDirector) {
    let tenant = director.rng.index(director.tenants.len());
    director.operate(tenant);
}

/// Has a worker act exactly at the deadline of a lease.
pub(super) fn deadline_act(director: &mut MemoryDirector) -> Result<(), Findings> {
    let tenant = director.rng.index(director.tenants.len());
    let now_ms = director.clock.now_ms();
    let Some(world) = director.tenants.get(tenant) else { return Ok(()) };
    let deadlines: Vec<(u64, usize)> = world
        .workers
        .iter()
        .enumerate()
        .filter(|(_, worker)| worker.pending.is_none())
        .flat_map(|(index, worker)| {
            worker.held.iter().map(move |held| (held.lease.deadline().as_millis(), index))
        })
        .filter(|(deadline, _)| (now_ms..now_ms + 1_000).contains(deadline))
        .collect();
    let Some(&(deadline_ms, worker)) = director.rng.pick(&deadlines) else {
        worker_act(director);
        return Ok(());
    };
    director.next_act_us = deadline_ms * 1_000;
    director.run_until_act()?;
    director.tally.counts.fault(Fault::DeadlineHit);
    director.work(tenant, worker);
    Ok(())
}

pub(super) fn jump(director: &mut MemoryDirector) {
    let by_ms = director.rng.between(150, 1_500);
    director.executor.advance_to(director.clock.now_us() + by_ms * 1_000);
    director.tally.counts.fault(Fault::ClockJumped);
    director.note(format_args!("the clock jumps"));
}

/// Simulates a restored backup, which makes all fences below some number stale. The requests that
/// follow judge the effect.
pub(super) fn raise_floor(director: &mut MemoryDirector) {
    let Director { subject, rng, .. } = director;
    if subject.scarce == Some(Fault::FencesScarce) {
        return;
    }
    let runs = subject.model.tenants.values().flat_map(|tenant| tenant.runs.values());
    let fences = runs.flat_map(|run| run.shards.values()).map(|shard| shard.fence);
    let floor = match rng.chance(700) {
        true => fences.max().unwrap_or_default().saturating_add(rng.between(1, 1 << 20)),
        false => {
            let fences: Vec<u64> = fences.collect();
            rng.pick(&fences).map_or(1, |fence| fence.saturating_add(1))
        }
    };
    let Ok(fence) = FenceEpoch::from_raw(floor) else { return };
    subject.server.raise_floor(fence);
    subject.model.raise_floor(floor);
    let clock_ms = subject.clock.now_ms();
    for (address, view) in &mut subject.views {
        if let Some(seen) = subject.server.view_run(clock_ms, *address) {
            *view = seen;
        }
    }
    director.tally.counts.fault(Fault::FloorRaised);
    director.note(format_args!("the fence floor rises to {floor}"));
}
