//! The subject of a world, and the calls that actors make to it.

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

/// A request of an actor, or a maintenance task of a process.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all of them are the large one")]
pub(crate) enum CallRequest {
    /// A request of the protocol, with the points that its sender has actually processed.
    Request { tenant: TenantId, request: Request, processed: Option<(Point, Point)> },
    /// Delete runs that have ended.
    Collect(Retention),
    /// List the active runs.
    ListActive,
}

/// The outcome of a call.
#[derive(Clone, Debug)]
pub(crate) enum CallReply {
    Answer(Box<Answer>),
    Collected(Result<Vec<RunAddress>, InfraError>),
    Active(Result<Vec<RunAddress>, InfraError>),
}

impl CallRequest {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Request { request, .. } => request.label(),
            Self::Collect(_) => "collect",
            Self::ListActive => "list_active_runs",
        }
    }

    /// Whether it names this run of this tenant.
    pub(crate) fn is_of(&self, tenant: TenantId, run: RunId) -> bool {
        match self {
            Self::Request { tenant: sender, request, .. } => {
                (*sender, request.run_id()) == (tenant, run)
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

/// The subject of a world: a backend, the faults around it, and how it is judged.
pub(crate) trait Subject: Sized {
    /// A process's handle of the backend.
    type Port: Clone + Send + 'static;
    /// Further scheduled events.
    type Scheduled;
    /// Share of requests that are wrong on purpose, in permille, of workers and of operators.
    const MISUSE: (u64, u64);

    /// The model of all accepted requests.
    fn model(&self) -> &Model;

    /// Starts the backend in a process. [`Director::opened`] gets the port, now or later.
    fn open(director: &mut Director<Self>, process: usize);

    /// The port of a process is open.
    fn opened(&mut self, _process: usize, _port: &Self::Port) {}

    /// A process has crashed.
    fn stopped(&mut self, _process: usize) {}

    /// Calls the backend through a process's port.
    fn put(
        &self,
        port: Self::Port,
        sent: CallRequest,
        process: usize,
    ) -> BoxFuture<'static, CallReply>;

    /// A call has started.
    fn called(director: &mut Director<Self>, task: TaskId, sent: CallRequest, call: &Call);

    /// The sender of a call no longer waits for its answer.
    fn abandoned(&mut self, _task: TaskId, _now_ms: u64) {}

    /// Judges the effects since the last call.
    fn follow(director: &mut Director<Self>) -> Result<(), Findings>;

    /// Judges an answer and counts it.
    fn judge_answer(
        director: &mut Director<Self>,
        task: TaskId,
        reply: &CallReply,
    ) -> Result<(), Finding>;

    /// Time until the next act of chaos.
    fn pause_us(rng: &mut Rng) -> u64;

    /// One act of chaos.
    fn act(director: &mut Director<Self>) -> Result<(), Findings>;

    /// Whether no tenant has work left or can get more.
    fn is_exhausted(_director: &Director<Self>) -> bool {
        false
    }

    /// Whether an operator fails a run, although faults have stopped.
    fn is_hopeless(_director: &mut Director<Self>) -> bool {
        false
    }

    /// When the backend next changes without a call.
    fn next_moment_us(&self, _now_us: u64) -> Option<u64> {
        None
    }

    /// Time has passed.
    fn time_passed(&mut self) {}

    /// A scheduled event is due.
    fn run_scheduled(director: &mut Director<Self>, event: Self::Scheduled);

    /// Faults stop.
    fn heal(director: &mut Director<Self>);

    /// Every run has ended.
    fn conclude(director: &mut Director<Self>) -> Result<(), Findings>;

    /// Counts the subject's faults.
    fn count(&self, tally: &mut RunTally);
}
