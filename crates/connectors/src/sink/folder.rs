//! A sink that stores results in files of a folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shardwright_contracts::{FenceEpoch, RunId, ShardId, ShardKey};
use shardwright_worker::extent::Extent;
use shardwright_worker::sink::{Segment, Sink, SinkError};

use super::{is_segment_name, run_name, segment_name};
use crate::files::{
    PlainName, RESULT_MODE, open_regular, open_regular_with, remove_files, sync_folder,
};

/// Bytes that are buffered before a write.
const BUFFER_BYTES: usize = 64 * 1_024;
/// Bytes per read.
const PIECE_BYTES: usize = 1 << 20;

/// Stores segments as files: a folder per run, a file per shard and fence.
#[derive(Clone, Debug)]
pub struct FolderSink {
    folder: Arc<Path>,
    mode: u32,
}

impl FolderSink {
    /// Stores segments in `folder`, which is created with the first segment.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into().into(), mode: RESULT_MODE }
    }

    /// Gives segments these permissions, less what the umask removes.
    #[must_use]
    pub fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    fn of_run(&self, run: RunId) -> PathBuf {
        self.folder.join(run_name(run))
    }

    /// The file of a segment.
    #[must_use]
    pub fn segment_path(&self, run: RunId, shard: ShardId, fence: FenceEpoch) -> PathBuf {
        self.of_run(run).join(segment_name(shard, fence))
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SinkError {
    let location = path.display().to_string();
    move |error| SinkError::Io { location, error }
}

/// Runs `work` on the runtime's blocking pool.
async fn blocking<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> Result<T, SinkError> + Send + 'static,
) -> Result<T, SinkError> {
    let failed_path = path.clone();
    match tokio::task::spawn_blocking(move || work(&path)).await {
        Ok(result) => result,
        Err(error) => Err(failed(&failed_path)(io::Error::other(error))),
    }
}

impl Sink for FolderSink {
    type Segment = FileSegment;

    async fn begin(&self, shard: ShardKey, fence: FenceEpoch) -> Result<FileSegment, SinkError> {
        let path = self.segment_path(shard.run, shard.shard, fence);
        let mode = self.mode;
        let create = move |path: &Path| create(path, mode).map_err(failed(path));
        let file = blocking(path.clone(), create).await?;
        Ok(FileSegment {
            path,
            file: Arc::new(file),
            buffer: Vec::with_capacity(BUFFER_BYTES),
            hasher: blake3::Hasher::new(),
            shard: shard.shard,
            fence,
            length: 0,
            items: 0,
            synced: 0,
        })
    }

    async fn read(
        &self,
        run: RunId,
        extent: Extent,
        piece: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), SinkError> {
        let path = self.segment_path(run, extent.shard, extent.fence);
        let damaged =
            |problem| Err(SinkError::Damaged { location: path.display().to_string(), problem });
        let open = move |path: &Path| Reader::open(path, extent.length).map_err(failed(path));
        let mut reader = blocking(path.clone(), open).await?;
        let mut length = 0;
        loop {
            length += reader.piece.len() as u64;
            piece(&reader.piece).map_err(failed(&path))?;
            if reader.piece.len() < PIECE_BYTES {
                break;
            }
            let next = move |path: &Path| reader.next().map_err(failed(path));
            reader = blocking(path.clone(), next).await?;
        }
        if length < extent.length {
            return damaged("it is too short");
        }
        if *reader.hasher.finalize().as_bytes() != extent.digest {
            return damaged("its bytes were changed");
        }
        Ok(())
    }

    async fn discard(&self, run: RunId) -> Result<(), SinkError> {
        let (root, name) = (Arc::clone(&self.folder), PlainName::new(run_name(run)));
        let below: Vec<PlainName> = name.into_iter().collect();
        let remove = move |folder: &Path| {
            remove_files(&root, &below, is_segment_name).map_err(failed(folder))
        };
        blocking(self.of_run(run), remove).await.map(drop)
    }
}

/// A file that is read piece by piece on the blocking pool, so that the lease is renewed meanwhile.
struct Reader {
    file: io::Take<File>,
    hasher: blake3::Hasher,
    /// The last piece. A piece shorter than `PIECE_BYTES` is the end.
    piece: Vec<u8>,
}

impl Reader {
    /// Opens the file and reads the first piece.
    fn open(path: &Path, length: u64) -> io::Result<Self> {
        let file = open_regular(path)?.take(length);
        Self { file, hasher: blake3::Hasher::new(), piece: Vec::new() }.next()
    }

    fn next(mut self) -> io::Result<Self> {
        self.piece.clear();
        self.file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut self.piece)?;
        self.hasher.update(&self.piece);
        Ok(self)
    }
}

/// Creates an empty file with a durable name.
fn create(path: &Path, mode: u32) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if !folder.is_dir() {
        fs::create_dir_all(folder)?;
        if let Some(above) = folder.parent() {
            sync_folder(above)?;
        }
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let file = open_regular_with(path, &options)?;
    sync_folder(folder)?;
    Ok(file)
}

/// The file of one shard and fence.
#[derive(Debug)]
pub struct FileSegment {
    path: PathBuf,
    file: Arc<File>,
    buffer: Vec<u8>,
    hasher: blake3::Hasher,
    shard: ShardId,
    fence: FenceEpoch,
    length: u64,
    items: u64,
    /// Durable length.
    synced: u64,
}

impl FileSegment {
    fn write(&mut self) -> Result<(), SinkError> {
        (&*self.file).write_all(&self.buffer).map_err(failed(&self.path))?;
        self.buffer.clear();
        Ok(())
    }
}

impl Segment for FileSegment {
    fn append(&mut self, result: &[u8]) -> Result<(), SinkError> {
        self.append_copied(result, 1)
    }

    fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError> {
        self.items += items;
        self.length += bytes.len() as u64;
        self.hasher.update(bytes);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    async fn sync(&mut self) -> Result<Option<Extent>, SinkError> {
        self.write()?;
        if self.synced < self.length {
            let file = Arc::clone(&self.file);
            let sync = move |path: &Path| file.sync_data().map_err(failed(path));
            blocking(self.path.clone(), sync).await?;
            self.synced = self.length;
        }
        let Self { shard, fence, length, items, .. } = *self;
        let digest = *self.hasher.finalize().as_bytes();
        Ok((items > 0).then_some(Extent { shard, fence, length, items, digest }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunId = RunId::from_raw(1);
    const SHARD: ShardKey = ShardKey::new(RUN, ShardId::from_raw(2));

    fn sink() -> (tempfile::TempDir, FolderSink) {
        let folder = tempfile::tempdir().unwrap();
        let sink = FolderSink::new(folder.path().join("segments"));
        (folder, sink)
    }

    async fn read(sink: &FolderSink, extent: Extent) -> Result<Vec<u8>, SinkError> {
        let mut bytes = Vec::new();
        let mut piece = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        sink.read(RUN, extent, &mut piece).await?;
        Ok(bytes)
    }

    #[tokio::test]
    async fn an_extent_holds_what_was_synced_and_no_more() {
        let (_folder, sink) = sink();
        let mut segment = sink.begin(SHARD, FenceEpoch::INITIAL).await.unwrap();
        assert_eq!(segment.sync().await.unwrap(), None);
        segment.append(b"one\n").unwrap();
        segment.append(b"two\n").unwrap();
        let extent = segment.sync().await.unwrap().unwrap();
        assert_eq!((extent.items, extent.length), (2, 8));
        // Once up to the end of a piece, and once beyond it.
        for more in [PIECE_BYTES - 8, PIECE_BYTES + 1] {
            segment.append(&vec![b'x'; more]).unwrap();
            assert_eq!(read(&sink, extent).await.unwrap(), b"one\ntwo\n");
            let later = segment.sync().await.unwrap().unwrap();
            assert_eq!(read(&sink, later).await.unwrap().len() as u64, later.length);
        }
        sink.discard(RUN).await.unwrap();
        sink.discard(RUN).await.unwrap();
        assert!(matches!(read(&sink, extent).await, Err(SinkError::Io { .. })));
    }

    #[tokio::test]
    async fn pipe_in_place_of_a_segment_is_not_waited_for() {
        let (_folder, sink) = sink();
        let path = sink.segment_path(RUN, SHARD.shard, FenceEpoch::INITIAL);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let begun = sink.begin(SHARD, FenceEpoch::INITIAL).await;
        assert!(matches!(begun, Err(SinkError::Io { .. })));
        let (shard, fence) = (SHARD.shard, FenceEpoch::INITIAL);
        let extent = Extent { shard, fence, length: 1, items: 1, digest: [0; 32] };
        assert!(matches!(read(&sink, extent).await, Err(SinkError::Io { .. })));
    }

    #[tokio::test]
    async fn truncated_or_changed_results_are_detected() {
        let (_folder, sink) = sink();
        let mut segment = sink.begin(SHARD, FenceEpoch::INITIAL).await.unwrap();
        segment.append(b"one\n").unwrap();
        let extent = segment.sync().await.unwrap().unwrap();
        let path = sink.segment_path(RUN, SHARD.shard, FenceEpoch::INITIAL);
        for (bytes, expected) in
            [(&b"on"[..], "it is too short"), (b"onE\n", "its bytes were changed")]
        {
            fs::write(&path, bytes).unwrap();
            match read(&sink, extent).await {
                Err(SinkError::Damaged { problem, .. }) => assert_eq!(problem, expected),
                other => panic!("{other:?}"),
            }
        }
    }
}
