//! Output that is too long to be part of a result.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use shardwright_worker::handler::Assignment;

use super::output::Unkept;

/// A place that finished spill files are uploaded to.
pub trait SpillStore: Send + Sync + 'static {
    /// Returns the address of an object.
    fn place(&self, name: &str) -> String;

    /// Uploads a file as an object, which appears whole.
    fn put_file<'a>(&'a self, name: &'a str, file: &'a mut File) -> BoxFuture<'a, io::Result<()>>;
}

/// A folder for what a program wrote, where it wrote much.
#[derive(Clone)]
pub struct Spill {
    folder: PathBuf,
    /// The longest output that is kept in the result itself.
    pub inline_bytes: usize,
    uploads: Option<Arc<dyn SpillStore>>,
}

impl Spill {
    /// Puts output of more than `inline_bytes` into files of `folder`.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, inline_bytes: usize) -> Self {
        Self { folder: folder.into(), inline_bytes, uploads: None }
    }

    /// Moves finished files to another place.
    #[must_use]
    pub fn to_store(mut self, store: Arc<dyn SpillStore>) -> Self {
        self.uploads = Some(store);
        self
    }

    /// Begins the file of an item. Its name is the attempt's own, so that two owners never write
    /// to the same file.
    pub(super) fn begin(
        &self,
        assignment: &Assignment,
        sequence: u64,
    ) -> Result<SpillFile, Unkept> {
        let Assignment { run, shard, fence, .. } = assignment;
        let run = format!("{:016x}", run.as_raw());
        let folder = self.folder.join(&run);
        fs::create_dir_all(&folder).map_err(Unkept::at(&folder))?;
        let name = format!("{:016x}-{:016x}-{sequence}", shard.as_raw(), fence.as_raw());
        let path = folder.join(&name);
        let mut options = File::options();
        let opened = options.read(true).write(true).create(true).truncate(true).open(&path);
        let file = opened.map_err(Unkept::at(&path))?;
        Ok(SpillFile {
            path,
            file,
            bytes: 0,
            hasher: blake3::Hasher::new(),
            is_kept: false,
            upload: self.uploads.clone().map(|to| (to, format!("stdout/{run}/{name}"))),
        })
    }
}

/// Output that is elsewhere, and what tells it from any other.
pub(super) struct Spilled {
    /// Its path or address.
    pub(super) place: PathBuf,
    pub(super) bytes: u64,
    pub(super) blake3: String,
}

/// The output of one item. Whoever drops it before its end takes it away: nobody would name it.
pub(super) struct SpillFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    hasher: blake3::Hasher,
    is_kept: bool,
    upload: Option<(Arc<dyn SpillStore>, String)>,
}

impl SpillFile {
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Unkept> {
        self.file.write_all(bytes).map_err(Unkept::at(&self.path))?;
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
        Ok(())
    }

    /// Makes it durable and says what it is, and where.
    pub(super) async fn finish(mut self) -> Result<Spilled, Unkept> {
        let (bytes, blake3) = (self.bytes, self.hasher.finalize().to_hex().to_string());
        if let Some((store, name)) = self.upload.take() {
            let place = PathBuf::from(store.place(&name));
            store.put_file(&name, &mut self.file).await.map_err(Unkept::at(&place))?;
            return Ok(Spilled { place, bytes, blake3 });
        }
        self.sync().await.map_err(Unkept::at(&self.path))?;
        self.is_kept = true;
        Ok(Spilled { place: self.path.clone(), bytes, blake3 })
    }

    /// Beside the tasks: it may take longer than a lease does, and the task that waits for it is
    /// the one that renews that.
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
            // What stays behind is in nobody's way: the next try begins the file anew.
            let _untidy = fs::remove_file(&self.path);
        }
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
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
    fn the_task_that_waits_for_a_slow_disk_is_not_held_up() {
        let folder = tempfile::tempdir().unwrap();
        let spill = Spill::new(folder.path(), 0);
        let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let mut file = spill.begin(&ASSIGNMENT, 4).unwrap();
            file.append(b"long").unwrap();
            // The only thread for what blocks does so until it is told.
            let (go_on, told) = mpsc::channel::<()>();
            let slow = spawn_blocking(move || told.recv());
            let mut finished = pin!(file.finish());
            assert!(futures_util::poll!(&mut finished).is_pending());
            drop(go_on);
            assert!(slow.await.unwrap().is_err());
            let Ok(spilled) = finished.await else { panic!("it cannot be kept") };
            assert_eq!((spilled.bytes, fs::read(spilled.place).unwrap()), (4, b"long".to_vec()));
        });
    }
}
