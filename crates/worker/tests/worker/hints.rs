//! Hints of shards describe their ranges after every split.

use std::sync::Arc;

use shardwright_connectors::FolderSink;
use shardwright_contracts::CursorSemantics::Completed;
use shardwright_contracts::{OpId, ShardArena, ShardSpecRef, WorkerId};
use shardwright_coordination::{
    AsyncCoordinationBackend as _, AsyncShardClaiming as _, ParkReason, RunConfig, ShardStatus,
};
use shardwright_engine::keyspace::Keyspace;
use shardwright_frontier::{
    HintPropagationError, HintedSplitError, KeyBuf, KeyEncoding as _, ManifestRowKey, MetadataBuf,
    PreallocShardBuilder, ShardHint, ShardHintDecodeError, ShardMetadata, ShardSpecScratch,
    decode_manifest_row_key, decode_metadata, manifest_shard_ref, plan_hinted_split_replace,
};
use shardwright_runs::{EngineConfig, StoredCoordinator};
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Payload, Position,
};
use shardwright_worker::{
    Handler, ItemFailure, Observer, RunOutcome, Worker, WorkerError, WorkerEvent, WorkerOptions,
    create_run, each,
};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::support::{Coordinator, LONG, RUN, TENANT, env, memory, results, shards, sink};

const MANIFEST: u64 = 7;
const EXTRA: &[u8] = b"the connector's";
type Builder<'a> = PreallocShardBuilder<'a, 8>;

fn row_key(row: u64) -> Vec<u8> {
    let mut key = KeyBuf::new();
    ManifestRowKey::new(MANIFEST, row).encode_into(&mut key);
    key.as_bytes().to_vec()
}

fn rows(start_row: u64, end_row: u64) -> ShardHint<'static> {
    ShardHint::Manifest { manifest_id: MANIFEST, start_row, end_row }
}

/// A source of given keys. Proposed splits may be followed by bytes that no key has.
struct Keys {
    keys: Vec<Vec<u8>>,
    after_splits: &'static [u8],
}

impl Keys {
    fn rows(count: u64, after_splits: &'static [u8]) -> Self {
        Self { keys: (0..count).map(row_key).collect(), after_splits }
    }

    fn names(&self) -> Vec<String> {
        (0..self.keys.len()).map(|number| number.to_string()).collect()
    }
}

impl Connector for Keys {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let start = range.start_after(from);
        let keys = self.keys.iter().zip(0..);
        let keys = keys.filter(|(key, _)| **key >= start && range.is_below_end(key));
        Ok(Page::take(keys.map(|(key, number)| Item::row(key.clone(), number, "")), limit))
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        _: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let start = range.start_after(&after.map_or_else(Position::start, Position::after));
        let left = self.keys.iter().filter(|key| **key >= start && range.is_below_end(key));
        let left: Vec<_> = left.collect();
        Ok((left.len() > 2).then(|| [left[left.len() / 2], self.after_splits].concat()))
    }
}

/// A run whose first shards are what `stage` adds to a builder.
async fn start(stage: impl FnOnce(&mut Builder<'_>)) -> Coordinator {
    let config =
        EngineConfig { skew_allowance_ms: 0, clock_mark_interval_ms: 0, ..EngineConfig::default() };
    let coordinator =
        StoredCoordinator::open(memory(), env(), Keyspace::default(), config).await.unwrap();
    let mut arena = ShardArena::new(8, 4_096);
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    stage(&mut builder);
    let config = RunConfig::try_new(Completed, 10_000, None).unwrap();
    let first = builder.build_inputs().unwrap();
    create_run(&coordinator, TENANT, RUN, config, &first).await.unwrap();
    coordinator
}

/// Closes a semaphore at the first split.
struct ClosesOnSplit(Arc<Semaphore>);

impl Observer for ClosesOnSplit {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Split { .. } = event {
            self.0.close();
        }
    }
}

fn number(item: &Item) -> u64 {
    let Payload::Row { number, .. } = &item.payload else { panic!("{item:?} is no row") };
    *number
}

fn written(item: &Item) -> Vec<u8> {
    format!("{}\n", number(item)).into_bytes()
}

/// Runs a worker of two slots. No item is done before the first split.
async fn run_with_split(coordinator: &Coordinator, keys: Keys, sink: &FolderSink) {
    let divided = Arc::new(Semaphore::new(0));
    let is_divided = Arc::clone(&divided);
    let handler = each(move |item: Item| {
        let is_divided = Arc::clone(&is_divided);
        async move {
            let _closed = is_divided.acquire().await;
            Ok(written(&item))
        }
    });
    let names = keys.names();
    let worker = worker(coordinator, keys, handler, sink)
        .options(WorkerOptions { slots: 2, ..WorkerOptions::default() })
        .observer(Arc::new(ClosesOnSplit(divided)));
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Done);
    assert_eq!(results(coordinator, sink).await, names);
}

fn worker(
    coordinator: &Coordinator,
    keys: Keys,
    handler: impl Handler,
    sink: &FolderSink,
) -> shardwright_worker::CompleteWorkerBuilder {
    Worker::builder(TENANT, RUN)
        .backend(coordinator.clone())
        .connector(keys)
        .handler(handler)
        .sink(sink.clone())
        .env(env())
}

fn write_numbers() -> impl Handler {
    each(|item: Item| async move { Ok(written(&item)) })
}

/// The rows of a range.
fn rows_of(spec: ShardSpecRef<'_>) -> ShardHint<'static> {
    let [start, end] = [spec.start(), spec.end()].map(|key| decode_manifest_row_key(key).unwrap());
    assert_eq!((start.manifest_id, end.manifest_id), (MANIFEST, MANIFEST));
    rows(start.row, end.row)
}

/// Checks that each shard's hint names the rows of its range. Returns the hints, without split
/// parents.
async fn row_hints(coordinator: &Coordinator) -> Vec<ShardHint<'static>> {
    let shards = shards(coordinator).await;
    let hint_of = |spec| {
        let metadata = decode_metadata(spec).unwrap();
        assert_eq!(metadata, ShardMetadata::new(rows_of(spec), EXTRA));
        rows_of(spec)
    };
    let leaves = shards.iter().filter(|shard| shard.head.status != ShardStatus::Split);
    leaves.map(|shard| hint_of(shard.spec.as_spec_ref())).collect()
}

/// Rows from 0 on, without a gap.
fn assert_tiled(hints: &[ShardHint<'_>], end: u64) {
    let mut next = 0;
    for hint in hints {
        let ShardHint::Manifest { start_row, end_row, .. } = hint else { panic!("{hint:?}") };
        assert_eq!(*start_row, next);
        next = *end_row;
    }
    assert_eq!(next, end);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_part_of_a_split_manifest_shard_names_its_rows() {
    // A split after a row, where no row begins, is moved to the next row.
    for after_splits in [&b""[..], b"\0", b"between two rows"] {
        let coordinator = start(|shards| {
            shards.add_manifest(MANIFEST, 0, 40, EXTRA).unwrap();
        })
        .await;
        let (_folder, sink) = sink();
        run_with_split(&coordinator, Keys::rows(40, after_splits), &sink).await;
        let hints = row_hints(&coordinator).await;
        assert!(hints.len() > 1, "{hints:?}");
        assert_tiled(&hints, 40);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parts_of_a_split_prefix_shard_are_ranges() {
    let coordinator = start(|shards| {
        shards.add_prefix(b"photos/", EXTRA).unwrap();
    })
    .await;
    let keys = ('a'..='z').map(|name| format!("photos/{name}").into_bytes()).collect();
    let (_folder, sink) = sink();
    run_with_split(&coordinator, Keys { keys, after_splits: b"" }, &sink).await;
    let shards = shards(&coordinator).await;
    assert!(shards.len() > 1);
    for shard in shards {
        let metadata = decode_metadata(shard.spec.as_spec_ref());
        assert_eq!(metadata, Ok(ShardMetadata::new(ShardHint::Range, EXTRA)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_row_is_isolated_with_the_hint_of_its_rows() {
    let coordinator = start(|shards| {
        shards.split_manifest_by_rows(MANIFEST, 0, 20, 10, EXTRA).unwrap();
    })
    .await;
    let (_folder, sink) = sink();
    let handler = each(|item: Item| async move {
        match number(&item) {
            // A row in the middle of its shard, its neighbour, and the last row of a shard.
            4 | 5 | 19 => Err(ItemFailure::permanent(ParkReason::Other, "bad")),
            _ => Ok(written(&item)),
        }
    });
    let worker = worker(&coordinator, Keys::rows(20, b""), handler, &sink);
    let outcome = timeout(LONG, worker.run()).await.unwrap().unwrap();
    assert_eq!(outcome, RunOutcome::Parked { shards: 3 });
    let hints = row_hints(&coordinator).await;
    assert_eq!(hints, [rows(0, 5), rows(5, 6), rows(6, 10), rows(10, 20)]);
    let done = (0..20).filter(|row| ![4, 5, 19].contains(row)).map(|row| row.to_string());
    assert_eq!(results(&coordinator, &sink).await, done.collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacing_shards_name_their_rows() {
    let coordinator = start(|shards| {
        shards.add_manifest(MANIFEST, 0, 30, EXTRA).unwrap();
    })
    .await;
    let claimed =
        coordinator.claim_next_available(TENANT, RUN, WorkerId::from_raw(9)).await.unwrap();
    let mut buffers = [(); 3].map(|()| MetadataBuf::new());
    let (left, right) = (row_key(10), row_key(25));
    let (spec, cursor) = (claimed.spec.as_spec_ref(), claimed.cursor.as_update());
    let plan = plan_hinted_split_replace(spec, cursor, &[&left, &right], &mut buffers).unwrap();
    let op = OpId::from_raw(2);
    coordinator.split_replace(TENANT, &claimed.lease, &plan, op).await.unwrap();
    let (_folder, sink) = sink();
    let keys = Keys::rows(30, b"");
    let worker = worker(&coordinator, keys, write_numbers(), &sink);
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Done);
    let hints = row_hints(&coordinator).await;
    assert_eq!(hints, [rows(0, 10), rows(10, 25), rows(25, 30)]);
}

/// Runs a worker on one shard, which it must not process. Returns its error.
async fn refused(spec: ShardSpecRef<'_>, keys: Keys) -> WorkerError {
    let coordinator = start(|shards| {
        shards.add_spec_ref(spec).unwrap();
    })
    .await;
    let (_folder, sink) = sink();
    let worker = worker(&coordinator, keys, write_numbers(), &sink);
    let error = timeout(LONG, worker.run()).await.unwrap().unwrap_err();
    assert_eq!(results(&coordinator, &sink).await, [""; 0]);
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_that_does_not_describe_the_range_stops_the_worker() {
    let mut scratch = ShardSpecScratch::new();
    let hinted = manifest_shard_ref(MANIFEST, 0, 10, EXTRA, &mut scratch).unwrap();
    let unknown = b"\0\0\0\x01\x09";
    let error = refused(hinted.with_metadata(unknown), Keys::rows(10, b"")).await;
    let WorkerError::Metadata { source: HintedSplitError::Metadata(source), .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(source.hint_error, Some(ShardHintDecodeError::UnknownTag(9)));
    let (start, end) = (row_key(5), row_key(15));
    let beyond = ShardSpecRef::new(&start, &end, hinted.metadata());
    let error = refused(beyond, Keys::rows(20, b"")).await;
    let WorkerError::Metadata { source: HintedSplitError::Hint(source), .. } = error else {
        panic!("{error:?}");
    };
    assert!(matches!(source, HintPropagationError::InvalidManifestBoundary { .. }), "{source}");
}

/// Two items of one row could not be separated by a cut between rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_shard_has_no_items_but_rows() {
    let mut scratch = ShardSpecScratch::new();
    let hinted = manifest_shard_ref(MANIFEST, 0, 10, EXTRA, &mut scratch).unwrap();
    let keys = vec![row_key(1), [row_key(1), vec![b'x']].concat()];
    let keys = Keys { keys, after_splits: b"" };
    let error = refused(hinted, keys).await;
    let WorkerError::Source(ConnectorError::InvalidPage { problem }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(problem, "a key of a manifest's shard is not the key of a row");
}
