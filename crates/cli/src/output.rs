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
use shardwright_worker::sink::{FolderSink, Sink};

use crate::description::Results;

const MARKER: &str = "run.json";
/// The longest output of a program that is kept in its record.
const INLINE_BYTES: usize = 64 * 1_024;

/// The folder of a run's results.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    folder: PathBuf,
}

/// What says whose results are in a folder.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    run: String,
    name: String,
}

/// The result file, as it was built.
pub(crate) struct Built {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) digest: String,
}

impl Output {
    /// Where a run's results are on this machine.
    pub(crate) fn of(results: &Results, state: &Path, name: RunName) -> Self {
        match results {
            Results::Folder { path } => Self { folder: path.clone() },
            Results::Local => Self { folder: default_folder(state, name) },
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn results(&self) -> PathBuf {
        self.folder.join("results.jsonl")
    }

    pub(crate) fn receipt(&self) -> PathBuf {
        self.folder.join("receipt.json")
    }

    pub(crate) fn sink(&self) -> FolderSink {
        FolderSink::new(self.folder.join("segments"))
    }

    pub(crate) fn spill(&self) -> Spill {
        Spill::new(self.folder.join("stdout"), INLINE_BYTES)
    }

    /// Where persistent programs write what they have to say.
    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Says whose results are here. Whoever makes the run does so.
    pub(crate) fn claim(&self, name: RunName, run: RunId, may_replace: bool) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("{} cannot be made", self.folder.display()))?;
        let marker = Marker { run: shown(run), name: name.to_string() };
        match self.marker()? {
            Some(found) if found == marker => return Ok(()),
            Some(found) if found.name != marker.name || !may_replace => anyhow::bail!(
                "{} holds the results of the run {}; say another folder with --out",
                self.folder.display(),
                found.name
            ),
            Some(_) | None => {}
        }
        write_whole(&self.folder.join(MARKER), &serde_json::to_vec(&marker)?)
    }

    /// Makes sure that this is the folder that the run's maker meant.
    pub(crate) fn join(&self, run: RunId) -> anyhow::Result<()> {
        let found = self.marker()?;
        anyhow::ensure!(
            found.is_some_and(|marker| marker.run == shown(run)),
            "{} is not the folder in which this run was begun: every worker has to reach the same \
             one; say --out-local to a new run if they cannot",
            self.folder.display()
        );
        Ok(())
    }

    fn marker(&self) -> anyhow::Result<Option<Marker>> {
        let path = self.folder.join(MARKER);
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Builds the result file from what the cursors of all shards name. It can be done again and
    /// by several at once: the file appears whole.
    pub(crate) async fn build(&self, run: RunId, shards: &[ShardRecord]) -> anyhow::Result<Built> {
        let path = self.results();
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
        let file = writer.into_inner().map_err(|error| error.into_error())?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(Built { path, bytes, digest: hasher.finalize().to_hex().to_string() })
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
