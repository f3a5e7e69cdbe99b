//! The world: a clock, a network, actors with beliefs, and the system in their midst.
//!
//! One thread, one stream of chance, no map whose order could differ: the same seed gives the same
//! bytes. A world lives through two phases. In *chaos* everything goes wrong that can; then it
//! *heals*, and everything must come to an end.

pub(crate) mod belief;
mod chaos;
mod deliver;
pub(crate) mod heal;
pub(crate) mod intent;
pub(crate) mod mischief;
pub(crate) mod operator;
mod settings;
pub(crate) mod work;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use shardwright_contracts::{RunId, TenantId, WorkerId};
use shardwright_coordination::{AcquireScratch, InMemoryCoordinator, ShardLimits};

use crate::model::{Model, TenantModel};
use crate::network::Network;
use crate::oracle::{ASSERTIONS, Finding};
use crate::planted::protocol::{ProtocolBug, configured};
use crate::planted::protocol_doctor::ProtocolDoctor;
use crate::rng::Rng;
use crate::system::System;
use crate::system::awaited::Awaited;
use crate::tally::Tally;
use crate::trace::Trace;
use crate::visible::RunView;

use belief::{Operator, Worker};
pub use settings::{Door, Settings};

struct TenantWorld {
    id: TenantId,
    tag: u8,
    workers: Vec<Worker>,
    operator: Operator,
    next_run: u64,
    /// Whether nothing more can be registered.
    full: bool,
}

/// A world around one system.
pub struct World<S> {
    system: S,
    settings: Settings,
    rng: Rng,
    clock: u64,
    model: Model,
    views: BTreeMap<(TenantId, RunId), RunView>,
    last_run: Option<(TenantId, RunId)>,
    network: Network,
    tenants: Vec<TenantWorld>,
    scratch: AcquireScratch,
    next_op: u64,
    next_message: u64,
    healed: bool,
    trace: Trace,
    tally: Tally,
    doctor: Option<ProtocolDoctor>,
}

/// What a world that came to its end leaves behind.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was found to be false; nothing, if all is well.
    pub findings: Vec<Finding>,
    /// What happened, counted.
    pub tally: Tally,
    /// What happened, told.
    pub trace: Trace,
}

/// Lives through `steps` of chaos over the in-memory backend, then healing.
///
/// Where shards or bytes are scarce a world may come to its end before: nothing more fits in, and
/// every run has ended. Then it heals, and another one takes over.
#[must_use]
pub fn live(seed: u64, steps: u64, keep_trace: bool) -> Report {
    live_with(seed, steps, keep_trace, None)
}

/// Lives through a world in which a bug is planted.
#[must_use]
pub fn live_with(seed: u64, steps: u64, keep_trace: bool, bug: Option<ProtocolBug>) -> Report {
    let mut report = live_once(Rng::new(seed), steps, Trace::new(keep_trace), bug);
    for successor in 1.. {
        let left = steps.saturating_sub(report.tally.chaos_steps);
        if left == 0 || !report.findings.is_empty() {
            break;
        }
        // No seed of a sweep is as large.
        let rng = Rng::new(seed.wrapping_add(successor << 32));
        let next = live_once(rng, left, report.trace, bug);
        report.tally.add(&next.tally);
        report = Report { tally: Tally { seeds: 1, ..report.tally }, ..next };
    }
    report
}

fn live_once(mut rng: Rng, steps: u64, trace: Trace, bug: Option<ProtocolBug>) -> Report {
    let mut settings = Settings::draw(&mut rng);
    let used = configured(bug, &mut settings);
    match InMemoryCoordinator::try_new(used.runtime) {
        Ok(mut system) => {
            system.collect_events();
            match settings.door {
                Door::Plain | Door::Session => {
                    World::new(system, settings, rng, trace).with_bug(bug).live(steps)
                }
                Door::Awaited => {
                    let system = Awaited::new(system);
                    World::new(system, settings, rng, trace).with_bug(bug).live(steps)
                }
            }
        }
        Err(error) => {
            let finding = Finding { oracle: "setup", text: error.to_string() };
            Report { findings: vec![finding], tally: Tally::default(), trace }
        }
    }
}

impl<S: System> World<S> {
    /// Puts actors around a system that is configured as `settings` say and tells its events.
    pub fn new(system: S, settings: Settings, rng: Rng, trace: Trace) -> Self {
        let mut tally = Tally { seeds: 1, ..Tally::default() };
        settings.scarce.into_iter().for_each(|fault| tally.fault(fault));
        let tenants: Vec<TenantWorld> = settings
            .workers
            .iter()
            .zip(0..)
            .map(|(workers, index)| tenant(index, *workers))
            .collect();
        let accounts = tenants.iter().map(|tenant| (tenant.id, account(tenant)));
        let (per_tenant, total) =
            (settings.runtime.max_shards_per_tenant, settings.runtime.max_total_shards);
        Self {
            system,
            rng,
            clock: 1_000,
            model: Model {
                tenants: accounts.collect(),
                limits: ShardLimits { per_tenant, total },
                cooldown_ms: settings.runtime.claim_cooldown_interval_ms,
                skew_ms: 0,
                floor: settings.runtime.fence_floor.as_raw(),
                bytes_capacity: Some(settings.runtime.slab_capacity as usize),
            },
            settings,
            views: BTreeMap::new(),
            last_run: None,
            network: Network::default(),
            tenants,
            scratch: AcquireScratch::new(),
            next_op: 0,
            next_message: 0,
            healed: false,
            trace,
            tally,
            doctor: None,
        }
    }

    /// The same world with a bug around its system.
    fn with_bug(self, bug: Option<ProtocolBug>) -> Self {
        let floor = self.model.floor;
        Self { doctor: bug.map(|bug| ProtocolDoctor::new(bug, floor)), ..self }
    }

    /// Lives through chaos and healing.
    #[must_use]
    pub fn live(mut self, steps: u64) -> Report {
        // What is caught here ends the world, so that nobody sees what the panic left half done.
        let lived = catch_unwind(AssertUnwindSafe(|| self.chaos(steps).and_then(|()| self.heal())));
        let findings = match lived {
            Ok(result) => result.err().unwrap_or_default(),
            Err(payload) => vec![Finding { oracle: ASSERTIONS.name, text: message(&*payload) }],
        };
        for finding in &findings {
            self.trace.line(format_args!("VIOLATION of {}: {}", finding.oracle, finding.text));
        }
        self.tally.simulated_ms = self.clock;
        let runs = self.model.tenants.values().flat_map(|tenant| tenant.runs.values());
        self.tally.runs = runs.filter(|run| run.status.is_terminal()).count() as u64;
        Report { findings, tally: self.tally, trace: self.trace }
    }
}

pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic").into()
}

fn tenant(index: u8, workers: usize) -> TenantWorld {
    // Both tenants have the same worker and run ids, so that only the tenant tells them apart.
    let workers = (0..workers as u64).map(|raw| Worker::new(WorkerId::from_raw(raw + 1))).collect();
    TenantWorld {
        id: TenantId::from_bytes([index + 1; TenantId::SIZE]),
        tag: b'A' + index,
        workers,
        operator: Operator::default(),
        next_run: u64::from(index),
        full: false,
    }
}

fn account(tenant: &TenantWorld) -> TenantModel {
    TenantModel {
        tag: tenant.tag,
        workers: tenant.workers.len() as u32,
        runs: BTreeMap::new(),
        cooldowns: BTreeMap::new(),
    }
}
