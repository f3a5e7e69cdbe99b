//! The reference and the stored coordinator in one simulated environment.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::error::reason::Throttled;
use shardwright_coordination::operation::{
    Acquire, Claim, CollectClaimCandidates, GetRun, GetRunProgress, ListLabels, ListShards,
};
use shardwright_coordination::{
    Answer, CapacityHint, ClaimHint, CoordError, CoordinatorRuntimeConfig, EventKind,
    InMemoryCoordinator, Reply, Request, ShardFilter, ShardLimits, StateTransitionEvent,
    Synchronized,
};
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::keys::RunKeys;
use shardwright_runs::{Delivery, EngineConfig, EventStream, LeaseBinding, StoredCoordinator};
use shardwright_store::{AnyStore, SessionClock, Store};

use super::memory::Memory;
use super::op::{Op, perform};
use super::tally::Tally;
use crate::support::audit::audit;
use crate::support::world::World;

/// Settings that differ between sequences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    limits: ShardLimits,
    cooldown_ms: u64,
    is_bound: bool,
    /// Number of earlier restores from a backup.
    generation: u32,
    /// Whether two coordinators share the store.
    has_two: bool,
    /// Whether watches are followed only sometimes.
    is_lazy: bool,
}

impl Setting {
    /// A store with its own threads for watches cannot be shared: changes of one coordinator reach
    /// the other with a delay.
    pub(crate) fn draw(rng: &mut fastrand::Rng, may_share: bool) -> Self {
        let limits = match rng.u32(..3) {
            0 => ShardLimits { per_tenant: 7, total: 9 },
            1 => ShardLimits { per_tenant: 9, total: 9 },
            _ => ShardLimits { per_tenant: 200, total: 400 },
        };
        let has_two = rng.u32(..4) == 0 && may_share;
        Self {
            limits,
            cooldown_ms: if rng.u32(..5) == 0 && !has_two { 25 } else { 0 },
            is_bound: rng.bool(),
            generation: u32::from(rng.u32(..6) == 0),
            has_two,
            is_lazy: !has_two && rng.bool(),
        }
    }

    fn reference(&self) -> CoordinatorRuntimeConfig {
        let floor = FenceEpoch::from_raw(u64::from(self.generation) << 32);
        CoordinatorRuntimeConfig {
            max_shards_per_tenant: self.limits.per_tenant,
            max_total_shards: self.limits.total,
            // The reference acquires what the stored coordinator claims, which starts no cooldown.
            claim_cooldown_interval_ms: 0,
            slab_capacity: 128 << 10,
            fence_floor: floor.unwrap_or(FenceEpoch::INITIAL),
            ..CoordinatorRuntimeConfig::default()
        }
    }

    fn engine(&self) -> EngineConfig {
        let bound = LeaseBinding::Session { ttl: Duration::from_secs(3_600) };
        EngineConfig {
            limits: self.limits,
            claim_cooldown_interval_ms: self.cooldown_ms,
            // The reference has one clock: it allows for no skew, and its clock never starts ahead.
            // `behaviour::holders` compares lists, progress and hints with the default allowances.
            skew_allowance_ms: 0,
            sessions: if self.is_bound { bound } else { LeaseBinding::Deadline },
            clock_mark_interval_ms: 0,
            ..EngineConfig::default()
        }
    }
}

type Engine = StoredCoordinator;

/// Both coordinators, and the history.
pub(crate) struct Pair {
    setting: Setting,
    world: World,
    reference: Synchronized<InMemoryCoordinator, World>,
    engines: Vec<(Engine, EventStream)>,
    keys: RunKeys,
    pub(crate) memory: Memory,
    pub(crate) tally: Tally,
    /// When each worker may claim again.
    cooldowns: BTreeMap<(TenantId, WorkerId), LogicalTime>,
}

/// The two disagree.
#[derive(Debug)]
pub(crate) struct Mismatch {
    pub(crate) what: &'static str,
    pub(crate) reference: String,
    pub(crate) stored: String,
}

fn same<T: PartialEq + Debug>(
    what: &'static str,
    reference: &T,
    stored: &T,
) -> Result<(), Mismatch> {
    if reference == stored {
        return Ok(());
    }
    Err(Mismatch { what, reference: format!("{reference:#?}"), stored: format!("{stored:#?}") })
}

impl Pair {
    pub(crate) fn new<S: Store>(
        seed: u64,
        setting: Setting,
        make_store: impl FnOnce(Arc<dyn SessionClock>) -> S,
    ) -> Self {
        let world = World::new(seed);
        world.advance(1_000);
        let keys = Keyspace::new("differential/").unwrap();
        let store = AnyStore::new(make_store(Arc::new(world.clock().clone())));
        for _ in 0..setting.generation {
            let raised = Engine::raise_generation(store.clone(), &keys);
            world.block_on(raised).unwrap();
        }
        let engines = (0..1 + usize::from(setting.has_two))
            .map(|_| {
                let env = world.clone();
                let opened =
                    StoredCoordinator::open(store.clone(), env, keys.clone(), setting.engine());
                let engine = world.block_on(opened).unwrap();
                let stream = engine.subscribe();
                (engine, stream)
            })
            .collect();
        let mut reference = InMemoryCoordinator::try_new(setting.reference()).unwrap();
        reference.collect_events();
        let memory = Memory::new(world.now());
        Self {
            setting,
            reference: Synchronized::new(reference, world.clone()),
            world,
            engines,
            keys: RunKeys::new(keys),
            memory,
            tally: Tally::default(),
            cooldowns: BTreeMap::new(),
        }
    }

    /// Sends one step to both and compares the answers. The interleaving decides which of several
    /// coordinators gets it, and whether watches are followed before.
    pub(crate) fn step(&mut self, op: &Op, interleaving: u64) -> Result<(), Mismatch> {
        match op {
            Op::Advance(millis) => {
                self.world.advance(*millis);
                self.memory.advance(*millis);
                Ok(())
            }
            Op::Call(tenant, request) => self.call(*tenant, request, interleaving),
        }
    }

    fn call(
        &mut self,
        tenant: TenantId,
        request: &Request<Vec<u8>>,
        interleaving: u64,
    ) -> Result<(), Mismatch> {
        if !self.setting.is_lazy || interleaving.is_multiple_of(8) {
            self.world.run_tasks();
        }
        let index = (interleaving >> 32) as usize % self.engines.len();
        let stored = self.world.block_on(perform(&self.engines[index].0, tenant, request));
        let mut events = self.events(index);
        let reference = match request {
            Request::Claim(claim) => self.claim_alike(tenant, claim, &stored, &events)?,
            _ => self.world.block_on(perform(&self.reference, tenant, request)),
        };
        let mut expected = self.reference.lock().unwrap().take_events();
        if matches!(request, Request::Claim(_)) {
            // The order in which shards are tried does not matter.
            let order = |event: &StateTransitionEvent| format!("{event:?}");
            expected.sort_by_key(order);
            events.sort_by_key(order);
        }
        let strict = !self.setting.has_two;
        let [expected_answer, answer] =
            [&reference, &stored].map(|answer| comparable(answer, request, strict));
        same("answers", &expected_answer, &answer)?;
        same("events", &expected, &events)?;
        self.tally.count(request, &stored);
        self.memory.note(tenant, request, &stored);
        Ok(())
    }

    /// Lets the reference acquire what the stored coordinator has claimed. If that claimed nothing,
    /// lets the reference claim.
    fn claim_alike(
        &mut self,
        tenant: TenantId,
        claim: &Claim,
        claimed: &Answer,
        events: &[StateTransitionEvent],
    ) -> Result<Answer, Mismatch> {
        let Claim { run, worker } = *claim;
        let now = self.world.now();
        let until = self.cooldowns.get(&(tenant, worker)).copied();
        if let Some(retry_after) = until.filter(|until| now < *until) {
            return Ok(Err(Throttled { retry_after }.into()));
        }
        let ask = |request: Request<Vec<u8>>| {
            self.world.block_on(perform(&self.reference, tenant, &request))
        };
        let acquire = |shard| ask(Acquire { key: ShardKey::new(run, shard), worker }.into());
        let Ok(Reply::Granted(state)) = claimed else { return Ok(ask(claim.clone().into())) };
        // The claim may have parked shards whose retries were exhausted.
        for event in events {
            if let EventKind::ShardParked { shard, .. } = event.kind {
                let parked = matches!(acquire(shard), Err(CoordError::RetriesExhausted(_)));
                same("whether a claim parks a shard", &parked, &true)?;
            }
        }
        let acquired = acquire(state.lease.key().shard);
        if self.setting.cooldown_ms > 0 {
            let until = now.saturating_add(self.setting.cooldown_ms);
            self.cooldowns.insert((tenant, worker), until);
        }
        Ok(acquired)
    }

    /// Events since the last call.
    fn events(&mut self, index: usize) -> Vec<StateTransitionEvent> {
        let (mut events, stream) = (Vec::new(), &mut self.engines[index].1);
        loop {
            let next = poll_fn(|context| {
                let next = pin!(stream.next()).poll(context);
                Poll::Ready(if let Poll::Ready(event) = next { event } else { None })
            });
            match self.world.block_on(next) {
                Some(Delivery::Event(event)) => events.push((*event).clone()),
                Some(Delivery::Lagged(missed)) => panic!("{missed} events were missed"),
                None => return events,
            }
        }
    }

    /// Compares all state, and audits the store.
    pub(crate) fn compare_all(&mut self) -> Result<(), Mismatch> {
        for tenant in [1, 2].map(|byte| TenantId::from_bytes([byte; TenantId::SIZE])) {
            self.call(tenant, &ListLabels {}.into(), 0)?;
            for run in [1, 2].map(RunId::from_raw) {
                self.call(tenant, &GetRun { run }.into(), 0)?;
                self.call(tenant, &ListShards { run, filter: ShardFilter::all() }.into(), 0)?;
                self.call(tenant, &GetRunProgress { run }.into(), 0)?;
                let (worker, limit) = (WorkerId::from_raw(0), 1_000);
                self.call(tenant, &CollectClaimCandidates { run, worker, limit }.into(), 0)?;
            }
        }
        let store = self.engines[0].0.store();
        self.world.block_on(audit(store, &self.keys));
        Ok(())
    }
}

/// An answer without parts that may differ: the order of candidates, and hints if other
/// coordinators use the store.
fn comparable(answer: &Answer, request: &Request<Vec<u8>>, strict: bool) -> Answer {
    let mut answer = answer.clone();
    match &mut answer {
        Ok(Reply::Candidates(shards, hint)) => {
            shards.sort_unstable();
            if matches!(request, Request::CollectClaimCandidates(it) if it.limit < 1_000) {
                let count = shards.len() as u64;
                *shards = vec![shardwright_contracts::ShardId::from_raw(count)];
            }
            if !strict {
                (*shards, *hint) = (Vec::new(), ClaimHint::default());
            }
        }
        Ok(Reply::Granted(state)) if !strict => state.capacity = CapacityHint::default(),
        Ok(Reply::Renewed(renewed)) if !strict => renewed.capacity = CapacityHint::default(),
        Err(CoordError::NoneAvailable(reason)) if !strict => reason.earliest_deadline = None,
        _ => {}
    }
    answer
}
