//! The history of the store, judged revision by revision.
//!
//! Every revision is decomposed into steps. The oracles judge each step, with the run before and
//! after it, and the model applies it. Answers are compared with that history in
//! [`super::answers`].

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shardwright_contracts::{LogicalTime, OpId, ShardId, TenantId};
use shardwright_coordination::{RestoredShardState, RunRecord, RunStatus, ShardSummary};
use shardwright_runs::records::RunHeadRecord;
use shardwright_store::memory::MemoryStore;
use shardwright_store::{ChangeSet, Commit, Expect, Key, Revision, StoreRange};

use super::offers::{Life, Offers};
use super::record_checks::{Address, REMOVAL, RecordChecks, TIME, Touched};
use super::steps::{self, AuthorCall, EXPLAINED, Step};
use crate::director::{CallReply, CallRequest};
use crate::model::{Model, RunModel};
use crate::oracle::{Finding, Observation, Oracle, judge_commit};
use crate::request::operation::Renew;
use crate::request::{Reply, Request, RequestExt};
use crate::runtime::executor::TaskId;
use crate::runtime::faults::{Author, Faults};
use crate::tally::Tally;
use crate::trace::Trace;
use crate::visible::RunView;

pub(crate) const ONCE: &Oracle = &Oracle::of_the_world(
    "no commit applies twice",
    "a late duplicate of a commit changes nothing",
);
pub(crate) const INERT: &Oracle = &Oracle::of_the_world(
    "refused means no effect",
    "a call has no effect after its caller got a refusal or `NotApplied`",
);
pub(crate) const QUARANTINE: &Oracle =
    &Oracle::of_the_world("quarantine", "a damaged record stops its own shard and no other");

/// A call and its outcome.
pub(crate) struct CallRecord {
    pub(crate) sent: CallRequest,
    /// The process that was called.
    pub(crate) life: Life,
    pub(crate) started: Revision,
    /// When the sender sent it.
    pub(crate) sent_ms: u64,
    /// The earliest time of the decision, on the clock of the process.
    pub(crate) not_before_ms: u64,
    /// The latest time of the decision, if it was answered.
    pub(crate) not_after: Option<LogicalTime>,
    /// When it was answered or abandoned.
    pub(crate) ended_ms: Option<u64>,
    pub(crate) state: CallState,
    /// The highest watermark of the run that was shown before.
    pub(crate) watermark: Option<Box<[u8]>>,
    /// The revisions at which it took effect.
    pub(crate) effects: Vec<Revision>,
}

impl CallRecord {
    /// A call that starts now.
    pub(crate) const fn new(
        sent: CallRequest,
        life: Life,
        started: Revision,
        sent_ms: u64,
        not_before_ms: u64,
    ) -> Self {
        Self {
            sent,
            life,
            started,
            sent_ms,
            not_before_ms,
            not_after: None,
            ended_ms: None,
            state: CallState::Open,
            watermark: None,
            effects: Vec::new(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum CallState {
    Open,
    /// The sender no longer waits.
    Abandoned,
    Answered(CallReply),
}

/// One version of a run, as queries show it.
pub(crate) struct Version {
    pub(crate) at: Revision,
    pub(crate) at_ms: u64,
    pub(crate) run: Option<Rc<RunModel>>,
    pub(crate) record: Option<Rc<RunRecord>>,
    pub(crate) shards: Rc<Vec<ShardSummary>>,
}

/// The history so far.
pub(crate) struct CallLog {
    pub(crate) records: RecordChecks,
    pub(crate) model: Model,
    pub(crate) calls: BTreeMap<TaskId, CallRecord>,
    pub(crate) versions: BTreeMap<Address, Vec<Version>>,
    /// Operations that took effect, by op id.
    pub(crate) done: BTreeSet<(Address, OpId)>,
    /// Every shard as it was granted, by fence.
    pub(crate) grants: BTreeMap<(Address, ShardId, u64), RestoredShardState>,
    /// The deadlines that each lease had.
    pub(crate) deadlines: BTreeSet<(Address, ShardId, u64, u64)>,
    /// Runs that are being deleted, or are deleted.
    pub(crate) collected: BTreeSet<Address>,
    /// The revision at which a run was completely deleted.
    pub(crate) gone: BTreeMap<Address, Revision>,
    pub(crate) offers: Offers,
    /// The numbers of existing shards by tenant, whenever they changed.
    pub(crate) usage: Vec<(Revision, BTreeMap<TenantId, u64>)>,
    /// Shards whose records are damaged, and those whose records ever were.
    pub(crate) damaged: BTreeSet<(Address, ShardId)>,
    pub(crate) harmed: BTreeSet<(Address, ShardId)>,
    pub(crate) shown_watermarks: BTreeMap<Address, Option<Box<[u8]>>>,
    /// Published events.
    pub(crate) events: BTreeSet<(Address, String)>,
    everything: StoreRange,
    seen: Revision,
    now_ms: u64,
    views: BTreeMap<Address, RunView>,
}

impl CallLog {
    pub(crate) fn new(records: RecordChecks, model: Model, everything: StoreRange) -> Self {
        Self {
            records,
            model,
            calls: BTreeMap::new(),
            versions: BTreeMap::new(),
            done: BTreeSet::new(),
            grants: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            collected: BTreeSet::new(),
            gone: BTreeMap::new(),
            offers: Offers::default(),
            usage: Vec::new(),
            damaged: BTreeSet::new(),
            harmed: BTreeSet::new(),
            shown_watermarks: BTreeMap::new(),
            events: BTreeSet::new(),
            everything,
            seen: Revision::ZERO,
            now_ms: 0,
            views: BTreeMap::new(),
        }
    }

    /// The current time.
    pub(crate) const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The revision up to which the history was read.
    pub(crate) const fn seen(&self) -> Revision {
        self.seen
    }

    /// Reads and judges the revisions since the last call.
    pub(crate) fn follow(
        &mut self,
        store: &MemoryStore,
        now_ms: u64,
        faults: &Faults,
        tally: &mut Tally,
        trace: &mut Trace,
    ) -> Result<(), Vec<Finding>> {
        self.now_ms = now_ms;
        let now = store.revision();
        if now == self.seen {
            return Ok(());
        }
        let sets = store.inspect(|state| state.changes(&self.everything, self.seen, now));
        let sets = sets.map_err(|_| vec![unread()])?;
        self.seen = now;
        let (authors, twice) = {
            let mut faults = faults.lock();
            (std::mem::take(&mut faults.authors), std::mem::take(&mut faults.applied_twice))
        };
        for set in sets {
            let author = authors.get(&set.revision).copied();
            self.judge(&set, author, tally, trace)?;
        }
        match twice.iter().find(|(revision, commit)| !self.recreates_a_run(*revision, commit)) {
            Some((revision, commit)) => {
                let keys = commit.writes().iter().map(|write| write.key().to_string());
                let keys = keys.collect::<Vec<_>>().join(", ");
                let text = format!("revision {revision} repeats a commit of {keys}");
                Err(vec![Finding { oracle: ONCE.name, text }])
            }
            None => Ok(()),
        }
    }

    /// Whether a commit creates a run that was deleted before. A late copy of its creation may do
    /// that, without shards.
    fn recreates_a_run(&self, revision: Revision, commit: &Commit) -> bool {
        let is_gone = |key: &Key| {
            let run = self.records.keys.parse_run(key);
            run.and_then(|run| self.gone.get(&run)).is_some_and(|gone| *gone < revision)
        };
        commit.expectations().iter().all(|it| it.expect == Expect::Absent)
            && commit.writes().iter().any(|write| is_gone(write.key()))
    }

    fn judge(
        &mut self,
        set: &ChangeSet,
        author: Option<Author>,
        tally: &mut Tally,
        trace: &mut Trace,
    ) -> Result<(), Vec<Finding>> {
        if author.is_some_and(|author| author.by_fault) {
            trace.line(format_args!("r{} a fault wrote a record", set.revision));
            return Ok(());
        }
        let touched = self.records.apply(set).map_err(|finding| vec![finding])?;
        self.records.check(&touched).map_err(|finding| vec![finding])?;
        self.check_damaged(&touched)?;
        self.note_unbound(&touched);
        let task = author.and_then(|author| author.task);
        self.check_decline(set, task)?;
        for step in self.take_apart(&touched, task)? {
            tally.steps += 1;
            note(set.revision, author, &step, trace);
            self.judge_step(set.revision, &step, task)?;
        }
        self.remember(set.revision, &touched);
        self.note_usage(set.revision);
        for address in touched.runs.keys().filter(|it| !self.records.runs.contains_key(*it)) {
            self.gone.insert(*address, set.revision);
            // A late retry may create a run of that id again.
            self.events.retain(|(of, _)| of != address);
        }
        Ok(())
    }

    fn check_damaged(&mut self, touched: &Touched) -> Result<(), Vec<Finding>> {
        for ((address, shard), what) in &touched.shards {
            let is_there = self.records.runs.get(address).is_some_and(|run| {
                run.shards.get(shard).is_some_and(|shard| shard.record.is_some())
            });
            if !is_there {
                self.damaged.remove(&(*address, *shard));
            } else if what.progressed && self.damaged.contains(&(*address, *shard)) {
                let text = format!("damaged shard {shard} of run {} changed", address.1);
                return Err(vec![Finding { oracle: QUARANTINE.name, text }]);
            }
        }
        Ok(())
    }

    /// Notes owners whose session has ended before their lease.
    fn note_unbound(&mut self, touched: &Touched) {
        for (address, shard) in &touched.owners {
            if touched.shards.contains_key(&(*address, *shard)) {
                continue;
            }
            let state = self.records.runs.get(address).and_then(|run| run.shards.get(shard));
            let is_unbound = state.is_some_and(|state| state.owner.is_none());
            let run = self.model.tenants.get_mut(&address.0);
            let run = run.and_then(|tenant| tenant.runs.get_mut(&address.1));
            if let Some(shard) = run.and_then(|run| run.shards.get_mut(shard)) {
                shard.unbound = is_unbound && shard.lease.is_some();
            }
        }
    }

    /// The steps of a revision.
    fn take_apart(
        &mut self,
        touched: &Touched,
        task: Option<TaskId>,
    ) -> Result<Vec<Step>, Vec<Finding>> {
        let call = task.and_then(|task| self.calls.get(&task));
        let not_before = LogicalTime::from_millis(call.map_or(0, |call| call.not_before_ms));
        let sent = call.map(|call| call.sent.clone());
        let mut steps = Vec::new();
        for (address, before) in &touched.runs {
            if let Some(step) = self.run_step(*address, before.as_ref(), sent.as_ref())? {
                steps.push(step);
            }
        }
        for ((address, id), what) in &touched.shards {
            let Some(state) = self.records.runs.get(address) else { continue };
            let Some(run) = &state.run else { continue };
            let was = touched.runs.get(address).map(|before| before.as_ref());
            let was_staged = was.flatten().unwrap_or(run).status == RunStatus::Initializing;
            let has_begun = state.manifest.is_some();
            if self.records.is_going(*address) || was_staged || !has_begun {
                continue;
            }
            let after = state.shards.get(id).and_then(|shard| shard.record.as_ref());
            let step = match (&what.before, after) {
                (Some(before), Some(after)) => {
                    let not_after = self.records.clock;
                    let asked = AuthorCall { sent: sent.as_ref(), not_before, not_after };
                    steps::of_shard(*address, &run.config, before, after, asked)
                }
                (Some(_), None) => {
                    let text = format!("shard {id} of run {} was deleted", address.1);
                    Err(Finding { oracle: REMOVAL.name, text })
                }
                // It is judged with the split that created it.
                (None, _) => Ok(None),
            };
            steps.extend(step.map_err(|finding| vec![finding])?);
        }
        if steps.len() > 1 {
            let names: Vec<_> = steps.iter().map(|step| step.request.label()).collect();
            let text = format!("one commit did {names:?}");
            return Err(vec![Finding { oracle: EXPLAINED.name, text }]);
        }
        for address in &touched.watermarks {
            if let Some(view) = self.records.view(*address) {
                steps.push(steps::of_watermark(*address, view.progress));
            }
        }
        Ok(steps)
    }

    fn run_step(
        &mut self,
        address: Address,
        before: Option<&RunHeadRecord>,
        sent: Option<&CallRequest>,
    ) -> Result<Option<Step>, Vec<Finding>> {
        let after = self.records.runs.get(&address).and_then(|state| state.run.as_ref());
        if after.is_none() || self.records.is_going(address) {
            self.collected.insert(address);
            self.views.remove(&address);
            if let Some(tenant) = self.model.tenants.get_mut(&address.0) {
                tenant.runs.remove(&address.1);
            }
            return Ok(None);
        }
        let Some(after) = after else { return Ok(None) };
        self.collected.remove(&address);
        steps::of_run(address, before, after, sent).map_err(|finding| vec![finding])
    }

    /// Judges a step, and applies it to the model.
    fn judge_step(
        &mut self,
        at: Revision,
        step: &Step,
        task: Option<TaskId>,
    ) -> Result<(), Vec<Finding>> {
        let address = (step.tenant, step.request.run_id());
        let after = self.records.view(address);
        let before = self.views.remove(&address);
        let seen = Observation {
            now: step.now,
            until: step.now,
            tenant: step.tenant,
            request: &step.request,
            outcome: &step.outcome,
            events: &step.events,
            before: before.as_ref(),
            after: after.as_ref(),
            processed: step.processed,
        };
        let findings = judge_commit(&seen, &mut self.model);
        if let Some(after) = after {
            self.views.insert(address, after);
        }
        if !findings.is_empty() {
            return Err(findings);
        }
        if let (Some(op), Ok(_)) = (step.request.op_id(), &step.outcome) {
            self.done.insert((address, op));
        }
        self.check_time(step, task)?;
        self.note_lease(address, step);
        if step.is_wanted {
            self.note_effect(at, step, task)?;
        }
        Ok(())
    }

    /// The deadline of a granted lease shows the time of the grant.
    fn check_time(&self, step: &Step, task: Option<TaskId>) -> Result<(), Vec<Finding>> {
        let call = task.and_then(|task| self.calls.get(&task));
        let not_before = call.map_or(0, |call| call.not_before_ms);
        let is_exact = matches!(step.outcome, Ok(Reply::Granted(_)));
        if is_exact && step.now.as_millis() < not_before {
            let text = format!("a lease was granted at {}, requested after {not_before}", step.now);
            return Err(vec![Finding { oracle: TIME.name, text }]);
        }
        Ok(())
    }

    fn note_lease(&mut self, address: Address, step: &Step) {
        match (&step.request, &step.outcome) {
            (_, Ok(Reply::Granted(granted))) => {
                let (shard, fence) = (granted.lease.key().shard, granted.lease.fence().as_raw());
                self.grants.insert((address, shard, fence), (**granted).clone());
                let deadline = granted.lease.deadline().as_millis();
                self.deadlines.insert((address, shard, fence, deadline));
            }
            (Request::Renew(Renew { lease }), Ok(Reply::Renewed(renewed))) => {
                let (shard, fence) = (lease.key().shard, lease.fence().as_raw());
                let deadline = renewed.new_deadline.as_millis();
                self.deadlines.insert((address, shard, fence, deadline));
            }
            _ => {}
        }
    }

    /// Notes that a call took effect, which its answer must not have denied.
    fn note_effect(
        &mut self,
        at: Revision,
        step: &Step,
        task: Option<TaskId>,
    ) -> Result<(), Vec<Finding>> {
        let Some(call) = task.and_then(|task| self.calls.get_mut(&task)) else { return Ok(()) };
        call.effects.push(at);
        let denied = match &call.state {
            CallState::Answered(CallReply::Answer(outcome)) => {
                steps::is_inert(outcome).then(|| format!("{outcome:?}"))
            }
            CallState::Answered(_) | CallState::Open | CallState::Abandoned => None,
        };
        match denied {
            Some(answer) => {
                let text =
                    format!("a {} took effect after the answer: {answer}", step.request.label());
                Err(vec![Finding { oracle: INERT.name, text }])
            }
            None => Ok(()),
        }
    }

    fn note_usage(&mut self, at: Revision) {
        let used = self.records.used();
        if self.usage.last().is_none_or(|(_, before)| *before != used) {
            self.usage.push((at, used));
        }
    }

    /// Keeps the current versions of runs, to compare later answers.
    fn remember(&mut self, at: Revision, touched: &Touched) {
        let shards = touched.shards.keys().chain(&touched.owners).map(|(address, _)| *address);
        let runs: BTreeSet<Address> = shards.chain(touched.runs.keys().copied()).collect();
        for address in runs {
            let run = self.model.run(address.0, address.1).cloned().map(Rc::new);
            let view = self.records.view(address);
            let (record, shards) = match view {
                Some(view) => (Some(Rc::new(view.record)), view.shards),
                None => (None, Vec::new()),
            };
            let (at_ms, shards) = (self.now_ms, Rc::new(shards));
            let version = Version { at, at_ms, run, record, shards };
            self.versions.entry(address).or_default().push(version);
        }
    }
}

fn unread() -> Finding {
    Finding { oracle: EXPLAINED.name, text: "the history was compacted unread".into() }
}

fn note(at: Revision, author: Option<Author>, step: &Step, trace: &mut Trace) {
    let request = &step.request;
    let (run, shard) = (request.run_id().as_raw(), request.shard_id().map_or(0, |it| it.as_raw()));
    let op = request.op_id().map_or(0, |op| op.as_raw());
    let process = author.map_or(0, |author| author.process + 1);
    let tenant = step.tenant.as_bytes().first().copied().unwrap_or_default();
    let now = step.now.as_millis();
    trace.line(format_args!(
        "r{at} by process {process} at {now}: {} tenant {tenant} run {run} shard {shard:x} op {op}",
        request.label(),
    ));
}
