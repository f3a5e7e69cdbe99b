//! Reads operations. Names of shards and leases are resolved on the way.

use std::error::Error;

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, LogicalTime, ShardInput, ShardSpecRef, SplitChild, SplitPart,
    WorkerId, plan_split_replace_with_children, plan_split_residual,
};
use shardwright_coordination::operation::{
    Acquire, ChangeRun, Checkpoint, Claim, CollectClaimCandidates, Complete, CreateRun,
    CreateRunWithShards, DeclineSplit, GetRunProgress, ListShards, ParkShard, RegisterShards,
    Release, Renew, RequestSplit, SplitReplace, SplitResidual, UnparkShard,
};
use shardwright_coordination::{
    ParkReason, Request, RunConfig, RunTransition, ShardFilter, ShardStatus,
};

use super::command::{NoCommand, Scope};
use super::literal::{key, number, range};
use super::words::{Parsed, Words};
use super::world::{World, with_causes};

type Read = Result<Request<Vec<u8>>, NoCommand>;

impl World {
    /// Reads an operation of a worker.
    pub(super) fn worker_request(
        &self,
        scope: Scope,
        worker: WorkerId,
        words: &mut Words<'_>,
    ) -> Read {
        let (run, name) = (scope.run, words.next()?);
        match name {
            "claim" => return Ok(Claim { run, worker }.into()),
            "candidates" => {
                let limit = words.after("limit").map_or(Ok(100), number)? as usize;
                return Ok(CollectClaimCandidates { run, worker, limit }.into());
            }
            _ => {}
        }
        let shard = words.next()?;
        let shard_key = self.key(scope, shard)?;
        match name {
            "acquire" => return Ok(Acquire { key: shard_key, worker }.into()),
            "request-split" => {
                let patience_ms = self.until(words)?;
                return Ok(RequestSplit { key: shard_key, requester: worker, patience_ms }.into());
            }
            _ => {}
        }
        let lease = self.lease(scope, worker, shard)?;
        Ok(match name {
            "renew" => Renew { lease }.into(),
            "checkpoint" => Checkpoint { lease, cursor: words.cursor()?, op: words.op()? }.into(),
            "complete" => Complete { lease, cursor: words.cursor()?, op: words.op()? }.into(),
            "park" => {
                let (reason, detail) = park(words)?;
                ParkShard { lease, reason, detail, op: words.op()? }.into()
            }
            "release" => Release { lease, op: words.op()? }.into(),
            "decline-split" => DeclineSplit { lease, pause_ms: self.until(words)? }.into(),
            "split-replace" => {
                let (children, op) = (words.ranges()?, words.op()?);
                SplitReplace { lease, parts: replace(&children)?, op }.into()
            }
            "split-residual" => {
                let (whole, boundary) = (range(words.next()?, 0)?, words.expect("at")?);
                let (boundary, op) = (key(boundary)?, words.op()?);
                let (whole, cursor) = (whole.spec.as_ref(), whole.cursor.as_ref());
                let plan = plan_split_residual(whole, cursor, &boundary);
                let plan = plan.map_err(|error| no("plan", &error))?;
                let [narrowed, residual] =
                    [plan.narrowed(), plan.residual()].map(|part| part.map(|bytes| bytes.to_vec()));
                SplitResidual { lease, narrowed, residual, op }.into()
            }
            other => return Err(format!("unknown operation `{other}` of a worker").into()),
        })
    }

    /// Reads an operation on a run.
    pub(super) fn run_request(&self, scope: Scope, name: &str, words: &mut Words<'_>) -> Read {
        let run = scope.run;
        let change = match name {
            "complete-run" => Some(RunTransition::Complete),
            "fail-run" => Some(RunTransition::Fail),
            "cancel-run" => Some(RunTransition::Cancel),
            "pause-run" => Some(RunTransition::Pause),
            "resume-run" => Some(RunTransition::Resume),
            _ => None,
        };
        if let Some(change) = change {
            return Ok(ChangeRun { run, change, op: words.op()? }.into());
        }
        Ok(match name {
            "create-run" => CreateRun { run, config: config(words)? }.into(),
            "register" => RegisterShards { run, shards: words.ranges()?, op: words.op()? }.into(),
            "create-run-with-shards" => {
                let (config, shards) = (config(words)?, words.ranges()?);
                CreateRunWithShards { run, config, shards, op: words.op()? }.into()
            }
            "unpark" => {
                UnparkShard { key: self.key(scope, words.next()?)?, op: words.op()? }.into()
            }
            "progress" => GetRunProgress { run }.into(),
            "list" => ListShards { run, filter: filter(words)? }.into(),
            other => return Err(format!("unknown command `{other}`").into()),
        })
    }

    /// Reads `until` and a time, as a duration from now.
    fn until(&self, words: &mut Words<'_>) -> Parsed<u64> {
        let end = LogicalTime::from_millis(number(words.expect("until")?)?);
        Ok(end.millis_since(self.now))
    }
}

fn no(what: &str, error: &dyn Error) -> NoCommand {
    NoCommand::Refused(format!("no {what}: {}", with_causes(error)))
}

/// Plans a split into `children`. The parent is as the author of the children must know it: it
/// spans them, and it is processed as far as the furthest child claims.
fn replace(children: &[ShardInput<Vec<u8>>]) -> Result<Vec<SplitPart<Vec<u8>>>, NoCommand> {
    let children: Vec<_> = children
        .iter()
        .map(|child| SplitChild { spec: child.spec.as_ref(), cursor: child.cursor.as_ref() })
        .collect();
    let start = children.iter().map(|child| child.spec.start()).min().unwrap_or_default();
    let end = children.iter().map(|child| child.spec.end()).max().unwrap_or_default();
    let cursors = children.iter().map(|child| child.cursor);
    let furthest = cursors.max_by_key(|cursor| cursor.last_key());
    let cursor: CursorUpdate<'_> = furthest.unwrap_or_default();
    let parent = ShardSpecRef::new(start, end, b"");
    let plan = plan_split_replace_with_children(parent, cursor, &children);
    let plan = plan.map_err(|error| no("plan", &error))?;
    Ok(plan.children().iter().map(|child| child.map(|bytes| bytes.to_vec())).collect())
}

fn config(words: &mut Words<'_>) -> Result<RunConfig, NoCommand> {
    let lease_ms = number(words.setting("lease").ok_or("a run needs `lease=`".to_owned())?)?;
    let retries = words.setting("retries").map(number).transpose()?.map(|n| n as u32);
    let semantics = match words.flag("dispatched") {
        true => CursorSemantics::Dispatched,
        false => CursorSemantics::Completed,
    };
    RunConfig::try_new(semantics, lease_ms, retries).map_err(|error| no("configuration", &error))
}

fn park(words: &mut Words<'_>) -> Parsed<(ParkReason, Vec<u8>)> {
    let reason = match words.next()? {
        "permission-denied" => ParkReason::PermissionDenied,
        "not-found" => ParkReason::NotFound,
        "poisoned" => ParkReason::Poisoned,
        "too-many-errors" => ParkReason::TooManyErrors,
        "other" => ParkReason::Other,
        other => return Err(format!("unknown park reason `{other}`")),
    };
    Ok((reason, words.after("detail").map_or(Ok(Vec::new()), key)?))
}

fn filter(words: &mut Words<'_>) -> Parsed<ShardFilter> {
    let mut filter = match words.optional() {
        None | Some("all") => ShardFilter::all(),
        Some("active") => ShardFilter::active(),
        Some("available") => ShardFilter::available(),
        Some("parked") => ShardFilter::parked(),
        Some("leased") => ShardFilter { is_leased: Some(true), ..ShardFilter::active() },
        Some("done") => ShardFilter { status: Some(ShardStatus::Done), ..ShardFilter::all() },
        Some("split") => ShardFilter { status: Some(ShardStatus::Split), ..ShardFilter::all() },
        Some(other) => return Err(format!("unknown list `{other}`")),
    };
    filter.root_only = words.flag("roots");
    Ok(filter)
}
