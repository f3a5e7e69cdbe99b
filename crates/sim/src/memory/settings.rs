//! The settings of a world, drawn from the seed.

use shardwright_contracts::FenceEpoch;
use shardwright_coordination::CoordinatorRuntimeConfig;

use crate::fault::Fault;
use crate::rng::Rng;

/// The interface through which the reference is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The typed methods of the sync traits, with the time as an argument.
    Typed,
    /// Sessions of workers on top of them.
    Session,
    /// The async trait, with a clock of its own.
    Async,
}

/// The settings of one world.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of workers of each tenant.
    pub workers: Vec<usize>,
    /// Number of runs that a tenant works on at a time.
    pub open_runs: usize,
    /// Limits of the backend.
    pub runtime: CoordinatorRuntimeConfig,
    /// The interface through which the reference is called.
    pub interface: Interface,
    /// The scarce resource, if some runs cannot be finished.
    pub scarce: Option<Fault>,
}

impl Settings {
    /// Draws the settings of a world.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let tenants = if rng.chance(800) { 2 } else { 1 };
        let scarce = rng.weighted(&[
            (880, None),
            (45, Some(Fault::BytesScarce)),
            (45, Some(Fault::ShardsScarce)),
            (30, Some(Fault::FencesScarce)),
        ]);
        let scarce = scarce.flatten();
        let (per_tenant, total) = match scarce {
            Some(Fault::ShardsScarce) => (rng.between(15, 40), rng.between(20, 60)),
            _ => (170, 180),
        };
        let slab_capacity = match scarce {
            Some(Fault::BytesScarce) => rng.between(500, 2_500),
            _ => 128 << 10,
        };
        let floor = match scarce {
            Some(Fault::FencesScarce) => u64::MAX - rng.between(2, 9),
            _ if rng.chance(200) => 1 << 32,
            _ => 1,
        };
        let runtime = CoordinatorRuntimeConfig {
            max_shards_per_tenant: per_tenant as usize,
            max_total_shards: total as usize,
            max_total_runs: usize::MAX,
            claim_cooldown_interval_ms: if rng.chance(500) { rng.between(5, 40) } else { 0 },
            slab_capacity: slab_capacity as u32,
            fence_floor: FenceEpoch::from_raw(floor).unwrap_or(FenceEpoch::INITIAL),
        };
        let workers = (0..tenants).map(|_| rng.between(3, 5) as usize).collect();
        let interfaces =
            [(600, Interface::Typed), (200, Interface::Session), (200, Interface::Async)];
        let interface = rng.weighted(&interfaces).unwrap_or(Interface::Typed);
        Self { workers, open_runs: rng.between(1, 2) as usize, runtime, interface, scarce }
    }
}
