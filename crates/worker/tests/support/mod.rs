//! A run over numbers, on a store in memory.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use shardwright_connectors::FolderSink;
use shardwright_contracts::{
    BoxFuture, CursorSemantics, CursorUpdate, Env, InitialShardInput, LogicalTime, OpId, RunId,
    ShardId, ShardSpecRef, TenantId,
};
use shardwright_coordination::{AsyncRunManagement, Backend, RunConfig, ShardLimits, ShardRecord};
use shardwright_engine::TokioEnv;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{EngineConfig, StoredCoordinator};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{MachineClock, Write};
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Payload, Position, Quantity,
    SourceEstimate, SourceFingerprint,
};
use shardwright_worker::extent::TokenEnvelope;
use shardwright_worker::handler::{Batch, Outcome};
use shardwright_worker::sink::Sink;
use shardwright_worker::{
    CompleteWorkerBuilder, Handler, Observer, RunOutcome, Worker, WorkerEvent, each,
};
use tokio::time::timeout;

pub(crate) const TENANT: TenantId = TenantId::from_bytes([1; 32]);
pub(crate) const RUN: RunId = RunId::from_raw(1);

pub(crate) type Coordinator = StoredCoordinator;

/// A source of numbers. Keys are their six digits.
#[derive(Clone)]
pub(crate) struct Numbers;

pub(crate) fn key(number: usize) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

pub(crate) fn number(key: &[u8]) -> usize {
    // A bound may be longer than a key.
    str::from_utf8(&key[..6]).unwrap().parse().unwrap()
}

/// The first number whose key is not below `key`.
fn first_at(key: &[u8]) -> usize {
    number(key) + usize::from(key.len() > 6)
}

fn span(range: &KeyRange, after: Option<&[u8]>) -> std::ops::Range<usize> {
    let start = after.map_or(first_at(&range.start), |after| number(after) + 1);
    start..first_at(&range.end).max(start)
}

impl Connector for Numbers {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let numbers = span(range, from.after.as_deref());
        let ended = numbers.len() <= limit.items;
        let items = numbers.take(limit.items).map(|number| Item {
            key: Bytes::from(key(number)),
            size: None,
            payload: Payload::Row { number: number as u64, bytes: Bytes::new() },
        });
        Ok(Page { items: items.collect(), ended, ..Page::default() })
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
        let items = Quantity::Exact(span(range, after).len() as u64);
        Ok(SourceEstimate { items, bytes: Quantity::Unknown })
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        _: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let numbers = span(range, after);
        Ok((numbers.len() > 1).then(|| key(numbers.start + numbers.len() / 2)))
    }

    async fn initial_ranges(&self, _: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        Ok(Vec::new())
    }

    async fn fingerprint(&self) -> Result<SourceFingerprint, ConnectorError> {
        Ok(SourceFingerprint { identity: "numbers".to_owned(), listed_at_ms: None })
    }
}

/// Creates a run over the numbers below `count`, divided into shards.
pub(crate) async fn start(count: usize, shards: usize, semantics: CursorSemantics) -> Coordinator {
    start_with_lease(count, shards, semantics, 10_000).await
}

pub(crate) async fn start_with_lease(
    count: usize,
    shards: usize,
    semantics: CursorSemantics,
    lease_ms: u64,
) -> Coordinator {
    start_with_limit(count, shards, semantics, lease_ms, ShardLimits::default()).await
}

pub(crate) async fn start_with_limit(
    count: usize,
    shards: usize,
    semantics: CursorSemantics,
    lease_ms: u64,
    limits: ShardLimits,
) -> Coordinator {
    start_on(&memory(), count, shards, semantics, lease_ms, limits).await
}

pub(crate) fn memory() -> MemoryStore {
    MemoryStore::new(Arc::new(MachineClock))
}

/// A run on a store that the test keeps.
pub(crate) async fn start_on(
    store: &MemoryStore,
    count: usize,
    shards: usize,
    semantics: CursorSemantics,
    lease_ms: u64,
    limits: ShardLimits,
) -> Coordinator {
    let config = EngineConfig {
        limits,
        skew_allowance_ms: 0,
        clock_mark_interval_ms: 0,
        ..EngineConfig::default()
    };
    let coordinator =
        StoredCoordinator::open(store.clone(), env(), Keyspace::default(), config).await.unwrap();
    let bounds: Vec<Vec<u8>> = (0..=shards).map(|cut| key(cut * count / shards)).collect();
    let inputs: Vec<_> = bounds
        .windows(2)
        .zip(0..)
        .map(|(bounds, id)| InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(&bounds[0], &bounds[1], b""),
            cursor: CursorUpdate::initial(),
        })
        .collect();
    let config = RunConfig::try_new(semantics, lease_ms, None).unwrap();
    let op = OpId::from_raw(1);
    coordinator.create_run_with_shards(TENANT, RUN, config, &inputs, op).await.unwrap();
    coordinator
}

/// A second process on the same store.
pub(crate) async fn join(coordinator: &Coordinator) -> Coordinator {
    let config =
        EngineConfig { skew_allowance_ms: 0, clock_mark_interval_ms: 0, ..EngineConfig::default() };
    let store = coordinator.store().clone();
    StoredCoordinator::open(store, env(), Keyspace::default(), config).await.unwrap()
}

pub(crate) fn env() -> TokioEnv {
    TokioEnv::current().unwrap()
}

/// An environment whose clock runs a hundred times faster.
#[derive(Clone)]
pub(crate) struct Hurried(pub(crate) TokioEnv);

const HURRY: u32 = 100;

impl Env for Hurried {
    fn wall_clock(&self) -> LogicalTime {
        self.0.wall_clock()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic() * HURRY
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration / HURRY)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}

/// An environment on the clock of a paused runtime, which advances only when no task can run.
#[derive(Clone)]
pub(crate) struct Virtual {
    env: TokioEnv,
    start: tokio::time::Instant,
}

impl Virtual {
    pub(crate) fn new() -> Self {
        Self { env: env(), start: tokio::time::Instant::now() }
    }
}

impl Env for Virtual {
    fn wall_clock(&self) -> LogicalTime {
        let now_ms = u64::try_from(self.monotonic().as_millis()).unwrap();
        LogicalTime::from_millis(1_000_000).saturating_add(now_ms)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.env.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.env.spawn(task);
    }

    fn random(&self) -> u64 {
        self.env.random()
    }
}

/// A paused process: its clock stands still, and sleeps never end.
#[derive(Clone)]
pub(crate) struct Paused(pub(crate) TokioEnv);

impl Env for Paused {
    fn wall_clock(&self) -> LogicalTime {
        self.0.wall_clock()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn line(item: &Item) -> Vec<u8> {
    [item.key.as_ref(), b"\n"].concat()
}

pub(crate) fn sink() -> (tempfile::TempDir, FolderSink) {
    let folder = tempfile::tempdir().unwrap();
    let sink = FolderSink::new(folder.path());
    (folder, sink)
}

/// A handler that gets each item with the number of its try.
pub(crate) struct Tried<F>(pub(crate) F);

impl<F, R> Handler for Tried<F>
where
    F: Fn(Item, u32) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send,
{
    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.items.len());
        for item in batch.items {
            outcomes.push((self.0)(item.clone(), batch.attempt).await);
        }
        outcomes
    }
}

/// A handler whose result is the item's key.
pub(crate) fn write_keys() -> impl Handler {
    each(|item: Item| async move { Ok(line(&item)) })
}

/// A worker on the run over numbers.
pub(crate) fn worker_with(
    backend: impl Backend + 'static,
    handler: impl Handler,
    sink: &FolderSink,
) -> CompleteWorkerBuilder {
    Worker::builder(TENANT, RUN)
        .backend(backend)
        .connector(Numbers)
        .handler(handler)
        .sink(sink.clone())
        .env(env())
}

/// Finishes the run with another worker.
pub(crate) async fn finish(coordinator: &Coordinator, sink: &FolderSink) -> RunOutcome {
    let worker = worker_with(join(coordinator).await, write_keys(), sink);
    timeout(LONG, worker.run()).await.unwrap().unwrap()
}

/// The results that committed cursors name, in key order.
pub(crate) async fn results(coordinator: &Coordinator, sink: &FolderSink) -> Vec<String> {
    let mut bytes = Vec::new();
    for shard in shards(coordinator).await {
        let envelope = TokenEnvelope::decode(shard.cursor.as_update().token()).unwrap();
        for extent in envelope.extents {
            let mut piece = |piece: &[u8]| {
                bytes.extend_from_slice(piece);
                Ok(())
            };
            sink.read(RUN, extent, &mut piece).await.unwrap();
        }
    }
    String::from_utf8(bytes).unwrap().lines().map(ToOwned::to_owned).collect()
}

/// Whether a write ends the ownership of a shard.
pub(crate) fn ends_ownership(write: &Write) -> bool {
    let owner = b"/owner/";
    match write {
        Write::Delete { key } => key.as_bytes().windows(owner.len()).any(|part| part == owner),
        Write::Put { .. } => false,
    }
}

pub(crate) async fn shards(coordinator: &Coordinator) -> Vec<ShardRecord> {
    coordinator.inspect_shards(TENANT, RUN).await.unwrap()
}

/// All numbers below `count`, in order.
pub(crate) fn all(count: usize) -> Vec<String> {
    (0..count).map(|number| String::from_utf8(key(number)).unwrap()).collect()
}

/// Records events as text.
#[derive(Clone, Default)]
pub(crate) struct Journal {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Journal {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.lines().iter().filter(|line| line.starts_with(prefix)).count()
    }
}

impl Observer for Journal {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let line = match event {
            WorkerEvent::Done { key, .. } => format!("done {}", text(key)),
            WorkerEvent::Committed { key, .. } => format!("committed {}", text(key)),
            WorkerEvent::Split { boundary, .. } => format!("split {}", text(boundary)),
            WorkerEvent::Parked { key, detail, .. } => format!("parked {} {detail}", text(key)),
            WorkerEvent::SetAside { key, tries, .. } => format!("set aside {} {tries}", text(key)),
            WorkerEvent::Lost { reason, .. } => format!("lost {reason}"),
            WorkerEvent::Claimed { .. } => "claimed".to_owned(),
            WorkerEvent::Released { .. } => "released".to_owned(),
            WorkerEvent::Failed { key, .. } => format!("failed {}", text(key)),
            WorkerEvent::Replayed { .. } => "replayed".to_owned(),
            WorkerEvent::Refused { .. } => "refused".to_owned(),
            WorkerEvent::Retrying { message } => format!("retrying {message}"),
            _ => return,
        };
        self.lines.lock().unwrap().push(line);
    }
}
