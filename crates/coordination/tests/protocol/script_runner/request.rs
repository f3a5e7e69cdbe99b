//! What a command asks, as a request.

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, LogicalTime, ShardSpecRef, WorkerId,
    plan_split_replace_with_children, plan_split_residual,
};
use shardwright_coordination::operation::{
    Acquire, ChangeRun, Checkpoint, Claim, CollectClaimCandidates, Complete, CreateRun,
    CreateRunWithShards, DeclineSplit, GetRun, GetRunProgress, ListShards, ParkShard,
    RegisterShards, Release, Renew, RequestSplit, SplitReplace, SplitResidual, UnparkShard,
};
use shardwright_coordination::{Request, RunConfig};

use super::command::{Action, RunAction, Settings};
use super::literal::{RangeText, children, manifest};
use super::world::{Scope, World, with_causes};

/// Why a command sends no request.
pub(super) enum Unsent {
    /// The story is wrong.
    Mistake(String),
    /// The sender refuses it: this is the answer.
    Refused(String),
}

impl From<String> for Unsent {
    fn from(mistake: String) -> Self {
        Self::Mistake(mistake)
    }
}

impl World {
    /// What a worker asks.
    pub(super) fn request_of<'a>(
        &self,
        scope: Scope,
        worker: WorkerId,
        action: &'a Action,
    ) -> Result<Request<&'a [u8]>, Unsent> {
        let run = scope.run;
        let key = |shard: &str| self.key(scope, shard);
        let lease = |shard: &str| self.lease(scope, worker, shard);
        let until = |moment: u64| LogicalTime::from_millis(moment).millis_since(self.now);
        Ok(match action {
            Action::Acquire { shard, .. } => Acquire { key: key(shard)?, worker }.into(),
            Action::Claim { .. } => Claim { run, worker }.into(),
            Action::Candidates { limit } => {
                CollectClaimCandidates { run, worker, limit: *limit as usize }.into()
            }
            Action::RequestSplit { shard, until: end } => {
                let (key, patience_ms) = (key(shard)?, until(*end));
                RequestSplit { key, requester: worker, patience_ms }.into()
            }
            Action::Renew { shard, .. } => Renew { lease: lease(shard)? }.into(),
            Action::Checkpoint { shard, cursor, op } => {
                Checkpoint { lease: lease(shard)?, cursor: cursor.as_update(), op: *op }.into()
            }
            Action::Complete { shard, cursor, op } => {
                Complete { lease: lease(shard)?, cursor: cursor.as_update(), op: *op }.into()
            }
            Action::Park { shard, reason, detail, op } => {
                let lease = lease(shard)?;
                ParkShard { lease, reason: *reason, detail: detail.as_slice(), op: *op }.into()
            }
            Action::Release { shard, op } => Release { lease: lease(shard)?, op: *op }.into(),
            Action::DeclineSplit { shard, until: end } => {
                DeclineSplit { lease: lease(shard)?, pause_ms: until(*end) }.into()
            }
            Action::SplitReplace { shard, children: ranges, op } => {
                let (lease, (whole, cursor)) = (lease(shard)?, hull(ranges));
                let plan = plan_split_replace_with_children(whole, cursor, &children(ranges));
                let plan = plan.map_err(|error| no("plan", &with_causes(&error)))?;
                SplitReplace { lease, parts: plan.children().to_vec(), op: *op }.into()
            }
            Action::SplitResidual { shard, whole, boundary, op } => {
                let lease = lease(shard)?;
                let plan = plan_split_residual(whole.spec(), whole.cursor(), boundary);
                let plan = plan.map_err(|error| no("plan", &with_causes(&error)))?;
                let (narrowed, residual) = (plan.narrowed(), plan.residual());
                SplitResidual { lease, narrowed, residual, op: *op }.into()
            }
        })
    }

    /// What is asked of a run.
    pub(super) fn request_about<'a>(
        &self,
        scope: Scope,
        action: &'a RunAction,
    ) -> Result<Request<&'a [u8]>, Unsent> {
        let run = scope.run;
        Ok(match action {
            RunAction::Create(settings) => CreateRun { run, config: config(settings)? }.into(),
            RunAction::Register(ranges, op) => {
                RegisterShards { run, shards: manifest(ranges), op: *op }.into()
            }
            RunAction::CreateWithShards(settings, ranges, op) => {
                let (config, shards) = (config(settings)?, manifest(ranges));
                CreateRunWithShards { run, config, shards, op: *op }.into()
            }
            RunAction::Change(change, op) => ChangeRun { run, change: *change, op: *op }.into(),
            RunAction::Unpark { shard, op } => {
                UnparkShard { key: self.key(scope, shard)?, op: *op }.into()
            }
            RunAction::Show => GetRun { run }.into(),
            RunAction::Progress => GetRunProgress { run }.into(),
            RunAction::List(filter) => ListShards { run, filter: *filter }.into(),
        })
    }
}

fn no(what: &str, why: &str) -> Unsent {
    Unsent::Refused(format!("no {what}: {why}"))
}

fn config(settings: &Settings) -> Result<RunConfig, Unsent> {
    let semantics = match settings.dispatched {
        true => CursorSemantics::Dispatched,
        false => CursorSemantics::Completed,
    };
    RunConfig::try_new(semantics, settings.lease, settings.retries)
        .map_err(|error| no("configuration", &error.to_string()))
}

/// The shard that children would divide if their author knew it: from the least start to the
/// greatest end, processed as far as any child claims.
fn hull(ranges: &[RangeText]) -> (ShardSpecRef<'_>, CursorUpdate<'_>) {
    let start = ranges.iter().map(|range| range.start.as_slice()).min().unwrap_or_default();
    let end = ranges.iter().map(|range| range.end.as_slice()).max().unwrap_or_default();
    let furthest = ranges.iter().map(RangeText::cursor).max_by_key(|cursor| cursor.last_key());
    (ShardSpecRef::new(start, end, b""), furthest.unwrap_or_default())
}
