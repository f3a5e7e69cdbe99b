//! Storage of output that is too long for a result line.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use shardwright_worker::handler::Assignment;

use super::output::{OutputError, RESULT_MODE, Stream, create, sync_folder};

/// A store to which finished spill files are uploaded.
pub trait SpillStore: Send + Sync + 'static {
    /// Returns the URL of an object.
    fn url_of(&self, name: &str) -> String;

    /// Uploads a file as an object, atomically.
    fn put_file<'a>(&'a self, name: &'a str, file: &'a mut File) -> BoxFuture<'a, io::Result<()>>;
}

/// Stores long outputs of programs in files.
#[derive(Clone)]
pub struct Spill {
    folder: PathBuf,
    /// Longest output that is part of the result line.
    pub inline_bytes: usize,
    uploads: Option<Arc<dyn SpillStore>>,
}

impl Spill {
    /// Stores outputs of more than `inline_bytes` in files of `folder`.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, inline_bytes: usize) -> Self {
        Self { folder: folder.into(), inline_bytes, uploads: None }
    }

    /// Uploads finished files to a store.
    #[must_use]
    pub fn to_store(mut self, store: Arc<dyn SpillStore>) -> Self {
        self.uploads = Some(store);
        self
    }

    /// Creates the file of an item. The fence is part of its name, so two owners never write to the
    /// same file.
    pub(super) fn begin(
        &self,
        assignment: &Assignment,
        sequence: u64,
        stream: Stream,
    ) -> Result<SpillFile, OutputError> {
        let (run, name) = names(assignment, sequence, stream);
        let folder = self.folder.join(&run);
        fs::create_dir_all(&folder).map_err(OutputError::at(&folder))?;
        let path = folder.join(&name);
        let mut options = File::options();
        let opened = create(&path, RESULT_MODE, options.read(true).write(true).truncate(true));
        let file = opened.map_err(OutputError::at(&path))?;
        Ok(SpillFile {
            path,
            file,
            bytes: 0,
            hasher: blake3::Hasher::new(),
            is_kept: false,
            upload: self.uploads.clone().map(|to| (to, format!("stdout/{run}/{name}"))),
        })
    }

    /// Deletes the files of an earlier try of an item, which no result names.
    pub(super) fn discard(&self, assignment: &Assignment, sequence: u64) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let (run, name) = names(assignment, sequence, stream);
            // A leftover is harmless.
            let _absent = fs::remove_file(self.folder.join(run).join(name));
        }
    }
}

/// The names of the folder and the file of an output.
fn names(assignment: &Assignment, sequence: u64, stream: Stream) -> (String, String) {
    let Assignment { run, shard, fence, .. } = assignment;
    let end = match stream {
        Stream::Stdout => "",
        Stream::Stderr => ".stderr",
    };
    let name = format!("{:016x}-{:016x}-{sequence}{end}", shard.as_raw(), fence.as_raw());
    (format!("{:016x}", run.as_raw()), name)
}

/// A stored long output.
pub(super) struct Spilled {
    /// Its path or URL.
    pub(super) location: PathBuf,
    pub(super) bytes: u64,
    pub(super) blake3: String,
}

/// The output of one item. Dropping it before `finish` deletes the file.
pub(super) struct SpillFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    hasher: blake3::Hasher,
    is_kept: bool,
    upload: Option<(Arc<dyn SpillStore>, String)>,
}

impl SpillFile {
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.file.write_all(bytes).map_err(OutputError::at(&self.path))?;
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
        Ok(())
    }

    /// Makes the output durable, and returns its location, length and digest.
    pub(super) async fn finish(mut self) -> Result<Spilled, OutputError> {
        let (bytes, blake3) = (self.bytes, self.hasher.finalize().to_hex().to_string());
        if let Some((store, name)) = self.upload.take() {
            let location = PathBuf::from(store.url_of(&name));
            store.put_file(&name, &mut self.file).await.map_err(OutputError::at(&location))?;
            return Ok(Spilled { location, bytes, blake3 });
        }
        self.sync().await.map_err(OutputError::at(&self.path))?;
        self.is_kept = true;
        Ok(Spilled { location: self.path.clone(), bytes, blake3 })
    }

    /// Syncs on the blocking pool: it may take longer than a lease, which the calling task renews.
    async fn sync(&self) -> io::Result<()> {
        let (file, folder) = (self.file.try_clone()?, self.path.parent().map(Path::to_owned));
        let synced = tokio::task::spawn_blocking(move || {
            file.sync_all()?;
            folder.as_deref().map_or(Ok(()), sync_folder)
        });
        synced.await?
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // A leftover is harmless: the next try truncates the file.
            let _leftover = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;

    use shardwright_contracts::{FenceEpoch, RunId, ShardId, WorkerId};
    use tokio::runtime::Builder;
    use tokio::task::spawn_blocking;

    use super::*;

    const ASSIGNMENT: Assignment = Assignment {
        run: RunId::from_raw(1),
        shard: ShardId::from_raw(2),
        fence: FenceEpoch::INITIAL,
        worker: WorkerId::from_raw(3),
    };

    #[test]
    fn a_slow_disk_does_not_block_the_task() {
        let folder = tempfile::tempdir().unwrap();
        let spill = Spill::new(folder.path(), 0);
        let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let mut file = spill.begin(&ASSIGNMENT, 4, Stream::Stdout).unwrap();
            file.append(b"long").unwrap();
            // Occupies the only blocking thread until the sender is dropped.
            let (go_on, may_go_on) = mpsc::channel::<()>();
            let slow = spawn_blocking(move || may_go_on.recv());
            let mut finished = pin!(file.finish());
            assert!(futures_util::poll!(&mut finished).is_pending());
            drop(go_on);
            assert!(slow.await.unwrap().is_err());
            let Ok(spilled) = finished.await else { panic!("it cannot be stored") };
            assert_eq!((spilled.bytes, fs::read(spilled.location).unwrap()), (4, b"long".to_vec()));
        });
    }

    #[test]
    fn pipe_in_place_of_an_output_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let spill = Spill::new(folder.path().to_owned(), 0);
        let Ok(file) = spill.begin(&ASSIGNMENT, 4, Stream::Stdout) else {
            panic!("it cannot be stored")
        };
        let path = file.path.clone();
        drop(file);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(spill.begin(&ASSIGNMENT, 4, Stream::Stdout).is_err());
    }
}
