//! The results of a run: segments while it goes on, one file when it is done.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use shardwright_contracts::RunId;
use shardwright_coordination::{RunName, ShardRecord};
use shardwright_worker::extent::Envelope;
use shardwright_worker::process::Spill;
use shardwright_worker::sink::{FolderSink, ObjectSink, Sink};

use crate::description::Results;
use crate::sink::AnySink;

const MARKER: &str = "run.json";
pub(crate) const RESULTS: &str = "results.jsonl";
const RECEIPT: &str = "receipt.json";
/// The longest output of a program that is kept in its record.
const INLINE_BYTES: usize = 64 * 1_024;

/// The place of a run's results, as this machine reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Where they are, or are put together before they go elsewhere.
    folder: PathBuf,
    objects: Option<ObjectSink>,
}

/// What says whose results are in a place.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    run: String,
    name: String,
}

/// The result file, as it was built.
pub(crate) struct Built {
    pub(crate) place: String,
    pub(crate) bytes: u64,
    pub(crate) digest: String,
}

impl Output {
    /// Where a run's results are.
    pub(crate) async fn of(results: &Results, state: &Path, name: RunName) -> anyhow::Result<Self> {
        Ok(match results {
            Results::Folder { path } => Self { folder: path.clone(), objects: None },
            Results::Objects { url } => {
                let objects = ObjectSink::open(url.clone()).await;
                let objects = objects.with_context(|| format!("{url} cannot be opened"))?;
                Self { folder: default_folder(state, name), objects: Some(objects) }
            }
            Results::Local => Self { folder: default_folder(state, name), objects: None },
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a file among the results is called.
    pub(crate) fn place(&self, file: &str) -> String {
        match &self.objects {
            Some(objects) => objects.place(file),
            None => self.folder.join(file).display().to_string(),
        }
    }

    pub(crate) fn sink(&self) -> AnySink {
        match &self.objects {
            Some(objects) => AnySink::Objects(objects.clone()),
            None => AnySink::Folder(FolderSink::new(self.folder.join("segments"))),
        }
    }

    pub(crate) fn spill(&self) -> Spill {
        let spill = Spill::new(self.folder.join("stdout"), INLINE_BYTES);
        match &self.objects {
            Some(objects) => spill.to_objects(objects.clone()),
            None => spill,
        }
    }

    /// Where persistent programs write what they have to say.
    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Says whose results are here. Whoever makes the run does so.
    pub(crate) async fn claim(
        &self,
        name: RunName,
        run: RunId,
        may_replace: bool,
    ) -> anyhow::Result<()> {
        self.make_folder()?;
        let marker = Marker { run: shown(run), name: name.to_string() };
        match self.marker().await? {
            Some(found) if found == marker => return Ok(()),
            Some(found) if found.name != marker.name || !may_replace => anyhow::bail!(
                "{} is of the run {}; say another place for results with --out",
                self.place(MARKER),
                found.name
            ),
            Some(_) | None => {}
        }
        self.write(MARKER, serde_json::to_vec(&marker)?).await
    }

    /// Makes sure that this is the place that the run's maker meant.
    pub(crate) async fn join(&self, run: RunId) -> anyhow::Result<()> {
        self.make_folder()?;
        let found = self.marker().await?;
        anyhow::ensure!(
            found.is_some_and(|marker| marker.run == shown(run)),
            "{} does not say that results of this run go there: every worker has to reach the \
             place that it was begun with; say --out-local to a new run if they cannot",
            self.place(MARKER)
        );
        Ok(())
    }

    /// Everybody needs a folder, if only to put things together.
    pub(crate) fn make_folder(&self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("{} cannot be made", self.folder.display()))
    }

    async fn marker(&self) -> anyhow::Result<Option<Marker>> {
        let found = match &self.objects {
            Some(objects) => objects.get(MARKER).await?.map(Vec::from),
            None => match fs::read(self.folder.join(MARKER)) {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(error).with_context(|| self.place(MARKER)),
            },
        };
        Ok(found.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    async fn write(&self, file: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        match &self.objects {
            Some(objects) => Ok(objects.put(file, bytes.into()).await?),
            None => write_whole(&self.folder.join(file), &bytes),
        }
    }

    pub(crate) async fn write_receipt(&self, bytes: Vec<u8>) -> anyhow::Result<()> {
        self.write(RECEIPT, bytes).await
    }

    /// The folder in which the result file and the receipt can be read; a temporary one, if they
    /// have to be fetched.
    pub(crate) async fn readable(&self) -> anyhow::Result<(PathBuf, Option<tempfile::TempDir>)> {
        let Some(objects) = &self.objects else { return Ok((self.folder.clone(), None)) };
        let folder = tempfile::tempdir()?;
        for file in [RESULTS, RECEIPT] {
            objects.get_file(file, &folder.path().join(file)).await?;
        }
        Ok((folder.path().to_owned(), Some(folder)))
    }

    /// Builds the result file from what the cursors of all shards name. It can be done again and
    /// by several at once: the file appears whole.
    pub(crate) async fn build(&self, run: RunId, shards: &[ShardRecord]) -> anyhow::Result<Built> {
        let file = tempfile::NamedTempFile::new_in(&self.folder)
            .with_context(|| format!("{} cannot be written", self.folder.display()))?;
        let (mut writer, mut hasher) = (BufWriter::new(file), blake3::Hasher::new());
        let (sink, mut bytes) = (self.sink(), 0);
        for shard in shards {
            let envelope = Envelope::decode(shard.cursor.as_update().token())?;
            for extent in envelope.extents {
                let mut piece = |piece: &[u8]| {
                    hasher.update(piece);
                    bytes += piece.len() as u64;
                    writer.write_all(piece)
                };
                sink.read(run, extent, &mut piece).await?;
            }
        }
        let mut file = writer.into_inner().map_err(|error| error.into_error())?;
        if let Some(objects) = &self.objects {
            objects.put_file(RESULTS, file.as_file_mut()).await?;
        } else {
            file.as_file().sync_all()?;
            file.persist(self.folder.join(RESULTS))?;
            File::open(&self.folder)?.sync_all()?;
        }
        let digest = hasher.finalize().to_hex().to_string();
        Ok(Built { place: self.place(RESULTS), bytes, digest })
    }
}

pub(crate) fn default_folder(state: &Path, name: RunName) -> PathBuf {
    state.join("runs").join(name.as_str())
}

pub(crate) fn shown(run: RunId) -> String {
    run.to_string()
}

/// Writes a file that appears whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        File::open(folder)?.sync_all()
    };
    write().with_context(|| format!("{} cannot be written", path.display()))
}
