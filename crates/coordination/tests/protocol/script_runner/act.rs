//! What workers do.

use shardwright_contracts::{
    CursorUpdate, LogicalTime, ShardSpecRef, WorkerId, plan_split_replace_with_children,
    plan_split_residual,
};
use shardwright_coordination::{
    CoordinationBackend, IdempotentOutcome, Lease, RunManagement, ShardClaiming,
};

use super::command::Action;
use super::literal::{RangeText, children};
use super::render;
use super::world::{Answer, Scope, World, with_causes};

impl World {
    pub(super) fn act(&mut self, scope: Scope, worker: WorkerId, action: &Action) -> Answer {
        match action {
            Action::Acquire { shard, hint } => self.acquire(scope, worker, Some(shard), *hint),
            Action::Claim { hint } => self.acquire(scope, worker, None, *hint),
            Action::Candidates { limit } => Ok(self.candidates(scope, worker, *limit)),
            Action::RequestSplit { shard, until } => {
                self.request_split(scope, worker, shard, *until)
            }
            Action::Renew { shard, .. }
            | Action::Checkpoint { shard, .. }
            | Action::Complete { shard, .. }
            | Action::Park { shard, .. }
            | Action::Release { shard, .. }
            | Action::SplitReplace { shard, .. }
            | Action::SplitResidual { shard, .. }
            | Action::DeclineSplit { shard, .. } => {
                let lease = self.lease(scope, worker, shard)?;
                Ok(self.act_with_lease(scope, lease, action))
            }
        }
    }

    /// Acquires a shard by name, or whichever can be had.
    fn acquire(
        &mut self,
        scope: Scope,
        worker: WorkerId,
        shard: Option<&str>,
        hint: bool,
    ) -> Answer {
        let Scope { tenant, run, .. } = scope;
        let key = shard.map(|shard| self.key(scope, shard)).transpose()?;
        let (coordinator, scratch, now) = (&mut self.coordinator, &mut self.scratch, self.now);
        let acquired = match key {
            Some(key) => coordinator
                .acquire_and_restore_into(now, tenant, key, worker, scratch)
                .map_err(|error| with_causes(&error)),
            None => coordinator
                .claim_next_available(now, tenant, run, worker, scratch)
                .map_err(|error| with_causes(&error)),
        };
        Ok(match acquired {
            Ok(acquired) => {
                self.leases.insert((worker, acquired.lease.key()), acquired.lease);
                render::granted(&self.names, &acquired, hint)
            }
            Err(refusal) => vec![format!("refused: {}", self.names.in_text(&refusal))],
        })
    }

    fn candidates(&mut self, scope: Scope, worker: WorkerId, limit: u64) -> Vec<String> {
        let mut found = Vec::new();
        let outlook = self.coordinator.collect_claim_candidates_into(
            self.now,
            scope.tenant,
            scope.run,
            worker,
            limit as usize,
            &mut found,
        );
        match outlook {
            Ok(outlook) => render::candidates(&self.names, &found, outlook.earliest_deadline),
            Err(error) => self.refusal(&error),
        }
    }

    fn request_split(&mut self, scope: Scope, asker: WorkerId, shard: &str, until: u64) -> Answer {
        let (key, until) = (self.key(scope, shard)?, LogicalTime::from_millis(until));
        let asked = self.coordinator.request_split(self.now, scope.tenant, key, asker, until);
        Ok(match asked {
            Ok(()) => vec!["asked".to_owned()],
            Err(error) => self.refusal(&error),
        })
    }

    fn act_with_lease(&mut self, scope: Scope, lease: Lease, action: &Action) -> Vec<String> {
        let (coordinator, now, tenant) = (&mut self.coordinator, self.now, scope.tenant);
        match action {
            Action::Renew { hint, .. } => self.renew(scope, lease, *hint),
            Action::Checkpoint { cursor, op, .. } => {
                match coordinator.checkpoint(now, tenant, &lease, cursor.as_update(), *op) {
                    Ok(outcome) => render::checkpointed(outcome),
                    Err(error) => self.refusal(&error),
                }
            }
            Action::Complete { cursor, op, .. } => {
                match coordinator.complete(now, tenant, &lease, cursor.as_update(), *op) {
                    Ok(outcome) => render::outcome(outcome, ""),
                    Err(error) => self.refusal(&error),
                }
            }
            Action::Park { reason, detail, op, .. } => {
                match coordinator.park_shard(now, tenant, &lease, *reason, detail, *op) {
                    Ok(outcome) => render::outcome(outcome, ""),
                    Err(error) => self.refusal(&error),
                }
            }
            Action::Release { op, .. } => match coordinator.release(now, tenant, &lease, *op) {
                Ok(outcome) => render::outcome(outcome, ""),
                Err(error) => self.refusal(&error),
            },
            Action::DeclineSplit { until, .. } => {
                let until = LogicalTime::from_millis(*until);
                match coordinator.decline_split(now, tenant, &lease, until) {
                    Ok(()) => vec!["declined".to_owned()],
                    Err(error) => self.refusal(&error),
                }
            }
            Action::SplitReplace { .. } | Action::SplitResidual { .. } => {
                self.split(scope, lease, action)
            }
            Action::Acquire { .. }
            | Action::Claim { .. }
            | Action::Candidates { .. }
            | Action::RequestSplit { .. } => Vec::new(),
        }
    }

    fn renew(&mut self, scope: Scope, lease: Lease, hint: bool) -> Vec<String> {
        match self.coordinator.renew(self.now, scope.tenant, &lease) {
            Ok(result) => {
                let renewed = lease.renewed(result.new_deadline);
                self.leases.insert((lease.owner(), lease.key()), renewed);
                render::renewed(&result, hint)
            }
            Err(error) => self.refusal(&error),
        }
    }

    /// Splits by a plan that is sound in itself; whether it fits the shard, the backend says.
    fn split(&mut self, scope: Scope, lease: Lease, action: &Action) -> Vec<String> {
        let (coordinator, now, tenant) = (&mut self.coordinator, self.now, scope.tenant);
        let split = match action {
            Action::SplitReplace { children: ranges, op, .. } => {
                let parts = children(ranges);
                let (whole, cursor) = hull(ranges);
                match plan_split_replace_with_children(whole, cursor, &parts) {
                    Ok(plan) => coordinator
                        .split_replace(now, tenant, &lease, &plan, *op)
                        .map(|outcome| outcome.map(|result| result.children)),
                    Err(error) => return vec![format!("no plan: {}", with_causes(&error))],
                }
            }
            Action::SplitResidual { whole, boundary, op, .. } => {
                match plan_split_residual(whole.spec(), whole.cursor(), boundary) {
                    Ok(plan) => coordinator
                        .split_residual(now, tenant, &lease, &plan, *op)
                        .map(|outcome| outcome.map(|result| vec![result.residual])),
                    Err(error) => return vec![format!("no plan: {}", with_causes(&error))],
                }
            }
            _ => return Vec::new(),
        };
        match split {
            Ok(outcome) => {
                let parent = lease.key().shard;
                let (IdempotentOutcome::Executed(made) | IdempotentOutcome::Replayed(made)) =
                    &outcome;
                let made = self.name_children(parent, made);
                render::outcome(outcome, &format!(": {made}"))
            }
            Err(error) => self.refusal(&error),
        }
    }
}

/// The shard that children would divide if their author knew it: from the least start to the
/// greatest end, processed as far as any child claims.
fn hull(ranges: &[RangeText]) -> (ShardSpecRef<'_>, CursorUpdate<'_>) {
    let start = ranges.iter().map(|range| range.start.as_slice()).min().unwrap_or_default();
    let end = ranges.iter().map(|range| range.end.as_slice()).max().unwrap_or_default();
    let furthest = ranges.iter().map(RangeText::cursor).max_by_key(|cursor| cursor.last_key());
    (ShardSpecRef::new(start, end, b""), furthest.unwrap_or_default())
}
