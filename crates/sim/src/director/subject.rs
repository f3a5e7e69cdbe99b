//! What a director runs, and what actors ask of it.

use shardwright_contracts::{BoxFuture, InfraError, RunId, TenantId};
use shardwright_runs::{Retention, RunAddress};

use super::{Call, Director, Findings};
use crate::keyspace::Point;
use crate::model::Model;
use crate::oracle::Finding;
use crate::request::{Answer, Request, RequestExt};
use crate::rng::Rng;
use crate::runtime::executor::TaskId;
use crate::tally::RunTally;

/// A request of an actor, or a chore of a process.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all of them are the large one")]
pub(crate) enum Ask {
    /// A request of the protocol, with the points that its sender has really processed.
    Request { tenant: TenantId, request: Request, processed: Option<(Point, Point)> },
    /// Delete what is not needed any more.
    Collect(Retention),
    /// List the active runs.
    ListActive,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) enum AskReply {
    Answer(Box<Answer>),
    Collected(Result<Vec<RunAddress>, InfraError>),
    Active(Result<Vec<RunAddress>, InfraError>),
}

impl Ask {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Request { request, .. } => request.label(),
            Self::Collect(_) => "collect",
            Self::ListActive => "list_active_runs",
        }
    }

    /// Whether it is about a run of a tenant.
    pub(crate) fn is_of(&self, tenant: TenantId, run: RunId) -> bool {
        match self {
            Self::Request { tenant: asking, request, .. } => {
                (*asking, request.run_id()) == (tenant, run)
            }
            Self::Collect(_) | Self::ListActive => false,
        }
    }

    pub(crate) const fn request(&self) -> Option<&Request> {
        match self {
            Self::Request { request, .. } => Some(request),
            Self::Collect(_) | Self::ListActive => None,
        }
    }
}

/// What a world is about: a backend, what goes wrong around it, and how it is judged.
pub(crate) trait Subject: Sized {
    /// How a process reaches the backend.
    type Port: Clone + Send + 'static;
    /// What can be scheduled besides.
    type Later;
    /// How many of 1,000 requests of workers and of operators are wrong on purpose.
    const MISUSE: (u64, u64);

    /// The account of what was accepted.
    fn model(&self) -> &Model;

    /// Starts the backend in a process. [`Director::opened`] gets the port, now or later.
    fn open(director: &mut Director<Self>, process: usize);

    /// A process has its port.
    fn opened(&mut self, _process: usize, _port: &Self::Port) {}

    /// A process has crashed.
    fn stopped(&mut self, _process: usize) {}

    /// Calls the backend through a process's port.
    fn put(&self, port: Self::Port, ask: Ask, process: usize) -> BoxFuture<'static, AskReply>;

    /// A call has begun.
    fn called(director: &mut Director<Self>, task: TaskId, ask: Ask, call: &Call);

    /// The sender of a call does not wait for its answer any more.
    fn abandoned(&mut self, _task: TaskId, _now_ms: u64) {}

    /// Judges what took effect since the last time.
    fn follow(director: &mut Director<Self>) -> Result<(), Findings>;

    /// Judges an answer and counts it.
    fn judge_answer(
        director: &mut Director<Self>,
        task: TaskId,
        told: &AskReply,
    ) -> Result<(), Finding>;

    /// How long it takes in chaos until the next act.
    fn pause_us(rng: &mut Rng) -> u64;

    /// One act of chaos.
    fn act(director: &mut Director<Self>) -> Result<(), Findings>;

    /// Whether no tenant has work left or can get more.
    fn is_exhausted(_director: &Director<Self>) -> bool {
        false
    }

    /// Whether an operator gives a run up, although faults have stopped.
    fn is_hopeless(_director: &mut Director<Self>) -> bool {
        false
    }

    /// When something happens in the backend by itself.
    fn next_moment_us(&self, _now_us: u64) -> Option<u64> {
        None
    }

    /// Time has passed.
    fn time_passed(&mut self) {}

    /// Something that was scheduled happens now.
    fn happen(director: &mut Director<Self>, later: Self::Later);

    /// Faults stop.
    fn heal(director: &mut Director<Self>);

    /// Every run has ended.
    fn conclude(director: &mut Director<Self>) -> Result<(), Findings>;

    /// Counts what the subject knows of faults.
    fn count(&self, tally: &mut RunTally);
}
