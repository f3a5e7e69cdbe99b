//! A sink that stores results in an object store.
//!
//! An object cannot be appended to. So a segment is a folder of parts, one per sync, and an extent
//! is a prefix of the parts.

mod parts;

use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, WriteMultipart};
use shardwright_contracts::{FenceEpoch, RunId, ShardId, ShardKey};
use shardwright_worker::connector::ConnectorError;
use shardwright_worker::extent::Extent;
use shardwright_worker::sink::{Segment, Sink, SinkError};
use tempfile::SpooledTempFile;

use self::parts::{Parts, part_of};
use super::{is_segment_name, run_name, segment_name};
use crate::objects::open_store;
use crate::url::ObjectUrl;

/// Longer data is spooled to a file, and uploaded in parts.
const IN_MEMORY_BYTES: usize = 8 << 20;
/// Parts that are uploaded at a time.
const AT_ONCE: usize = 2;

/// Stores segments below a URL such as `s3://bucket/prefix`.
#[derive(Clone, Debug)]
pub struct ObjectSink {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    url: Arc<str>,
}

impl ObjectSink {
    /// Opens the store at a URL, with settings from the environment.
    pub async fn open(url: impl Into<ObjectUrl>) -> Result<Self, ConnectorError> {
        let (store, prefix, url) = open_store(url.into()).await?;
        Ok(Self { store, prefix, url: url.into() })
    }

    /// The URL of an object.
    #[must_use]
    pub fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.url.trim_end_matches('/'))
    }

    fn path(&self, name: &str) -> Result<Path, SinkError> {
        let path =
            if self.prefix.is_root() { name.to_owned() } else { format!("{}/{name}", self.prefix) };
        let location = self.url_of(name);
        let invalid = |error| SinkError::Io { location, error: io::Error::other(error) };
        Path::parse(path).map_err(invalid)
    }

    fn failed(&self, name: &str) -> impl FnOnce(object_store::Error) -> SinkError {
        let location = self.url_of(name);
        move |error| {
            let kind = match &error {
                object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
                _ => io::ErrorKind::Other,
            };
            SinkError::Io { location, error: io::Error::new(kind, error) }
        }
    }

    /// Reads an object, if it exists.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, SinkError> {
        match self.store.get(&self.path(name)?).await {
            Ok(found) => found.bytes().await.map(Some).map_err(self.failed(name)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(name)(error)),
        }
    }

    /// The time when an object was written. None if it does not exist.
    pub async fn modified_at(&self, name: &str) -> Result<Option<SystemTime>, SinkError> {
        match self.store.head(&self.path(name)?).await {
            Ok(found) => Ok(Some(found.last_modified.into())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(name)(error)),
        }
    }

    /// Reads an object into a file.
    pub async fn get_file(&self, name: &str, file: &FilePath) -> Result<(), SinkError> {
        let found = self.store.get(&self.path(name)?).await.map_err(self.failed(name))?;
        let local = |error| SinkError::Io { location: file.display().to_string(), error };
        let mut out = std::fs::File::create(file).map_err(local)?;
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.try_next().await.map_err(self.failed(name))? {
            out.write_all(&piece).map_err(local)?;
        }
        out.flush().map_err(local)
    }

    /// The names of the objects in a folder.
    pub async fn names(&self, folder: &str) -> Result<Vec<String>, SinkError> {
        let listed = self.store.list_with_delimiter(Some(&self.path(folder)?)).await;
        let objects = listed.map_err(self.failed(folder))?.objects;
        let names = objects.iter().filter_map(|object| object.location.filename());
        Ok(names.map(|name| format!("{folder}/{name}")).collect())
    }

    /// Deletes the objects in a folder whose names in it are `is_ours`, and returns their number.
    pub async fn delete_folder(
        &self,
        folder: &str,
        is_ours: fn(&str) -> bool,
    ) -> Result<u64, SinkError> {
        let path = self.path(folder)?;
        let listed = self.store.list(Some(&path));
        let is_ours = move |location: &Path| {
            let name = location.as_ref().strip_prefix(path.as_ref());
            name.and_then(|name| name.strip_prefix('/')).is_some_and(is_ours)
        };
        let found = listed.map_ok(|object| object.location);
        let found = found.try_filter(move |location| std::future::ready(is_ours(location))).boxed();
        let mut deleted = 0;
        // Some stores delete many objects per request.
        let mut results = self.store.delete_stream(found);
        while let Some(result) = results.next().await {
            match result {
                Ok(_) => deleted += 1,
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed(folder)(error)),
            }
        }
        Ok(deleted)
    }

    /// Writes an object atomically.
    pub async fn put(&self, name: &str, bytes: Bytes) -> Result<(), SinkError> {
        let written = self.store.put(&self.path(name)?, bytes.into()).await;
        written.map(|_| ()).map_err(self.failed(name))
    }

    /// Writes an object from a file of any length.
    pub async fn put_file(&self, name: &str, file: &mut std::fs::File) -> Result<(), SinkError> {
        self.put_from(name, file).await
    }

    async fn put_from(
        &self,
        name: &str,
        source: &mut (impl io::Read + io::Seek + Send),
    ) -> Result<(), SinkError> {
        let local = |error| SinkError::Io { location: self.url_of(name), error };
        let length = source.seek(SeekFrom::End(0)).map_err(local)?;
        source.rewind().map_err(local)?;
        if length <= IN_MEMORY_BYTES as u64 {
            let mut bytes = Vec::new();
            source.read_to_end(&mut bytes).map_err(local)?;
            return self.put(name, bytes.into()).await;
        }
        let upload = self.store.put_multipart(&self.path(name)?).await;
        let upload = upload.map_err(self.failed(name))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, IN_MEMORY_BYTES);
        let mut buffer = vec![0; IN_MEMORY_BYTES];
        loop {
            let read = source.read(&mut buffer).map_err(local)?;
            let Some(piece @ [_, ..]) = buffer.get(..read) else { break };
            upload.wait_for_capacity(AT_ONCE).await.map_err(self.failed(name))?;
            upload.write(piece);
        }
        upload.finish().await.map(|_| ()).map_err(self.failed(name))
    }
}

fn folder_of(run: RunId) -> String {
    format!("segments/{}", run_name(run))
}

fn segment_of(run: RunId, shard: ShardId, fence: FenceEpoch) -> String {
    format!("{}/{}", folder_of(run), segment_name(shard, fence))
}

impl Sink for ObjectSink {
    type Segment = ObjectSegment;

    async fn begin(&self, shard: ShardKey, fence: FenceEpoch) -> Result<ObjectSegment, SinkError> {
        Ok(ObjectSegment {
            name: segment_of(shard.run, shard.shard, fence),
            sink: self.clone(),
            parts: 0,
            pending: SpooledTempFile::new(IN_MEMORY_BYTES),
            hasher: blake3::Hasher::new(),
            extent: Extent { shard: shard.shard, fence, length: 0, items: 0, digest: [0; 32] },
            synced: 0,
        })
    }

    async fn read(
        &self,
        run: RunId,
        extent: Extent,
        piece: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), SinkError> {
        let segment = segment_of(run, extent.shard, extent.fence);
        let damaged = |problem| SinkError::Damaged { location: self.url_of(&segment), problem };
        let (mut hasher, mut left) = (blake3::Hasher::new(), extent.length);
        let mut parts = Parts::new(self, &segment);
        while left > 0 {
            let Some((name, mut pieces)) = parts.next().await? else {
                return Err(damaged("it is too short"));
            };
            while let Some(bytes) = pieces.try_next().await.map_err(self.failed(&name))? {
                // Uploaded bytes after the extent are not committed.
                let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let bytes = bytes.get(..wanted).unwrap_or_default();
                hasher.update(bytes);
                left -= bytes.len() as u64;
                let failed = |error| SinkError::Io { location: self.url_of(&name), error };
                piece(bytes).map_err(failed)?;
            }
        }
        if *hasher.finalize().as_bytes() == extent.digest {
            Ok(())
        } else {
            Err(damaged("its bytes were changed"))
        }
    }

    async fn discard(&self, run: RunId) -> Result<(), SinkError> {
        self.delete_folder(&folder_of(run), is_segment_name).await.map(|_| ())
    }
}

/// The objects of one shard and fence.
#[derive(Debug)]
pub struct ObjectSegment {
    sink: ObjectSink,
    name: String,
    parts: u64,
    /// Bytes that are not uploaded yet.
    pending: SpooledTempFile,
    hasher: blake3::Hasher,
    extent: Extent,
    synced: u64,
}

impl Segment for ObjectSegment {
    fn append(&mut self, result: &[u8]) -> Result<(), SinkError> {
        self.append_copied(result, 1)
    }

    fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError> {
        self.extent.items += items;
        self.extent.length += bytes.len() as u64;
        self.hasher.update(bytes);
        let failed = |error| SinkError::Io { location: self.sink.url_of(&self.name), error };
        // A failed upload leaves the position somewhere in the file.
        self.pending.seek(SeekFrom::End(0)).map_err(failed)?;
        self.pending.write_all(bytes).map_err(failed)
    }

    async fn sync(&mut self) -> Result<Option<Extent>, SinkError> {
        if self.synced < self.extent.length {
            let part = part_of(&self.name, self.parts);
            self.sink.put_from(&part, &mut self.pending).await?;
            self.parts += 1;
            self.pending = SpooledTempFile::new(IN_MEMORY_BYTES);
            self.synced = self.extent.length;
        }
        self.extent.digest = *self.hasher.finalize().as_bytes();
        Ok((self.extent.length > 0).then_some(self.extent))
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    const RUN: RunId = RunId::from_raw(7);

    fn sink() -> ObjectSink {
        let (store, prefix) = (Arc::new(InMemory::new()), Path::from("out"));
        ObjectSink { store, prefix, url: "memory:///out".into() }
    }

    async fn read(sink: &ObjectSink, extent: Extent) -> Result<Vec<u8>, SinkError> {
        let mut all = Vec::new();
        let mut piece = |bytes: &[u8]| {
            all.extend_from_slice(bytes);
            Ok(())
        };
        sink.read(RUN, extent, &mut piece).await.map(|()| all)
    }

    async fn segment(sink: &ObjectSink) -> ObjectSegment {
        let shard = ShardKey::new(RUN, ShardId::from_raw(1));
        sink.begin(shard, FenceEpoch::from_raw(1).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn an_extent_holds_what_was_synced_and_no_more() {
        let sink = sink();
        let mut segment = segment(&sink).await;
        assert_eq!(segment.sync().await.unwrap(), None);
        segment.append(b"one\n").unwrap();
        let first = segment.sync().await.unwrap().unwrap();
        segment.append(b"two\n").unwrap();
        segment.append(b"three\n").unwrap();
        let second = segment.sync().await.unwrap().unwrap();
        segment.append(b"four\n").unwrap();
        assert_eq!((first.items, second.items), (1, 3));
        assert_eq!(read(&sink, first).await.unwrap(), b"one\n");
        assert_eq!(read(&sink, second).await.unwrap(), b"one\ntwo\nthree\n");
        assert_eq!(segment.sync().await.unwrap().unwrap().length, second.length + 5);
    }

    #[tokio::test]
    async fn truncated_or_changed_results_are_detected() {
        let sink = sink();
        let mut segment = segment(&sink).await;
        segment.append(b"one\n").unwrap();
        let extent = segment.sync().await.unwrap().unwrap();
        sink.put(&part_of(&segment.name, 0), Bytes::from_static(b"0ne\n")).await.unwrap();
        let problem = |result| match result {
            Err(SinkError::Damaged { problem, .. }) => problem,
            other => panic!("{other:?}"),
        };
        assert_eq!(problem(read(&sink, extent).await), "its bytes were changed");
        sink.discard(RUN).await.unwrap();
        assert_eq!(problem(read(&sink, extent).await), "it is too short");
    }

    #[tokio::test]
    async fn long_results_are_uploaded_in_parts() {
        let sink = sink();
        let mut segment = segment(&sink).await;
        let long: Vec<u8> = (0..IN_MEMORY_BYTES * 2 + 17).map(|at| (at % 251) as u8).collect();
        segment.append(&long).unwrap();
        let extent = segment.sync().await.unwrap().unwrap();
        assert!(read(&sink, extent).await.unwrap() == long);
    }
}
