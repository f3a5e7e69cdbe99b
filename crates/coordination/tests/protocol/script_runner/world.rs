//! What a story plays in: a coordinator, a clock, and what everybody remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::{
    CoordinationBackend, CoordinatorRuntimeConfig, InMemoryCoordinator, Lease, Reply, Request,
    RunManagement, RunRecord, ShardFilter, ShardSummary, StateTransitionEvent,
};

use super::command::{Command, Line};
use super::names::Names;
use super::parse::default_runtime_config;
use super::render;
use super::request::Unsent;

/// What a command answers, line by line; an error is a mistake in the story, not a refusal.
pub(super) type Answer = Result<Vec<String>, String>;

pub(super) struct World {
    coordinator: InMemoryCoordinator,
    pub(super) names: Names,
    pub(super) now: LogicalTime,
    /// The lease that each worker was granted last, for each shard.
    leases: BTreeMap<(WorkerId, ShardKey), Lease>,
    untold_events: Vec<StateTransitionEvent>,
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
            Command::Worker(worker, action) => {
                let request = self.request_of(scope, *worker, action);
                self.send(scope, request, action.wants_hint())?
            }
            Command::Run(action) => {
                let request = self.request_about(scope, action);
                self.send(scope, request, false)?
            }
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

    /// Sends a request and puts the answer into words.
    fn send(
        &mut self,
        scope: Scope,
        request: Result<Request<&[u8]>, Unsent>,
        with_hint: bool,
    ) -> Answer {
        let request = match request {
            Ok(request) => request,
            Err(Unsent::Refused(why)) => return Ok(vec![why]),
            Err(Unsent::Mistake(mistake)) => return Err(mistake),
        };
        let shown = request.lease().copied();
        let done = render::done(&request);
        let reply = match self.coordinator.call(self.now, scope.tenant, request) {
            Ok(reply) => reply,
            Err(error) => return Ok(self.refusal(&error)),
        };
        self.remember(shown, &reply);
        Ok(render::reply(&self.names, &reply, done, with_hint))
    }

    /// Takes note of leases and of the names of new shards.
    fn remember(&mut self, shown: Option<Lease>, reply: &Reply) {
        let parent = shown.map(|lease| lease.shard());
        match (reply, shown, parent) {
            (Reply::Granted(state), ..) => {
                self.leases.insert((state.lease.owner(), state.lease.key()), state.lease);
            }
            (Reply::Renewed(renewed), Some(lease), _) => {
                let renewed = lease.renewed(renewed.new_deadline);
                self.leases.insert((lease.owner(), lease.key()), renewed);
            }
            (Reply::Replaced(split), _, Some(parent)) => {
                let children = split.clone().into_inner().children;
                children.iter().for_each(|child| _ = self.names.derive(parent, *child));
            }
            (Reply::Residual(split), _, Some(parent)) => {
                self.names.derive(parent, split.into_inner().residual);
            }
            _ => {}
        }
    }

    fn show_shard(&mut self, scope: Scope, name: &str) -> Answer {
        let (wanted, Scope { tenant, run, .. }) = (self.names.shard(name)?, scope);
        let (mut shards, all) = (Vec::new(), ShardFilter::all());
        let listed = self.coordinator.list_shards_into(self.now, tenant, run, all, &mut shards);
        Ok(match (listed, shards.iter().find(|shard| shard.shard == wanted)) {
            (Err(error), _) => self.refusal(&error),
            (Ok(()), Some(shard)) => vec![render::summary(&self.names, shard)],
            (Ok(()), None) => vec!["not there".to_owned()],
        })
    }

    /// Tells the events since they were last asked for.
    fn tell_events(&mut self) -> Vec<String> {
        if self.untold_events.is_empty() {
            return vec!["none".to_owned()];
        }
        let events = std::mem::take(&mut self.untold_events);
        events.iter().map(|event| render::event(&self.names, event)).collect()
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
    fn refusal(&self, error: &dyn Error) -> Vec<String> {
        vec![format!("refused: {}", self.names.in_text(&with_causes(error)))]
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
