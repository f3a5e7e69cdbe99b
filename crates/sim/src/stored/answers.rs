//! Answers, compared with the history.
//!
//! An answer is true if it was true at some moment between the call and its answer. In a world
//! whose store serves stale reads, that interval begins as long before the call as a read may lag.

use std::collections::BTreeMap;

use shardwright_contracts::{LogicalTime, TenantId};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{
    CoordError, InfraError, RestoredShardState, RunStatus, RunTransition, ShardLimitScope,
    ShardLimitViolation,
};
use shardwright_runs::RunAddress;
use shardwright_store::Revision;

use super::call_log::{CallLog, CallRecord, CallState, INERT, QUARANTINE, Version};
use super::record_checks::Address;
use super::steps::is_inert;
use crate::director::{CallReply, CallRequest};
use crate::model::{Model, TenantModel};
use crate::oracle::{Finding, Observation, Oracle, REFUSALS, TENANTS};
use crate::request::operation::{ChangeRun, CreateRun};
use crate::request::{Answer, Reply, Request, RequestExt};
use crate::runtime::executor::TaskId;
use crate::runtime::faults::STALE_MAX;

pub(crate) const ACKNOWLEDGED: &Oracle = &Oracle::of_the_world(
    "acknowledged means stored",
    "every acknowledged operation is in the history exactly once",
);
pub(crate) const SHOWN: &Oracle = &Oracle::of_the_world(
    "shown state existed",
    "runs, lists and progress are shown as they were at some moment of the call",
);

/// The settings of a world on which answers depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Whether reads may be stale.
    pub(crate) serves_stale: bool,
    /// Whether splits may exceed the limits of one commit.
    pub(crate) small_commits: bool,
}

/// The answer to judge, and the interval of its call.
pub(super) struct Case<'a> {
    pub(super) address: Address,
    pub(super) request: &'a Request,
    pub(super) outcome: &'a Answer,
    pub(super) from: Revision,
    terms: Terms,
    /// The earliest and the latest time of the decision.
    pub(super) times: [LogicalTime; 2],
    pub(super) call: &'a CallRecord,
}

pub(super) fn finding(oracle: &Oracle, text: String) -> Finding {
    Finding { oracle: oracle.name, text }
}

impl CallLog {
    /// Judges an answer and records it.
    pub(crate) fn answered(
        &mut self,
        task: TaskId,
        reply: &CallReply,
        terms: Terms,
    ) -> Result<(), Finding> {
        let moment = (self.seen(), self.now_ms());
        let Some(call) = self.calls.get_mut(&task) else { return Ok(()) };
        call.state = CallState::Answered(reply.clone());
        call.not_after = Some(self.records.clock);
        call.ended_ms = Some(moment.1);
        let behind = if terms.serves_stale { STALE_MAX } else { 0 };
        let from = Revision::new(call.started.get().saturating_sub(behind));
        let times = [LogicalTime::from_millis(call.not_before_ms), self.records.clock];
        let Some(call) = self.calls.get(&task) else { return Ok(()) };
        match (&call.sent, reply) {
            (CallRequest::Request { tenant, request, .. }, CallReply::Answer(outcome)) => {
                let address = (*tenant, request.run_id());
                let case = Case { address, request, outcome, from, terms, times, call };
                self.judge_effects(&case, &call.effects)?;
                self.judge_reply(&case)?;
                self.offers.note(address, call, outcome, moment);
                match &**outcome {
                    Ok(Reply::Progress(progress)) => {
                        let watermark = progress.watermark.clone();
                        self.judge_watermark(address, task, watermark, terms)
                    }
                    Ok(_) | Err(_) => Ok(()),
                }
            }
            (CallRequest::Collect(_), CallReply::Collected(Ok(runs))) => self.judge_collected(runs),
            (CallRequest::ListActive, CallReply::Active(Ok(runs))) => self.judge_active(runs, from),
            _ => Ok(()),
        }
    }

    /// Judges that the history has acknowledged operations, and no refused ones.
    fn judge_effects(&self, case: &Case<'_>, effects: &[Revision]) -> Result<(), Finding> {
        let name = case.request.label();
        let is_done = |op| self.done.contains(&(case.address, op));
        match (case.outcome, case.request.op_id()) {
            (Ok(answer), Some(op)) => {
                // A call may find its own effect in the op log, and report it as a replay.
                if !is_done(op) || effects.len() > 1 {
                    let text = format!("{name} answered {answer:?}, done at {effects:?}");
                    return Err(finding(ACKNOWLEDGED, text));
                }
                Ok(())
            }
            // A renewal may be applied, and the lease expire before the answer.
            (outcome, op)
                if is_inert(outcome)
                    && !effects.is_empty()
                    && (op.is_some() || case.request.lease().is_none()) =>
            {
                let text = format!("{name} took effect at {effects:?}, answered: {outcome:?}");
                Err(finding(INERT, text))
            }
            (Ok(Reply::Granted(granted)), None) => self.judge_granted(case, granted),
            (Ok(Reply::Renewed(renewed)), None) => {
                let Some(lease) = case.request.lease() else { return Ok(()) };
                let deadline = renewed.new_deadline.as_millis();
                let (shard, fence) = (lease.key().shard, lease.fence().as_raw());
                if self.deadlines.contains(&(case.address, shard, fence, deadline)) {
                    return Ok(());
                }
                Err(finding(ACKNOWLEDGED, format!("renewed until {deadline}, not stored")))
            }
            (Ok(Reply::Done), None) => match case.request {
                Request::RequestSplit(_) if case.call.patience_ms() == Some(0) => {
                    Err(finding(ACKNOWLEDGED, "a split was requested with a wait of zero".into()))
                }
                Request::CreateRun(CreateRun { run, .. })
                    if !self.versions.contains_key(&case.address) =>
                {
                    Err(finding(ACKNOWLEDGED, format!("run {run} created, not stored")))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn judge_granted(&self, case: &Case<'_>, granted: &RestoredShardState) -> Result<(), Finding> {
        let (shard, fence) = (granted.lease.key().shard, granted.lease.fence().as_raw());
        let stored = self.grants.get(&(case.address, shard, fence));
        let same = stored.is_some_and(|stored| {
            stored.lease == granted.lease
                && stored.spec == granted.spec
                && stored.cursor == granted.cursor
                && stored.spawned == granted.spawned
                && stored.parent == granted.parent
                && stored.cursor_semantics == granted.cursor_semantics
                && stored.acquires == granted.acquires
                && stored.acquires_without_progress == granted.acquires_without_progress
        });
        if same {
            return Ok(());
        }
        Err(finding(ACKNOWLEDGED, format!("granted {granted:?}, stored is {stored:?}")))
    }

    /// The versions of a run since a moment.
    pub(super) fn versions_since(&self, address: Address, from: Revision) -> &[Version] {
        let versions = self.versions.get(&address).map(Vec::as_slice).unwrap_or_default();
        let later = versions.partition_point(|version| version.at <= from);
        versions.get(later.saturating_sub(1)..).unwrap_or_default()
    }

    /// Whether the run did not exist at a moment.
    fn was_absent(&self, address: Address, from: Revision) -> bool {
        let first = self.versions.get(&address).and_then(|versions| versions.first());
        first.is_none_or(|first| first.at > from)
    }

    fn judge_reply(&self, case: &Case<'_>) -> Result<(), Finding> {
        let seen = case.observation(LogicalTime::ZERO);
        let verdict = TENANTS.verdict(&seen, &self.model);
        verdict.map_err(|text| finding(TENANTS, text))?;
        match case.outcome {
            Err(CoordError::BackendError(InfraError::Corrupt { message, .. })) => {
                self.judge_corrupt(case, message)
            }
            Err(CoordError::BackendError(_)) => Ok(()),
            // Refusals of a run that is being deleted depend on how much of it is left.
            Err(_) if self.was_going(case) => Ok(()),
            Err(refusal) => self.judge_refusal(case, refusal),
            Ok(answer) => self.judge_shown(case, answer),
        }
    }

    /// Whether a run was being deleted at some moment of a call. Once it is deleted, the only true
    /// refusal is that it does not exist.
    fn was_going(&self, case: &Case<'_>) -> bool {
        let is_left = self.records.runs.contains_key(&case.address);
        let was_left = self.gone.get(&case.address).is_some_and(|gone| *gone > case.from);
        was_left || (is_left && self.collected.contains(&case.address))
    }

    /// Only operations that need a damaged shard may fail for it.
    fn judge_corrupt(&self, case: &Case<'_>, message: &str) -> Result<(), Finding> {
        let of_run = || self.harmed.iter().any(|(address, _)| *address == case.address);
        let is_so = match (case.request, case.request.shard_id()) {
            (_, Some(shard)) => self.harmed.contains(&(case.address, shard)),
            (
                Request::GetRunProgress(_)
                | Request::ListShards(_)
                | Request::ChangeRun(ChangeRun { change: RunTransition::Complete, .. }),
                None,
            ) => of_run(),
            _ => false,
        };
        if is_so {
            return Ok(());
        }
        Err(finding(QUARANTINE, format!("{} failed: {message}", case.request.label())))
    }

    fn judge_refusal(&self, case: &Case<'_>, refusal: &CoordError) -> Result<(), Finding> {
        let judged = match refusal {
            // Requests are advice, and not part of the history of shards.
            CoordError::SplitAlreadyRequested(_) => Some(self.is_request_open(case)),
            CoordError::SplitRequestOver(reason) => Some(case.was_over(reason)),
            CoordError::SplitDeclined(reason) => Some(self.was_declined(case, reason)),
            CoordError::NoneAvailable(reason) => {
                let ends_first = self.may_end_first(case, reason.earliest_deadline);
                Some(ends_first && self.may_offer_nothing(case))
            }
            CoordError::ShardLimitExceeded(violation)
            | CoordError::SplitInvalid(SplitInvalid::ShardLimitExceeded(violation)) => {
                Some(self.was_full(case, violation))
            }
            CoordError::SplitInvalid(SplitInvalid::BackendChildLimitExceeded { .. }) => {
                case.terms.small_commits.then_some(true)
            }
            _ => None,
        };
        let is_true = judged.unwrap_or_else(|| self.was_true(case));
        if is_true {
            return Ok(());
        }
        let name = case.request.label();
        Err(finding(REFUSALS, format!("a {name} was refused: {refusal:?}")))
    }

    /// Whether the shards that existed at some moment of the call left no room for more.
    fn was_full(&self, case: &Case<'_>, violation: &ShardLimitViolation) -> bool {
        let ShardLimitViolation { scope, additional, .. } = *violation;
        let max = match scope {
            ShardLimitScope::Tenant => self.model.limits.per_tenant,
            ShardLimitScope::Total => self.model.limits.total,
        };
        let later = self.usage.partition_point(|(at, _)| *at <= case.from);
        let usage = self.usage.get(later.saturating_sub(1)..).unwrap_or_default();
        usage.iter().any(|(_, used)| {
            let used = match scope {
                ShardLimitScope::Tenant => used.get(&case.address.0).copied().unwrap_or_default(),
                ShardLimitScope::Total => used.values().sum(),
            };
            used + additional as u64 > max as u64
        })
    }

    /// Whether a refusal was true at some moment of the call.
    fn was_true(&self, case: &Case<'_>) -> bool {
        let versions = self.versions_since(case.address, case.from);
        let absent = self.was_absent(case.address, case.from).then_some(None);
        let moments = versions.iter().map(|version| version.run.as_deref());
        absent.into_iter().chain(moments).any(|run| {
            let model = self.model_of(case.address, run);
            case.times.iter().any(|now| REFUSALS.verdict(&case.observation(*now), &model).is_ok())
        })
    }

    /// A model of one version of a run.
    fn model_of(&self, address: Address, run: Option<&crate::model::RunModel>) -> Model {
        let runs = run.map(|run| (address.1, run.clone())).into_iter().collect();
        let tenant = TenantModel { tag: 0, workers: 0, runs, cooldowns: BTreeMap::new() };
        let tenants: BTreeMap<TenantId, TenantModel> = [(address.0, tenant)].into();
        let Model { limits, cooldown_ms, skew_ms, floor, bytes_capacity, .. } = self.model;
        Model { tenants, limits, cooldown_ms, skew_ms, floor, bytes_capacity }
    }

    /// No answer shows a lower watermark than an answer before the call did.
    fn judge_watermark(
        &mut self,
        address: Address,
        task: TaskId,
        watermark: Option<Box<[u8]>>,
        terms: Terms,
    ) -> Result<(), Finding> {
        let before = self.calls.get(&task).and_then(|call| call.watermark.clone());
        if watermark < before && !terms.serves_stale {
            let text = format!("watermark {watermark:?} shown after {before:?}");
            return Err(finding(SHOWN, text));
        }
        let shown = self.shown_watermarks.entry(address).or_default();
        *shown = shown.take().max(watermark);
        Ok(())
    }

    /// An earlier collection may have deleted a reported run, because the list of runs may be
    /// stale.
    fn judge_collected(&self, runs: &[RunAddress]) -> Result<(), Finding> {
        for RunAddress { tenant, run } in runs {
            if !self.gone.contains_key(&(*tenant, *run)) {
                let text = format!("run {run} was reported as deleted, and exists");
                return Err(finding(ACKNOWLEDGED, text));
            }
        }
        Ok(())
    }

    fn judge_active(&self, runs: &[RunAddress], from: Revision) -> Result<(), Finding> {
        let is_active = |version: &Version| {
            version.run.as_ref().is_some_and(|run| run.status == RunStatus::Active)
        };
        for address in self.versions.keys() {
            let (tenant, run) = *address;
            let is_listed = runs.contains(&RunAddress { tenant, run });
            let versions = self.versions_since(*address, from);
            let was_there = !self.was_absent(*address, from);
            let always = was_there && !versions.is_empty() && versions.iter().all(is_active);
            let ever = versions.iter().any(is_active);
            if (always && !is_listed) || (is_listed && !ever) {
                let text = format!("run {run} listed as active: {is_listed}");
                return Err(finding(SHOWN, text));
            }
        }
        Ok(())
    }
}

impl<'a> Case<'a> {
    pub(super) const fn serves_stale(&self) -> bool {
        self.terms.serves_stale
    }

    fn observation(&self, now: LogicalTime) -> Observation<'a> {
        Observation {
            now,
            until: self.times[1],
            tenant: self.address.0,
            request: self.request,
            outcome: self.outcome,
            events: &[],
            before: None,
            after: None,
            processed: None,
        }
    }
}
