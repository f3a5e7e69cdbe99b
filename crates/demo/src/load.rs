//! Clients that increment counters, and record the outcome of each call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use shardwright_api::wire::gate::CallRequest;
use shardwright_api::wire::gate::gate_client::GateClient;
use shardwright_api::{Effect, error_of_status};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::counter::TYPE;

/// The interval at which due calls are made.
const TICK: Duration = Duration::from_millis(5);
/// The number of failures that are kept. All are counted.
const FAILURES_MAX: usize = 10_000;

/// The load to generate.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The addresses of gates, used in turn.
    pub gates: Vec<String>,
    /// Calls per second. Calls do not wait for earlier answers.
    pub rate: u32,
    /// The number of counters.
    pub counters: u32,
    /// The deadline of a call. Calls are not retried, and a late answer counts as failed.
    pub deadline: Duration,
}

/// A running load.
#[derive(Debug)]
pub struct Load {
    log: Arc<CallLog>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The outcomes of calls.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Calls made.
    pub begun: u64,
    /// Calls with a successful answer: each is one increment.
    pub acknowledged: u64,
    /// Calls that failed, or whose answer was late.
    pub failed: u64,
    /// Failed calls with unknown outcome.
    pub unknown: u64,
    /// The first failures.
    pub failures: Vec<Failure>,
    /// The latency of each call, failed or not, in the order in which they ended.
    pub latencies: Vec<Duration>,
    /// Calls made in each second.
    pub begun_by_second: Vec<u64>,
}

/// A call that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The number of the counter.
    pub counter: u64,
    /// When it was made, since the start of the load.
    pub begun_at: Duration,
    /// When it failed.
    pub ended_at: Duration,
    /// The error.
    pub why: String,
}

#[derive(Debug)]
struct CallLog {
    start: Instant,
    tally: Mutex<Tally>,
}

/// The outcome of one call.
enum Outcome {
    Counted,
    NotCounted(String),
    Unknown(String),
}

impl Load {
    /// Starts the load.
    pub fn start(options: LoadOptions) -> Result<Self, tonic::transport::Error> {
        let gate = |address: &String| -> Result<_, tonic::transport::Error> {
            let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
            Ok(GateClient::new(endpoint.connect_lazy()))
        };
        let gates = options.gates.iter().map(gate).collect::<Result<Vec<_>, _>>()?;
        let log = Arc::new(CallLog { start: Instant::now(), tally: Mutex::default() });
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(drive(options, gates, Arc::clone(&log), stopped));
        Ok(Self { log, stop, task })
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.log.start.elapsed()
    }

    /// The outcomes so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.log.lock().clone()
    }

    /// Makes no more calls, waits for those in flight, and returns all outcomes.
    pub async fn stop(self) -> Tally {
        self.stop.send_replace(true);
        // The task ends, because each call has a deadline.
        let _ended = self.task.await;
        self.log.lock().clone()
    }
}

impl CallLog {
    fn lock(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Duration {
        let now = self.start.elapsed();
        let second = usize::try_from(now.as_secs()).unwrap_or(usize::MAX);
        let mut tally = self.lock();
        tally.begun += 1;
        if tally.begun_by_second.len() <= second {
            tally.begun_by_second.resize(second + 1, 0);
        }
        if let Some(count) = tally.begun_by_second.get_mut(second) {
            *count += 1;
        }
        now
    }

    fn end(&self, counter: u64, begun_at: Duration, deadline: Duration, outcome: Outcome) {
        let ended_at = self.start.elapsed();
        let took = ended_at.saturating_sub(begun_at);
        let mut tally = self.lock();
        tally.latencies.push(took);
        let why = match outcome {
            Outcome::Counted => {
                tally.acknowledged += 1;
                if took <= deadline {
                    return;
                }
                "answered late".to_owned()
            }
            Outcome::NotCounted(why) => why,
            Outcome::Unknown(why) => {
                tally.unknown += 1;
                why
            }
        };
        tally.failed += 1;
        if tally.failures.len() < FAILURES_MAX {
            tally.failures.push(Failure { counter, begun_at, ended_at, why });
        }
    }
}

async fn drive(
    options: LoadOptions,
    gates: Vec<GateClient<Channel>>,
    log: Arc<CallLog>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut calls = JoinSet::new();
    let mut ticks = tokio::time::interval(TICK);
    let mut begun: u64 = 0;
    loop {
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => break,
            _ = ticks.tick() => {}
        }
        while calls.try_join_next().is_some() {}
        // Computed from the clock, so that missed ticks are made up for.
        let due = log.start.elapsed().as_millis() * u128::from(options.rate) / 1_000;
        while u128::from(begun) < due {
            let at = usize::try_from(begun).unwrap_or_default() % gates.len().max(1);
            let Some(gate) = gates.get(at) else { return };
            // A large prime step spreads consecutive calls over the counters.
            let counter = begun.wrapping_mul(7_919) % u64::from(options.counters.max(1));
            let (gate, log) = (gate.clone(), Arc::clone(&log));
            calls.spawn(one_call(gate, counter, options.deadline, log));
            begun += 1;
        }
    }
    while calls.join_next().await.is_some() {}
}

async fn one_call(
    mut gate: GateClient<Channel>,
    counter: u64,
    deadline: Duration,
    log: Arc<CallLog>,
) {
    let begun_at = log.begin();
    let mut request = Request::new(CallRequest {
        object_type: TYPE.to_owned(),
        object: format!("counter-{counter}"),
        method: "add".to_owned(),
        payload: "1".into(),
        ..CallRequest::default()
    });
    request.set_timeout(deadline);
    let outcome = match tokio::time::timeout(deadline, gate.call(request)).await {
        Ok(Ok(_)) => Outcome::Counted,
        Ok(Err(status)) => meaning(&status),
        Err(_) => Outcome::Unknown("no answer in time".to_owned()),
    };
    log.end(counter, begun_at, deadline, outcome);
}

fn meaning(status: &Status) -> Outcome {
    match error_of_status(status) {
        Some(error) if error.effect() == Effect::Unknown => Outcome::Unknown(error.to_string()),
        // A counter that returned an error did not add.
        Some(error) => Outcome::NotCounted(error.to_string()),
        None => Outcome::Unknown(status.to_string()),
    }
}
