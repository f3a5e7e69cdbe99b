//! What is done to runs, and what is told about them.

use shardwright_contracts::{CursorSemantics, OpId};
use shardwright_coordination::{RunConfig, RunManagement, ShardFilter, ShardSummary};

use super::command::{Change, RunAction, Settings};
use super::literal::manifest;
use super::render;
use super::world::{Answer, Scope, World};

impl World {
    pub(super) fn manage(&mut self, scope: Scope, action: &RunAction) -> Answer {
        let Scope { tenant, run, .. } = scope;
        let (coordinator, now) = (&mut self.coordinator, self.now);
        Ok(match action {
            RunAction::Create(settings) => match config(settings) {
                Ok(config) => match coordinator.create_run(now, tenant, run, config) {
                    Ok(()) => vec!["done".to_owned()],
                    Err(error) => self.refusal(&error),
                },
                Err(answer) => answer,
            },
            RunAction::Register(ranges, op) => {
                match coordinator.register_shards(now, tenant, run, &manifest(ranges), *op) {
                    Ok(outcome) => render::outcome(outcome, ""),
                    Err(error) => self.refusal(&error),
                }
            }
            RunAction::CreateWithShards(settings, ranges, op) => match config(settings) {
                Ok(config) => {
                    let shards = manifest(ranges);
                    let created =
                        coordinator.create_run_with_shards(now, tenant, run, config, &shards, *op);
                    match created {
                        Ok(outcome) => render::outcome(outcome, ""),
                        Err(error) => self.refusal(&error),
                    }
                }
                Err(answer) => answer,
            },
            RunAction::Change(change, op) => self.change(scope, *change, *op),
            RunAction::Unpark { shard, op } => {
                let key = self.key(scope, shard)?;
                match self.coordinator.unpark_shard(now, tenant, key, *op) {
                    Ok(outcome) => render::outcome(outcome, ""),
                    Err(error) => self.refusal(&error),
                }
            }
            RunAction::Show => match coordinator.get_run(tenant, run) {
                Ok(record) => render::run(&self.names, &record),
                Err(error) => self.refusal(&error),
            },
            RunAction::Progress => match coordinator.get_run_progress(now, tenant, run) {
                Ok(progress) => render::progress(&progress),
                Err(error) => self.refusal(&error),
            },
            RunAction::List(filter) => match self.list(scope, *filter) {
                Ok(shards) if shards.is_empty() => vec!["none".to_owned()],
                Ok(shards) => {
                    shards.iter().map(|shard| render::summary(&self.names, shard)).collect()
                }
                Err(refusal) => refusal,
            },
        })
    }

    fn change(&mut self, scope: Scope, change: Change, op: OpId) -> Vec<String> {
        let Scope { tenant, run, .. } = scope;
        let (coordinator, now) = (&mut self.coordinator, self.now);
        let changed = match change {
            Change::Complete => coordinator.complete_run(now, tenant, run, op),
            Change::Fail => coordinator.fail_run(now, tenant, run, op),
            Change::Cancel => coordinator.cancel_run(now, tenant, run, op),
            Change::Pause => coordinator.pause_run(now, tenant, run, op),
            Change::Resume => coordinator.resume_run(now, tenant, run, op),
        };
        match changed {
            Ok(outcome) => render::outcome(outcome, ""),
            Err(error) => self.refusal(&error),
        }
    }

    fn list(
        &mut self,
        scope: Scope,
        filter: ShardFilter,
    ) -> Result<Vec<ShardSummary>, Vec<String>> {
        let mut shards = Vec::new();
        let Scope { tenant, run, .. } = scope;
        match self.coordinator.list_shards_into(self.now, tenant, run, filter, &mut shards) {
            Ok(()) => Ok(shards),
            Err(error) => Err(self.refusal(&error)),
        }
    }

    pub(super) fn show_shard(&mut self, scope: Scope, name: &str) -> Answer {
        let wanted = self.names.shard(name)?;
        Ok(match self.list(scope, ShardFilter::all()) {
            Ok(shards) => match shards.iter().find(|shard| shard.shard == wanted) {
                Some(shard) => vec![render::summary(&self.names, shard)],
                None => vec!["not there".to_owned()],
            },
            Err(refusal) => refusal,
        })
    }

    /// Tells the events since they were last asked for.
    pub(super) fn tell_events(&mut self) -> Vec<String> {
        if self.untold_events.is_empty() {
            return vec!["none".to_owned()];
        }
        let events = std::mem::take(&mut self.untold_events);
        events.iter().map(|event| render::event(&self.names, event)).collect()
    }
}

fn config(settings: &Settings) -> Result<RunConfig, Vec<String>> {
    let semantics = match settings.dispatched {
        true => CursorSemantics::Dispatched,
        false => CursorSemantics::Completed,
    };
    RunConfig::try_new(semantics, settings.lease, settings.retries)
        .map_err(|error| vec![format!("no configuration: {error}")])
}
