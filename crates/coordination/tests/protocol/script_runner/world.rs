//! What a script runs in: a coordinator, a clock, and the leases and names known so far.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use shardwright_contracts::{
    FenceEpoch, LogicalTime, RunId, ShardId, ShardKey, TenantId, WorkerId,
};
use shardwright_coordination::{
    CoordinationBackend, CoordinatorRuntimeConfig, InMemoryCoordinator, Lease, Reply, Request,
    RunManagement, RunRecord, ShardFilter, ShardSummary, StateTransitionEvent,
};

use super::command::{Command, NoCommand, Scope, default_runtime_config};
use super::names::Names;
use super::render;
use super::words::Words;

/// The answer to a command, line by line. An error is a mistake in the script, not a refusal.
pub(super) type Answer = Result<Vec<String>, String>;

pub(super) struct World {
    coordinator: InMemoryCoordinator,
    pub(super) names: Names,
    pub(super) now: LogicalTime,
    /// The lease that each worker was granted last, for each shard.
    leases: BTreeMap<(WorkerId, ShardKey), Lease>,
    unread_events: Vec<StateTransitionEvent>,
    known_runs: BTreeSet<(TenantId, RunId)>,
}

#[derive(PartialEq)]
struct VisibleState {
    runs: Vec<(RunRecord, Vec<ShardSummary>)>,
    shards: usize,
    bytes: usize,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            coordinator: coordinator(default_runtime_config()),
            names: Names::default(),
            now: LogicalTime::ZERO,
            leases: BTreeMap::new(),
            unread_events: Vec::new(),
            known_runs: BTreeSet::new(),
        }
    }

    /// Executes a line. The answer marks a refusal or a replay that changed something.
    pub(super) fn execute(&mut self, line: &str) -> Answer {
        let mut words = Words::new(line);
        let scope = self.scope(&mut words)?;
        self.known_runs.insert((scope.tenant, scope.run));
        let command = match self.command(scope, &mut words) {
            Ok(command) => command,
            Err(NoCommand::Refused(why)) => return Ok(vec![why]),
            Err(NoCommand::Mistake(mistake)) => return Err(mistake),
        };
        let with_hint = words.flag("hint");
        words.end()?;
        let before = self.visible_state();
        let mut answer = match command {
            Command::Coordinator(config) => {
                self.coordinator = coordinator(config);
                return Ok(vec!["ready".to_owned()]);
            }
            Command::RaiseFloor(floor) => {
                self.coordinator.raise_fence_floor(floor);
                vec!["done".to_owned()]
            }
            Command::Call(request) => self.send(scope, &request, with_hint),
            Command::ShowShard(shard) => self.show_shard(scope, shard),
            Command::Events => self.read_events(),
        };
        let events = self.coordinator.take_events();
        let promises_no_effect = answer
            .first()
            .is_some_and(|line| ["refused", "replayed"].iter().any(|word| line.starts_with(word)));
        if promises_no_effect && (before != self.visible_state() || !events.is_empty()) {
            answer.push("(yet something changed)".to_owned());
        }
        self.unread_events.extend(events);
        Ok(answer)
    }

    /// Sends a request and renders the answer.
    fn send(&mut self, scope: Scope, request: &Request<Vec<u8>>, with_hint: bool) -> Vec<String> {
        let reply = match self.coordinator.call(self.now, scope.tenant, request.as_ref()) {
            Ok(reply) => reply,
            Err(error) => return self.refusal(&error),
        };
        self.remember(request.lease().copied(), &reply);
        render::reply(&self.names, &reply, render::done(request), with_hint)
    }

    /// Records leases and the names of new shards.
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

    fn show_shard(&mut self, scope: Scope, wanted: ShardId) -> Vec<String> {
        let Scope { tenant, run, .. } = scope;
        let (mut shards, all) = (Vec::new(), ShardFilter::all());
        let listed = self.coordinator.list_shards_into(self.now, tenant, run, all, &mut shards);
        match (listed, shards.iter().find(|shard| shard.shard == wanted)) {
            (Err(error), _) => self.refusal(&error),
            (Ok(()), Some(shard)) => vec![render::summary(&self.names, shard)],
            (Ok(()), None) => vec!["not there".to_owned()],
        }
    }

    /// Renders the events since the last `events` command.
    fn read_events(&mut self) -> Vec<String> {
        if self.unread_events.is_empty() {
            return vec!["none".to_owned()];
        }
        let events = std::mem::take(&mut self.unread_events);
        events.iter().map(|event| render::event(&self.names, event)).collect()
    }

    /// All runs and shards as queries show them, and the memory that they use.
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

    /// Renders a refusal with its causes.
    fn refusal(&self, error: &dyn Error) -> Vec<String> {
        vec![format!("refused: {}", self.names.in_text(&with_causes(error)))]
    }
}

fn coordinator(config: CoordinatorRuntimeConfig) -> InMemoryCoordinator {
    let mut coordinator = InMemoryCoordinator::try_new(config).unwrap();
    coordinator.collect_events();
    coordinator
}

/// An error and its causes, each text once.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}
