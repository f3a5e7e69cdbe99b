//! The results of a run: segments while it goes on, one file when it is done.

mod clear;
mod marker;
mod unfinished;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
#[cfg(feature = "commands")]
use std::{pin::Pin, sync::Arc};

use anyhow::Context as _;
use shardwright_connectors::FolderSink;
use shardwright_contracts::RunId;
use shardwright_coordination::{RunName, ShardRecord};
#[cfg(feature = "commands")]
use shardwright_process::{Spill, SpillStore};
use shardwright_worker::extent::TokenEnvelope;
use shardwright_worker::sink::{Sink, SinkError};

pub use self::clear::remove;
pub use self::marker::Replaced;
use crate::description::{Results, path_of};
use crate::journal;
use crate::objects::ObjectSink;
use crate::sink::AnySink;

/// The name of the result file.
pub const RESULTS: &str = "results.jsonl";
/// The name of the receipt.
pub const RECEIPT: &str = "receipt.json";
const SEGMENTS: &str = "segments";
const LONG_OUTPUTS: &str = "stdout";
const LOGS: &str = "logs";
/// The longest output of a program that is kept in its record.
#[cfg(feature = "commands")]
const INLINE_BYTES: usize = 64 * 1_024;

/// The place of a run's results, as this machine reaches it.
#[derive(Clone, Debug)]
pub struct Output {
    /// Where they are, or are put together before they go elsewhere.
    folder: PathBuf,
    objects: Option<ObjectSink>,
    /// Whether other machines have results of their own.
    is_local: bool,
}

/// Uploads long outputs of programs to the object store of the results.
#[cfg(feature = "commands")]
struct Uploads(ObjectSink);

#[cfg(feature = "commands")]
impl SpillStore for Uploads {
    fn place(&self, name: &str) -> String {
        self.0.place(name)
    }

    fn put_file<'a>(
        &'a self,
        name: &'a str,
        file: &'a mut File,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>> {
        Box::pin(async move { self.0.put_file(name, file).await.map_err(io::Error::other) })
    }
}

/// The result file, as it was built, and not yet where it belongs.
pub(crate) struct Built {
    file: tempfile::NamedTempFile,
    pub(crate) place: String,
    pub(crate) bytes: u64,
    pub(crate) digest: String,
    /// How many results it holds.
    pub items: u64,
    /// How many are on other machines.
    pub elsewhere: u64,
}

impl Output {
    /// Where a run's results are.
    pub async fn of(results: &Results, state: &Path, name: RunName) -> anyhow::Result<Self> {
        Ok(match results {
            Results::Folder { path } => {
                Self { folder: path_of(path), objects: None, is_local: false }
            }
            Results::Objects { url } => {
                let objects = ObjectSink::open(url.clone()).await;
                let objects = objects.with_context(|| format!("{url} cannot be opened"))?;
                let folder = default_folder(state, name);
                Self { folder, objects: Some(objects), is_local: false }
            }
            Results::Local => {
                Self { folder: default_folder(state, name), objects: None, is_local: true }
            }
        })
    }

    /// The folder of this machine in which they are, or are put together.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether every machine sees the same place.
    pub const fn is_the_same_for_all(&self) -> bool {
        self.objects.is_some()
    }

    /// The object store in which they are, if they are in one.
    pub const fn objects(&self) -> Option<&ObjectSink> {
        self.objects.as_ref()
    }

    /// What a file among the results is called.
    pub fn place(&self, file: &str) -> String {
        match &self.objects {
            Some(objects) => objects.place(file),
            None => self.folder.join(file).display().to_string(),
        }
    }

    /// Where segments go.
    #[must_use]
    pub fn sink(&self) -> impl Sink + use<> {
        let folder = || FolderSink::new(self.folder.join(SEGMENTS));
        match &self.objects {
            Some(objects) => AnySink::Objects(objects.clone()),
            None if self.is_local => AnySink::Local(folder()),
            None => AnySink::Folder(folder()),
        }
    }

    /// Where long outputs of programs go.
    #[cfg(feature = "commands")]
    #[must_use]
    pub fn spill(&self) -> Spill {
        let spill = Spill::new(self.folder.join(LONG_OUTPUTS), INLINE_BYTES);
        match &self.objects {
            Some(objects) => spill.to_store(Arc::new(Uploads(objects.clone()))),
            None => spill,
        }
    }

    /// Where persistent programs of a run write what they have to say. The folder is the run's own:
    /// whoever says where results go may have a folder for logs there.
    #[cfg(feature = "commands")]
    pub(crate) fn logs(&self, run: RunId) -> PathBuf {
        self.folder.join(LOGS).join(shown(run))
    }

    /// Everybody needs a folder, if only to put things together.
    pub(crate) fn make_folder(&self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("{} cannot be made", self.folder.display()))
    }

    async fn read(&self, file: &str) -> anyhow::Result<Option<Vec<u8>>> {
        match &self.objects {
            Some(objects) => Ok(objects.get(file).await?.map(Vec::from)),
            None => match fs::read(self.folder.join(file)) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error).with_context(|| self.place(file)),
            },
        }
    }

    async fn write(&self, file: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        match &self.objects {
            Some(objects) => Ok(objects.put(file, bytes.into()).await?),
            None => {
                let path = self.folder.join(file);
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder)
                        .with_context(|| format!("{} cannot be made", folder.display()))?;
                }
                write_whole(&path, &bytes)
            }
        }
    }

    /// Keeps others on this machine from saying whose the place is, or what it holds, until it is
    /// dropped. Where there are no locks, as in an object store, nobody is kept from it.
    ///
    /// It is waited for on a thread of its own: another task of this process may have the lock, and
    /// needs threads to get on.
    pub(crate) async fn lock(&self) -> Option<File> {
        let folder = self.folder.clone();
        let locked = tokio::task::spawn_blocking(move || {
            let folder = File::open(folder).ok()?;
            folder.lock().ok().map(|()| folder)
        });
        locked.await.ok().flatten()
    }

    /// Puts the result file and the receipt where they belong.
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
            file.as_file().sync_all()?;
            file.persist(self.folder.join(RESULTS))?;
            File::open(&self.folder)?.sync_all()?;
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
        for name in names.iter().filter(|name| name.contains(&format!("/{}", journal::PREFIX))) {
            journals.extend(objects.get(name).await?.map(Vec::from));
        }
        Ok(journals)
    }

    /// The folder in which the result file and the receipt can be read, if they are there; a
    /// temporary one, if they have to be fetched.
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

    /// Builds the result file from what the cursors of all shards name. It can be done again and
    /// by several at once.
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
        let (place, digest) = (self.place(RESULTS), hasher.finalize().to_hex().to_string());
        Ok(Built { file, place, bytes, digest, items, elsewhere })
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
        if name.starts_with(journal::PREFIX) {
            journals.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(journals)
}

/// A file that can be read by whoever may read what others write here.
fn new_file(folder: &Path, prefix: &str) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new();
    file.prefix(prefix).permissions(Permissions::from_mode(0o666)).tempfile_in(folder)
}

pub(crate) fn default_folder(state: &Path, name: RunName) -> PathBuf {
    state.join("runs").join(name.as_str())
}

/// The id of a run, for people.
#[must_use]
pub fn shown(run: RunId) -> String {
    run.to_string()
}

/// The run that is shown so, if one is.
fn run_shown(text: &str) -> Option<RunId> {
    let run = RunId::from_raw(u64::from_str_radix(text, 16).ok()?);
    (shown(run) == text).then_some(run)
}

/// Writes a file that appears whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || {
        let mut file = new_file(folder, ".tmp")?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        File::open(folder)?.sync_all()
    };
    write().with_context(|| format!("{} cannot be written", path.display()))
}
