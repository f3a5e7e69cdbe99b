//! The oracles: each is a claim that must hold for everything the system accepts and shows.
//!
//! An oracle sees one request with its outcome, the visible state before and after, and the
//! [`Model`] of everything accepted before. Some oracles judge before the outcome is applied to the
//! model, some after. Some claims are about the world as a whole, and the world judges them:
//! [`ISOLATION`], [`ROTATION`], [`LIVENESS`] and [`ASSERTIONS`].

mod answers;
mod effects;
mod events;
mod limits;
mod ownership;
mod progress;
mod refusals;

use shardwright_contracts::{LogicalTime, TenantId};
use shardwright_coordination::{Lease, StateTransitionEvent};

use crate::keyspace::Point;
use crate::model::{Model, RunModel, ShardModel};
use crate::request::{Answer, Reply, Request, RequestExt};
use crate::visible::RunView;

/// One request and everything observable about its effect.
#[derive(Clone, Copy)]
pub struct Observation<'a> {
    /// The time on the caller's clock, or the earliest time of the decision.
    pub now: LogicalTime,
    /// The latest time of the decision.
    pub until: LogicalTime,
    /// The tenant of the sender.
    pub tenant: TenantId,
    /// The request.
    pub request: &'a Request,
    /// Its answer.
    pub outcome: &'a Answer,
    /// The events that the system published.
    pub events: &'a [StateTransitionEvent],
    /// The run before.
    pub before: Option<&'a RunView>,
    /// The run after.
    pub after: Option<&'a RunView>,
    /// The first and last point that the sender actually processed under its lease.
    pub processed: Option<(Point, Point)>,
}

impl<'a> Observation<'a> {
    /// The answer, if the request took effect just now.
    #[must_use]
    pub fn executed(&self) -> Option<&'a Reply> {
        self.outcome.as_ref().ok().filter(|reply| !reply.is_replay() && !self.request.is_query())
    }

    /// The lease of a write that took effect just now.
    #[must_use]
    pub fn write(&self) -> Option<&'a Lease> {
        self.request.lease().filter(|_| self.executed().is_some())
    }

    /// The model of the request's run.
    #[must_use]
    pub fn run<'m>(&self, model: &'m Model) -> Option<&'m RunModel> {
        model.run(self.tenant, self.request.run_id())
    }

    /// The model of the request's shard.
    #[must_use]
    pub fn shard<'m>(&self, model: &'m Model) -> Option<&'m ShardModel> {
        model.shard(self.tenant, self.request.run_id(), self.request.shard_id()?)
    }
}

/// Ok if a claim holds, else the reason why it does not.
pub type Verdict = Result<(), String>;

type Judge = fn(&Observation<'_>, &Model) -> Verdict;

/// One claim, and how to judge it.
pub struct Oracle {
    /// Name in reports and tables.
    pub name: &'static str,
    /// The claim.
    pub sentence: &'static str,
    before: Option<Judge>,
    after: Option<Judge>,
    /// Whether it can judge a commit of a store, without the answer.
    judges_commits: bool,
}

impl Oracle {
    const fn before(name: &'static str, sentence: &'static str, judge: Judge) -> Self {
        Self { name, sentence, before: Some(judge), after: None, judges_commits: true }
    }

    const fn after(name: &'static str, sentence: &'static str, judge: Judge) -> Self {
        Self { name, sentence, before: None, after: Some(judge), judges_commits: true }
    }

    const fn both(name: &'static str, sentence: &'static str, before: Judge, after: Judge) -> Self {
        Self { name, sentence, before: Some(before), after: Some(after), judges_commits: true }
    }

    /// The same oracle, for worlds that judge answers.
    const fn of_answers(self) -> Self {
        Self { judges_commits: false, ..self }
    }

    /// Its verdict on one request, before the request is applied to the model.
    pub(crate) fn verdict(&self, seen: &Observation<'_>, model: &Model) -> Verdict {
        self.before.map_or(Ok(()), |judge| judge(seen, model))
    }

    pub(crate) const fn of_the_world(name: &'static str, sentence: &'static str) -> Self {
        Self { name, sentence, before: None, after: None, judges_commits: false }
    }
}

/// Judged by the world, which also sees the runs that a request does not name.
pub const ISOLATION: &Oracle =
    &Oracle::of_the_world("isolation", "a request changes nothing outside its run");
/// Judged by the world, which repeats the request for another worker.
pub const ROTATION: &Oracle = &Oracle::of_the_world(
    "claim rotation",
    "workers with neighbouring ids are offered different shards first",
);
/// Judged by the world once it has healed.
pub const LIVENESS: &Oracle =
    &Oracle::of_the_world("liveness", "after faults stop, every run ends");
/// Judged by the director.
pub const ASSERTIONS: &Oracle =
    &Oracle::of_the_world("assertions", "no assertion of the product ever fails");

/// Every oracle.
pub const ALL: &[&Oracle] = &[
    &ownership::WRITER,
    &ownership::FENCE,
    &ownership::HOLDER,
    &ownership::GRANTS,
    &ownership::PARKING,
    &ownership::UNHELD,
    &progress::CURSOR,
    &progress::TILING,
    &effects::TERMINAL,
    &ownership::RUN_GATE,
    &effects::REPLAY,
    &effects::INERT,
    &refusals::ORACLE,
    &answers::TENANTS,
    &progress::COUNTERS,
    &answers::CAPACITY,
    &progress::WATERMARK,
    &progress::COMPLETENESS,
    &events::ORACLE,
    &limits::LIMITS,
    &answers::SPLIT_REQUESTS,
    &effects::AGREEMENT,
    ISOLATION,
    ROTATION,
    LIVENESS,
    ASSERTIONS,
];

/// A claim that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The oracle's name.
    pub oracle: &'static str,
    /// What contradicts the claim.
    pub text: String,
}

// Oracles that the stored worlds apply to answers.
pub(crate) const REFUSALS: &Oracle = &refusals::ORACLE;
pub(crate) const TENANTS: &Oracle = &answers::TENANTS;
pub(crate) const UNHELD: &Oracle = &ownership::UNHELD;

/// Judges one request by all oracles, and applies it to the model in between.
pub fn judge(seen: &Observation<'_>, model: &mut Model) -> Vec<Finding> {
    judge_by(ALL.iter().copied(), seen, model)
}

/// Judges a commit by the oracles that need no answer.
pub(crate) fn judge_commit(seen: &Observation<'_>, model: &mut Model) -> Vec<Finding> {
    judge_by(ALL.iter().copied().filter(|oracle| oracle.judges_commits), seen, model)
}

fn judge_by<'o>(
    oracles: impl Iterator<Item = &'o Oracle> + Clone,
    seen: &Observation<'_>,
    model: &mut Model,
) -> Vec<Finding> {
    let finding = |oracle: &Oracle, verdict: Verdict| {
        verdict.err().map(|text| Finding { oracle: oracle.name, text })
    };
    let mut findings = Vec::new();
    for oracle in oracles.clone() {
        let verdict = oracle.before.map_or(Ok(()), |judge| judge(seen, model));
        findings.extend(finding(oracle, verdict));
    }
    model.apply(seen);
    for oracle in oracles {
        let verdict = oracle.after.map_or(Ok(()), |judge| judge(seen, model));
        findings.extend(finding(oracle, verdict));
    }
    findings
}

/// Ok if `holds`, else the reason why not.
fn ensure(holds: bool, text: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(text()) }
}
