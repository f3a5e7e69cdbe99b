//! The oracles: each a sentence that must be true of everything the system accepts and shows.
//!
//! An oracle sees one request with its outcome, what was visible before and after, and the
//! [`Model`], which knows what was accepted before. Some judge before the model learns of the
//! outcome, some after it did. Some sentences are about the world as a whole and are judged by
//! the world: [`ISOLATION`], [`ROTATION`], [`LIVENESS`] and [`ASSERTIONS`].

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

/// One request and all that can be known of what it did.
#[derive(Clone, Copy)]
pub struct Observation<'a> {
    /// What the caller's clock showed, or the earliest time at which it was decided.
    pub now: LogicalTime,
    /// The latest time at which it was decided.
    pub until: LogicalTime,
    /// Who asked.
    pub tenant: TenantId,
    /// What was asked.
    pub request: &'a Request,
    /// What was answered.
    pub outcome: &'a Answer,
    /// What the system said happened.
    pub events: &'a [StateTransitionEvent],
    /// The run before.
    pub before: Option<&'a RunView>,
    /// The run after.
    pub after: Option<&'a RunView>,
    /// The points that the sender had really processed under its lease, first and last.
    pub processed: Option<(Point, Point)>,
}

impl<'a> Observation<'a> {
    /// The answer, if the request took effect just now.
    #[must_use]
    pub fn executed(&self) -> Option<&'a Reply> {
        self.outcome.as_ref().ok().filter(|reply| !reply.is_replay() && !self.request.is_query())
    }

    /// The lease under which a write took effect just now.
    #[must_use]
    pub fn write(&self) -> Option<&'a Lease> {
        self.request.lease().filter(|_| self.executed().is_some())
    }

    /// The run that the request is about, as the model knows it.
    #[must_use]
    pub fn run<'m>(&self, model: &'m Model) -> Option<&'m RunModel> {
        model.run(self.tenant, self.request.run_id())
    }

    /// The shard that the request is about, as the model knows it.
    #[must_use]
    pub fn shard<'m>(&self, model: &'m Model) -> Option<&'m ShardModel> {
        model.shard(self.tenant, self.request.run_id(), self.request.shard_id()?)
    }
}

/// Whether an oracle is content, and if not, why.
pub type Verdict = Result<(), String>;

type Judge = fn(&Observation<'_>, &Model) -> Verdict;

/// One sentence, and how to tell whether it is true.
pub struct Oracle {
    /// Its name, as reports and tables show it.
    pub name: &'static str,
    /// What must be true.
    pub sentence: &'static str,
    before: Option<Judge>,
    after: Option<Judge>,
}

impl Oracle {
    const fn before(name: &'static str, sentence: &'static str, judge: Judge) -> Self {
        Self { name, sentence, before: Some(judge), after: None }
    }

    const fn after(name: &'static str, sentence: &'static str, judge: Judge) -> Self {
        Self { name, sentence, before: None, after: Some(judge) }
    }

    const fn both(name: &'static str, sentence: &'static str, before: Judge, after: Judge) -> Self {
        Self { name, sentence, before: Some(before), after: Some(after) }
    }

    /// What it says of one request, going by what was accepted before.
    pub(crate) fn verdict(&self, seen: &Observation<'_>, model: &Model) -> Verdict {
        self.before.map_or(Ok(()), |judge| judge(seen, model))
    }

    pub(crate) const fn of_the_world(name: &'static str, sentence: &'static str) -> Self {
        Self { name, sentence, before: None, after: None }
    }
}

/// Judged by the world, which knows of the runs that a request was not about.
pub const ISOLATION: &Oracle =
    &Oracle::of_the_world("isolation", "a request changes nothing outside its run");
/// Judged by the world, which asks twice.
pub const ROTATION: &Oracle = &Oracle::of_the_world(
    "claim rotation",
    "workers with neighbouring ids are offered different shards first, so that none always comes \
     second",
);
/// Judged by the world once it has healed.
pub const LIVENESS: &Oracle =
    &Oracle::of_the_world("liveness", "once faults stop and the clock runs on, every run ends");
/// Judged by whoever runs the world.
pub const ASSERTIONS: &Oracle =
    &Oracle::of_the_world("assertions", "no assertion of the protocol's own ever fires");

/// Every oracle.
pub const ALL: &[&Oracle] = &[
    &ownership::WRITER,
    &ownership::FENCE,
    &ownership::HOLDER,
    &ownership::HANDING_OUT,
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

/// A sentence that turned out to be false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The oracle's name.
    pub oracle: &'static str,
    /// What it saw.
    pub text: String,
}

/// Those that judge what was stored, whoever was told what: not what they say of answers.
pub const OF_STEPS: &[&Oracle] = &[
    &ownership::WRITER,
    &ownership::FENCE,
    &ownership::HOLDER,
    &ownership::HANDING_OUT,
    &ownership::PARKING,
    &ownership::UNHELD,
    &progress::CURSOR,
    &progress::TILING,
    &effects::TERMINAL,
    &ownership::RUN_GATE,
    &effects::REPLAY,
    &effects::INERT,
    &answers::TENANTS,
    &progress::WATERMARK,
    &progress::COMPLETENESS,
    &limits::LIMITS,
    &effects::AGREEMENT,
];

/// Those that judge an answer by what is known of the run.
pub(crate) const REFUSALS: &Oracle = &refusals::ORACLE;
pub(crate) const TENANTS: &Oracle = &answers::TENANTS;
pub(crate) const UNHELD: &Oracle = &ownership::UNHELD;

/// Hears all oracles on one request, and lets the model learn of it in between.
pub fn judge(seen: &Observation<'_>, model: &mut Model) -> Vec<Finding> {
    judge_by(ALL, seen, model)
}

/// Hears some oracles on one request, and lets the model learn of it in between.
pub fn judge_by(oracles: &[&Oracle], seen: &Observation<'_>, model: &mut Model) -> Vec<Finding> {
    let mut findings = Vec::new();
    let hear = |oracle: &Oracle, verdict: Verdict| {
        verdict.err().map(|text| Finding { oracle: oracle.name, text })
    };
    for oracle in oracles {
        if let Some(judge) = oracle.before {
            findings.extend(hear(oracle, judge(seen, model)));
        }
    }
    model.apply(seen);
    for oracle in oracles {
        if let Some(judge) = oracle.after {
            findings.extend(hear(oracle, judge(seen, model)));
        }
    }
    findings
}

/// Content if `holds`; else tells why not.
fn ensure(holds: bool, text: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(text()) }
}
