//! Results in files of a folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shardwright_contracts::{FenceEpoch, RunId, ShardId, ShardKey};
use shardwright_worker::extent::Extent;
use shardwright_worker::sink::{Segment, Sink, SinkError};

use super::{run_name, segment_name};

/// How much is gathered before it is written.
const BUFFER_BYTES: usize = 64 * 1_024;
/// How much is read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Keeps segments as files: a folder per run, a file per shard and fence.
#[derive(Clone, Debug)]
pub struct FolderSink {
    folder: Arc<Path>,
}

impl FolderSink {
    /// Keeps segments in `folder`, which is made when it is needed.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into().into() }
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
    let place = path.display().to_string();
    move |error| SinkError::Io { place, error }
}

/// Runs what blocks beside the tasks.
async fn blocking<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> Result<T, SinkError> + Send + 'static,
) -> Result<T, SinkError> {
    let place = path.clone();
    match tokio::task::spawn_blocking(move || work(&path)).await {
        Ok(result) => result,
        Err(error) => Err(failed(&place)(io::Error::other(error))),
    }
}

impl Sink for FolderSink {
    type Segment = FileSegment;

    async fn begin(&self, shard: ShardKey, fence: FenceEpoch) -> Result<FileSegment, SinkError> {
        let path = self.segment_path(shard.run, shard.shard, fence);
        let file = blocking(path.clone(), |path| create(path).map_err(failed(path))).await?;
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
        let place = || path.display().to_string();
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
            return Err(SinkError::Damaged { place: place(), problem: "it is too short" });
        }
        if *reader.hasher.finalize().as_bytes() != extent.digest {
            return Err(SinkError::Damaged { place: place(), problem: "its bytes were changed" });
        }
        Ok(())
    }

    async fn discard(&self, run: RunId) -> Result<(), SinkError> {
        blocking(self.of_run(run), |folder| match fs::remove_dir_all(folder) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed(folder)(error)),
        })
        .await
    }
}

/// A file that is read piece by piece, each beside the tasks: whoever reads much goes on renewing
/// its lease.
struct Reader {
    file: io::Take<File>,
    hasher: blake3::Hasher,
    /// What was read last. If it is shorter than it may be, nothing comes behind it.
    piece: Vec<u8>,
}

impl Reader {
    /// Begins with the first piece.
    fn open(path: &Path, length: u64) -> io::Result<Self> {
        let file = File::open(path)?.take(length);
        Self { file, hasher: blake3::Hasher::new(), piece: Vec::new() }.next()
    }

    fn next(mut self) -> io::Result<Self> {
        self.piece.clear();
        self.file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut self.piece)?;
        self.hasher.update(&self.piece);
        Ok(self)
    }
}

/// Makes an empty file whose name survives a crash of the machine.
fn create(path: &Path) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if !folder.is_dir() {
        fs::create_dir_all(folder)?;
        if let Some(above) = folder.parent() {
            File::open(above)?.sync_all()?;
        }
    }
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    File::open(folder)?.sync_all()?;
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
    /// How much of it is durable.
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
    async fn what_was_synced_is_read_and_what_came_later_is_not_there() {
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
    async fn results_that_were_cut_or_changed_are_found_out() {
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
