//! What a story plays in: a coordinator, a clock, and what everybody remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use shardwright_contracts::{
    FenceEpoch, LogicalTime, RunId, ShardId, ShardKey, TenantId, WorkerId,
};
use shardwright_coordination::{
    AcquireScratch, CoordinatorRuntimeConfig, InMemoryCoordinator, Lease, RunManagement, RunRecord,
    ShardFilter, ShardSummary, StateTransitionEvent,
};

use super::command::{Command, Line};
use super::names::Names;
use super::parse::default_runtime_config;

/// What a command answers, line by line; an error is a mistake in the story, not a refusal.
pub(super) type Answer = Result<Vec<String>, String>;

pub(super) struct World {
    pub(super) coordinator: InMemoryCoordinator,
    pub(super) scratch: AcquireScratch,
    pub(super) names: Names,
    pub(super) now: LogicalTime,
    /// The lease that each worker was granted last, for each shard.
    pub(super) leases: BTreeMap<(WorkerId, ShardKey), Lease>,
    pub(super) untold_events: Vec<StateTransitionEvent>,
    known_runs: BTreeSet<(TenantId, RunId)>,
}

#[derive(PartialEq)]
struct VisibleState {
    runs: Vec<(RunRecord, Vec<ShardSummary>)>,
    shards: usize,
    bytes: usize,
}

/// For whom a command runs.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    pub(super) tenant: TenantId,
    pub(super) run: RunId,
    /// The fence of the lease to show, if not that of the lease that the worker has.
    pub(super) fence: Option<u64>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            coordinator: coordinator(default_runtime_config()),
            scratch: AcquireScratch::new(),
            names: Names::default(),
            now: LogicalTime::ZERO,
            leases: BTreeMap::new(),
            untold_events: Vec::new(),
            known_runs: BTreeSet::new(),
        }
    }

    /// Carries out a command. A refusal or a replay that left a trace is told as one that did.
    pub(super) fn execute(&mut self, line: &Line) -> Answer {
        if let Some(at) = line.at {
            self.now = LogicalTime::from_millis(at);
        }
        let (tenant, run) = (self.names.tenant(&line.tenant), self.names.run(&line.run));
        self.known_runs.insert((tenant, run));
        let scope = Scope { tenant, run, fence: line.fence };
        if let Command::Coordinator(config) = line.command {
            self.coordinator = coordinator(config);
            return Ok(vec!["ready".to_owned()]);
        }
        let before = self.visible_state();
        let mut answer = match &line.command {
            Command::Worker(worker, action) => self.act(scope, *worker, action)?,
            Command::Run(action) => self.manage(scope, action)?,
            Command::ShowShard(shard) => self.show_shard(scope, shard)?,
            Command::Events => self.tell_events(),
            Command::RaiseFloor(floor) => {
                self.coordinator.raise_fence_floor(*floor);
                vec!["done".to_owned()]
            }
            Command::Coordinator(_) => Vec::new(),
        };
        let events = self.coordinator.take_events();
        let promises_no_effect = answer
            .first()
            .is_some_and(|told| ["refused", "replayed"].iter().any(|word| told.starts_with(word)));
        if promises_no_effect && (before != self.visible_state() || !events.is_empty()) {
            answer.push("(yet something changed)".to_owned());
        }
        self.untold_events.extend(events);
        Ok(answer)
    }

    /// All runs and shards as anybody can see them, and how much room they take.
    fn visible_state(&mut self) -> VisibleState {
        let mut runs = Vec::new();
        for &(tenant, run) in &self.known_runs {
            let mut shards = Vec::new();
            let filter = ShardFilter::all();
            let listed =
                self.coordinator.list_shards_into(self.now, tenant, run, filter, &mut shards);
            if let (Ok(()), Ok(record)) = (listed, self.coordinator.get_run(tenant, run)) {
                runs.push((record, shards));
            }
        }
        let (shards, bytes) = (self.coordinator.shard_count(), self.coordinator.bytes_used());
        VisibleState { runs, shards, bytes }
    }

    pub(super) fn key(&self, scope: Scope, shard: &str) -> Result<ShardKey, String> {
        Ok(ShardKey::new(scope.run, self.names.shard(shard)?))
    }

    /// The lease that a worker shows for a shard.
    pub(super) fn lease(
        &self,
        scope: Scope,
        worker: WorkerId,
        shard: &str,
    ) -> Result<Lease, String> {
        let key = self.key(scope, shard)?;
        if let Some(fence) = scope.fence {
            let fence = FenceEpoch::from_raw(fence).map_err(|error| error.to_string())?;
            return Ok(Lease::new(scope.tenant, key, worker, fence, self.now));
        }
        let granted = self.leases.get(&(worker, key)).copied();
        granted.ok_or_else(|| format!("w{} was never granted shard {shard}", worker.as_raw()))
    }

    /// A refusal in words, with its causes.
    pub(super) fn refusal(&self, error: &dyn Error) -> Vec<String> {
        vec![format!("refused: {}", self.names.in_text(&with_causes(error)))]
    }

    /// Names the shards that a split of `parent` made.
    pub(super) fn name_children(&mut self, parent: ShardId, children: &[ShardId]) -> String {
        let names: Vec<String> =
            children.iter().map(|&child| self.names.derive(parent, child)).collect();
        match names.as_slice() {
            [first, .., last] if names.len() > 8 => {
                format!("{first} to {last}, {} in all", names.len())
            }
            _ => names.join(" "),
        }
    }
}

fn coordinator(config: CoordinatorRuntimeConfig) -> InMemoryCoordinator {
    let mut coordinator = InMemoryCoordinator::try_new(config).unwrap();
    coordinator.collect_events();
    coordinator
}

/// An error and what it says of its causes, each once.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}
