use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as Stored,
};
use shardwright_contracts::{FenceEpoch, RunId, ShardId, ShardKey};
use shardwright_worker::extent::Extent;
use shardwright_worker::sink::{Segment as _, Sink as _};

use super::super::segment_of;
use super::*;

const RUN: RunId = RunId::from_raw(7);

/// A store that replies to later requests sooner, and counts requests.
#[derive(Debug)]
struct Hasty {
    inner: InMemory,
    /// The part that cannot be read.
    bad: AtomicU64,
    requests: AtomicUsize,
    at_a_time: AtomicUsize,
    most_at_a_time: AtomicUsize,
    deletes: AtomicUsize,
}

impl fmt::Display for Hasty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hasty")
    }
}

impl Hasty {
    async fn answer(&self, location: &Path, options: GetOptions) -> Stored<GetResult> {
        let part: u64 = location.filename().unwrap().parse().unwrap();
        self.requests.fetch_add(1, Ordering::Relaxed);
        let at_a_time = self.at_a_time.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_at_a_time.fetch_max(at_a_time, Ordering::Relaxed);
        for _ in part % 32..32 {
            tokio::task::yield_now().await;
        }
        self.at_a_time.fetch_sub(1, Ordering::Relaxed);
        if part == self.bad.load(Ordering::Relaxed) {
            return Err(Error::Generic { store: "hasty", source: "no".into() });
        }
        self.inner.get_opts(location, options).await
    }
}

impl ObjectStore for Hasty {
    fn put_opts<'a, 'b, 'f>(
        &'a self,
        location: &'b Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> BoxFuture<'f, Stored<PutResult>>
    where
        'a: 'f,
        'b: 'f,
    {
        self.inner.put_opts(location, payload, options)
    }

    fn put_multipart_opts<'a, 'b, 'f>(
        &'a self,
        location: &'b Path,
        options: PutMultipartOptions,
    ) -> BoxFuture<'f, Stored<Box<dyn MultipartUpload>>>
    where
        'a: 'f,
        'b: 'f,
    {
        self.inner.put_multipart_opts(location, options)
    }

    fn get_opts<'a, 'b, 'f>(
        &'a self,
        location: &'b Path,
        options: GetOptions,
    ) -> BoxFuture<'f, Stored<GetResult>>
    where
        'a: 'f,
        'b: 'f,
    {
        self.answer(location, options).boxed()
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Stored<Path>>,
    ) -> BoxStream<'static, Stored<Path>> {
        self.deletes.fetch_add(1, Ordering::Relaxed);
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Stored<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_delimiter<'a, 'b, 'f>(
        &'a self,
        prefix: Option<&'b Path>,
    ) -> BoxFuture<'f, Stored<ListResult>>
    where
        'a: 'f,
        'b: 'f,
    {
        self.inner.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'c, 'f>(
        &'a self,
        from: &'b Path,
        to: &'c Path,
        options: CopyOptions,
    ) -> BoxFuture<'f, Stored<()>>
    where
        'a: 'f,
        'b: 'f,
        'c: 'f,
    {
        self.inner.copy_opts(from, to, options)
    }
}

fn sink() -> (Arc<Hasty>, ObjectSink) {
    let store = Arc::new(Hasty {
        inner: InMemory::new(),
        bad: AtomicU64::new(u64::MAX),
        requests: AtomicUsize::new(0),
        at_a_time: AtomicUsize::new(0),
        most_at_a_time: AtomicUsize::new(0),
        deletes: AtomicUsize::new(0),
    });
    let prefix = Path::from("out");
    let sink = ObjectSink { store: Arc::clone(&store) as _, prefix, url: "memory:///out".into() };
    (store, sink)
}

/// Writes parts of these lengths. Returns the extent after each of them, and all bytes.
async fn written(sink: &ObjectSink, lengths: &[usize]) -> (Vec<Extent>, Vec<u8>) {
    let shard = ShardKey::new(RUN, ShardId::from_raw(1));
    let mut segment = sink.begin(shard, FenceEpoch::INITIAL).await.unwrap();
    let (mut extents, mut bytes) = (Vec::new(), Vec::new());
    for (part, length) in lengths.iter().enumerate() {
        let result: Vec<u8> = (0..*length).map(|at| ((part + at) % 251) as u8).collect();
        segment.append(&result).unwrap();
        extents.push(segment.sync().await.unwrap().unwrap());
        bytes.extend(result);
    }
    (extents, bytes)
}

async fn read(sink: &ObjectSink, extent: Extent) -> Result<Vec<u8>, SinkError> {
    let mut all = Vec::new();
    let mut piece = |bytes: &[u8]| {
        all.extend_from_slice(bytes);
        Ok(())
    };
    sink.read(RUN, extent, &mut piece).await.map(|()| all)
}

#[tokio::test]
async fn parts_are_read_concurrently_and_in_order() {
    let (store, sink) = sink();
    let (extents, bytes) = written(&sink, &[3; 200]).await;
    assert_eq!(read(&sink, extents[199]).await.unwrap(), bytes);
    assert_eq!(store.most_at_a_time.load(Ordering::Relaxed), PARTS_MAX);
    let failed = store.requests.load(Ordering::Relaxed) - 200;
    assert!(failed < PARTS_MAX, "{failed}");
}

#[tokio::test]
async fn one_part_costs_one_request() {
    for length in [3, (2 << 20) + 1] {
        let (store, sink) = sink();
        let (extents, bytes) = written(&sink, &[length, 3]).await;
        assert!(read(&sink, extents[0]).await.unwrap() == bytes[..length]);
        assert_eq!(store.requests.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn parts_after_an_extent_do_not_matter() {
    let (store, sink) = sink();
    let (extents, bytes) = written(&sink, &[3; 40]).await;
    store.bad.store(32, Ordering::Relaxed);
    for count in 1..=32 {
        let wanted = &bytes[..count * 3];
        assert_eq!(read(&sink, extents[count - 1]).await.unwrap(), wanted);
    }
    let failed = read(&sink, extents[32]).await;
    assert!(matches!(failed, Err(SinkError::Io { .. })), "{failed:?}");
}

#[tokio::test]
async fn a_missing_part_is_detected() {
    let (store, sink) = sink();
    let (extents, _) = written(&sink, &[3; 20]).await;
    let segment = segment_of(RUN, extents[19].shard, extents[19].fence);
    store.inner.delete(&sink.path(&part_of(&segment, 11)).unwrap()).await.unwrap();
    let failed = read(&sink, extents[19]).await;
    let is_detected = matches!(failed, Err(SinkError::Damaged { problem: "it is too short", .. }));
    assert!(is_detected, "{failed:?}");
}

#[tokio::test]
async fn long_and_short_parts_come_in_order() {
    let (_, sink) = sink();
    let long = (1 << 20) + 1;
    let lengths = [3, 3, 3, long, 3, long, long, 3, 3, 3, 3, long];
    let (extents, bytes) = written(&sink, &lengths).await;
    assert!(read(&sink, extents[11]).await.unwrap() == bytes);
    // While a long part is read, no request is open.
    let segment = segment_of(RUN, extents[11].shard, extents[11].fence);
    let mut parts = Parts::new(&sink, &segment);
    for _ in 0..4 {
        drop(parts.next().await.unwrap().unwrap());
    }
    assert_eq!((parts.requests.len(), parts.next), (0, 4));
}

#[tokio::test]
async fn deleting_a_folder_is_one_bulk_request() {
    let (store, sink) = sink();
    written(&sink, &[3; 40]).await;
    assert_eq!(sink.delete_folder("segments", |_| true).await.unwrap(), 40);
    assert_eq!(store.deletes.load(Ordering::Relaxed), 1);
    assert!(store.inner.list(None).next().await.is_none());
    assert_eq!(sink.delete_folder("segments", |_| true).await.unwrap(), 0);
}
