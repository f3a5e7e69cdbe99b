//! The results of a run: segments while it runs, one file when it is done.

mod clear;
mod marker;
mod unfinished;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
#[cfg(feature = "commands")]
use std::{pin::Pin, sync::Arc};

use anyhow::Context as _;
use shardwright_connectors::{
    FolderSink, RESULT_MODE, SECRET_MODE, open_folder, open_regular, sync_folder,
};
use shardwright_contracts::RunId;
use shardwright_coordination::{RunName, ShardRecord};
#[cfg(feature = "commands")]
use shardwright_process::{Spill, SpillStore};
use shardwright_store::lock_holders;
use shardwright_worker::extent::TokenEnvelope;
use shardwright_worker::sink::{Sink, SinkError};

pub use self::clear::remove;
pub use self::marker::Replaced;
use crate::description::{Mode, Results, path_of};
use crate::interface::Interface;
use crate::journal;
use crate::objects::ObjectSink;
use crate::receipt::Receipt;
use crate::sink::AnySink;

/// The name of the result file.
pub const RESULTS: &str = "results.jsonl";
/// The name of the receipt.
pub const RECEIPT: &str = "receipt.json";
const SEGMENTS: &str = "segments";
pub(crate) const LONG_OUTPUTS: &str = "stdout";
const LOGS: &str = "logs";
/// Prefix of files that are written before they get their names.
const TEMPORARY: &str = ".tmp";
/// How long a process waits for another one that writes to the same location. An upload may take
/// minutes.
const LOCK_WAIT: Duration = Duration::from_secs(600);
/// The interval between two attempts to lock.
const LOCK_CHECK: Duration = Duration::from_millis(10);
/// Longest stdout of a program that is part of its record.
#[cfg(feature = "commands")]
const INLINE_BYTES: usize = 64 * 1_024;

/// The location of a run's results, as this machine reaches it.
#[derive(Clone, Debug)]
pub struct Output {
    /// The folder of the results, or of files that are built before they are uploaded.
    folder: PathBuf,
    objects: Option<ObjectSink>,
    /// Whether each machine keeps the results of its own work.
    is_local: bool,
    /// Permissions of its files, before the umask.
    mode: u32,
    interface: Interface,
}

/// Uploads long outputs of programs to the object store of the results.
#[cfg(feature = "commands")]
struct Uploads(ObjectSink);

#[cfg(feature = "commands")]
impl SpillStore for Uploads {
    fn url_of(&self, name: &str) -> String {
        self.0.url_of(name)
    }

    fn put_file<'a>(
        &'a self,
        name: &'a str,
        file: &'a mut File,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>> {
        Box::pin(async move { self.0.put_file(name, file).await.map_err(io::Error::other) })
    }
}

/// A result file that was built and not yet published.
pub(crate) struct Built {
    file: tempfile::NamedTempFile,
    pub(crate) location: String,
    pub(crate) bytes: u64,
    pub(crate) digest: String,
    /// Number of results in it.
    pub items: u64,
    /// Number of results on other machines.
    pub elsewhere: u64,
}

impl Output {
    /// Opens the location of a run's results.
    pub async fn of(results: &Results, state: &Path, name: RunName) -> anyhow::Result<Self> {
        let (folder, objects, is_local) = match results {
            Results::Folder { path } => (path_of(path), None, false),
            Results::Objects { url } => {
                let objects = ObjectSink::open(url.clone()).await;
                let objects = objects.with_context(|| format!("{url} cannot be opened"))?;
                (default_folder(state, name), Some(objects), false)
            }
            Results::Local => (default_folder(state, name), None, true),
        };
        let (mode, interface) = (RESULT_MODE, Interface::CommandLine);
        Ok(Self { folder, objects, is_local, mode, interface })
    }

    /// Closes the files to other users if the results show secrets, and words errors for the
    /// caller's interface.
    pub(crate) fn for_mode(mut self, mode: Mode) -> Self {
        self.interface = Interface::of(mode);
        if let Mode::Scan { shows_secrets: true } = mode {
            self.mode = SECRET_MODE;
        }
        self
    }

    /// The folder of the results on this machine, or of files that are built before an upload.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether every machine sees the same location.
    pub const fn is_the_same_for_all(&self) -> bool {
        self.objects.is_some()
    }

    /// The object store of the results, if they are in one.
    pub const fn objects(&self) -> Option<&ObjectSink> {
        self.objects.as_ref()
    }

    /// The path or URL of a file of the results.
    pub fn location(&self, file: &str) -> String {
        match &self.objects {
            Some(objects) => objects.url_of(file),
            None => self.folder.join(file).display().to_string(),
        }
    }

    /// The sink of the segments.
    #[must_use]
    pub fn sink(&self) -> impl Sink + use<> {
        let folder = || FolderSink::new(self.folder.join(SEGMENTS)).mode(self.mode);
        match &self.objects {
            Some(objects) => AnySink::Objects(objects.clone()),
            None if self.is_local => AnySink::Local(folder()),
            None => AnySink::Folder(folder()),
        }
    }

    /// The storage of long outputs of programs.
    #[cfg(feature = "commands")]
    #[must_use]
    pub fn spill(&self) -> Spill {
        let spill = Spill::new(self.folder.join(LONG_OUTPUTS), INLINE_BYTES);
        match &self.objects {
            Some(objects) => spill.to_store(Arc::new(Uploads(objects.clone()))),
            None => spill,
        }
    }

    /// The folder for logs of persistent programs. It is named after the run, because the user may
    /// have other files in a folder `logs`.
    #[cfg(feature = "commands")]
    pub(crate) fn logs(&self, run: RunId) -> PathBuf {
        self.folder.join(LOGS).join(shown(run))
    }

    /// Creates the local folder, which is needed for every location.
    pub(crate) fn create_folder(&self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("{} cannot be created", self.folder.display()))
    }

    async fn read(&self, file: &str) -> anyhow::Result<Option<Vec<u8>>> {
        match &self.objects {
            Some(objects) => Ok(objects.get(file).await?.map(Vec::from)),
            None => match read_file(&self.folder.join(file)) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error).with_context(|| self.location(file)),
            },
        }
    }

    /// The receipt at the location, which may be of an earlier run. None if it cannot be decoded.
    pub(crate) async fn receipt(&self) -> anyhow::Result<Option<Receipt>> {
        let found = self.read(RECEIPT).await?;
        Ok(found.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    async fn write(&self, file: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        match &self.objects {
            Some(objects) => Ok(objects.put(file, bytes.into()).await?),
            None => {
                let path = self.folder.join(file);
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder)
                        .with_context(|| format!("{} cannot be created", folder.display()))?;
                }
                write_atomically(&path, &bytes, self.mode)
            }
        }
    }

    /// Locks the location against other processes of this machine, until the result is dropped.
    /// Where locks are not supported, it is not locked. Fails if another process holds the lock for
    /// too long.
    ///
    /// Waits on the blocking pool, because another task of this process may hold the lock and need
    /// this thread.
    pub(crate) async fn lock(&self) -> anyhow::Result<Option<File>> {
        let folder = self.folder.clone();
        tokio::task::spawn_blocking(move || lock_folder(&folder, LOCK_WAIT)).await?
    }

    /// Publishes the result file and the receipt.
    pub(crate) async fn publish(
        &self,
        run: RunId,
        built: Built,
        receipt: Vec<u8>,
    ) -> anyhow::Result<()> {
        let mut file = built.file;
        if let Some(objects) = &self.objects {
            objects.put_file(RESULTS, file.as_file_mut()).await?;
        } else {
            let path = self.folder.join(RESULTS);
            keep_mode(file.as_file(), &path, self.mode)?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            sync_folder(&self.folder)?;
        }
        self.write(RECEIPT, receipt).await?;
        self.clear_predecessors(run).await
    }

    /// The folder of the journals of this machine's processes.
    pub fn journal_folder(&self, run: RunId) -> PathBuf {
        self.folder.join(SEGMENTS).join(shown(run))
    }

    /// Publishes the journals of this machine, so that all machines find them.
    pub async fn publish_journals(&self, run: RunId) -> anyhow::Result<()> {
        let Some(objects) = &self.objects else { return Ok(()) };
        for (name, bytes) in journals_in(&self.journal_folder(run))? {
            objects.put(&format!("{SEGMENTS}/{}/{name}", shown(run)), bytes.into()).await?;
        }
        Ok(())
    }

    /// The journals of all processes of a run, as far as this machine reaches them.
    pub async fn journals(&self, run: RunId) -> anyhow::Result<Vec<Vec<u8>>> {
        let Some(objects) = &self.objects else {
            let journals = journals_in(&self.journal_folder(run))?;
            return Ok(journals.into_values().collect());
        };
        let mut journals = Vec::new();
        let mut names = objects.names(&format!("{SEGMENTS}/{}", shown(run))).await?;
        names.sort();
        for name in
            names.iter().filter(|name| name.rsplit('/').next().is_some_and(journal::is_name))
        {
            journals.extend(objects.get(name).await?.map(Vec::from));
        }
        Ok(journals)
    }

    /// A folder with the result file and the receipt, as far as they exist. It is a temporary one
    /// if they have to be downloaded.
    pub async fn readable(&self) -> anyhow::Result<(PathBuf, Option<tempfile::TempDir>)> {
        let Some(objects) = &self.objects else { return Ok((self.folder.clone(), None)) };
        let folder = tempfile::tempdir()?;
        for file in [RESULTS, RECEIPT] {
            match objects.get_file(file, &folder.path().join(file)).await {
                Err(SinkError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
                fetched => fetched?,
            }
        }
        Ok((folder.path().to_owned(), Some(folder)))
    }

    /// Builds the result file from the extents that the cursors of all shards name. It can be
    /// repeated, and done by several processes at once.
    pub(crate) async fn build(&self, run: RunId, shards: &[ShardRecord]) -> anyhow::Result<Built> {
        let file = self
            .new_unfinished(run)
            .with_context(|| format!("{} cannot be written", self.folder.display()))?;
        let (mut writer, mut hasher) = (BufWriter::new(file), blake3::Hasher::new());
        let (sink, mut bytes, mut items, mut elsewhere) = (self.sink(), 0, 0, 0);
        for shard in shards {
            let envelope = TokenEnvelope::decode(shard.cursor.as_update().token())?;
            for extent in envelope.extents {
                if sink.is_elsewhere(run, &extent) {
                    elsewhere += extent.items;
                    continue;
                }
                let mut piece = |piece: &[u8]| {
                    hasher.update(piece);
                    bytes += piece.len() as u64;
                    writer.write_all(piece)
                };
                sink.read(run, extent, &mut piece).await?;
                items += extent.items;
            }
        }
        let file = writer.into_inner().map_err(|error| error.into_error())?;
        let (location, digest) = (self.location(RESULTS), hasher.finalize().to_hex().to_string());
        Ok(Built { file, location, bytes, digest, items, elsewhere })
    }
}

/// The journals in a folder, by their names.
fn journals_in(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut journals = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journals),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if journal::is_name(&name) {
            journals.insert(name, read_file(&entry.path())?);
        }
    }
    Ok(journals)
}

fn lock_folder(folder: &Path, wait: Duration) -> anyhow::Result<Option<File>> {
    let Ok(file) = open_folder(folder) else { return Ok(None) };
    let deadline = Instant::now() + wait;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "{} has locked {} for {wait:?}; wait until it has written its results, or stop it",
            lock_holders(folder),
            folder.display()
        );
        std::thread::sleep(LOCK_CHECK);
    }
}

/// Reads a regular file.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates a temporary file with these permissions before the umask.
fn new_file(folder: &Path, prefix: &str, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new();
    file.prefix(prefix).permissions(Permissions::from_mode(mode)).tempfile_in(folder)
}

/// The folder for results of a run. Its name is one plain file name.
pub(crate) fn default_folder(state: &Path, name: RunName) -> PathBuf {
    state.join("runs").join(name.as_str())
}

/// The id of a run as text.
#[must_use]
pub fn shown(run: RunId) -> String {
    run.to_string()
}

/// Parses the id of a run.
fn parse_run(text: &str) -> Option<RunId> {
    let run = RunId::from_raw(u64::from_str_radix(text, 16).ok()?);
    (shown(run) == text).then_some(run)
}

/// Gives a file the permissions of the regular file that it replaces, at most these.
fn keep_mode(file: &File, replaced: &Path, mode: u32) -> io::Result<()> {
    match replaced.symlink_metadata() {
        Ok(old) if old.is_file() => {
            file.set_permissions(Permissions::from_mode(old.permissions().mode() & mode))
        }
        _ => Ok(()),
    }
}

/// Writes a file atomically, with these permissions before the umask. If it replaces a regular
/// file, it keeps that file's permissions, at most these.
pub fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || {
        let mut file = new_file(folder, TEMPORARY, mode)?;
        keep_mode(file.as_file(), path, mode)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        sync_folder(folder)
    };
    write().with_context(|| format!("{} cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipe_at_the_location_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(lock_folder(&pipe, Duration::ZERO).unwrap().is_none());
        assert!(read_file(&pipe).is_err());
    }

    #[test]
    fn wait_for_a_locked_location_ends_and_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock_folder(folder.path(), Duration::ZERO).unwrap().unwrap();
        let refused = lock_folder(folder.path(), Duration::ZERO).unwrap_err().to_string();
        let holder = format!("process {}", std::process::id());
        assert!(refused.contains(&holder) || refused.contains("another process"), "{refused}");
        drop(held);
        assert!(lock_folder(folder.path(), Duration::ZERO).unwrap().is_some());
    }
}
