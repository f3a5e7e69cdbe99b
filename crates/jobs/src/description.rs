//! What a run is for, written down with it: whoever joins does the same work.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use shardwright_process::KeyText;
use shardwright_worker::connector::{KeyRange, SourceFingerprint};

use crate::options::JobOptions;
use crate::source::{Source, folder_of_url};

const VERSION: u32 = 1;

/// What a run is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    version: u32,
    /// Where items come from.
    pub source: Source,
    /// What tells the source from another.
    pub(crate) fingerprint: String,
    /// When a source that may change was listed.
    pub(crate) listed_at_ms: Option<u64>,
    /// What is run.
    pub command: Vec<KeyText<'static>>,
    /// How items get to it.
    pub mode: Mode,
    /// Whether items count when they are handed out.
    #[serde(default)]
    pub at_dispatch: bool,
    /// The source as it was said, where that is a path: commands get paths like it.
    given: Option<KeyText<'static>>,
    /// Where results are.
    pub results: Results,
    /// The ranges of the first shards, in hex.
    ranges: Vec<[String; 2]>,
}

/// How items get to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mode {
    /// A process for each.
    Item,
    /// A process for many.
    Batch {
        /// For how many.
        size: u32,
        /// Whether items on its input end with a zero.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        null: bool,
    },
    /// Processes that stay up.
    Persistent,
    /// None: it is the built-in job that looks for secrets.
    Scan {
        /// Whether results hold them as they are.
        shows_secrets: bool,
    },
    /// A handler in the code of a program.
    Library,
}

/// Where results are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Results {
    /// In a folder that all workers reach.
    Folder {
        /// The folder, absolute.
        path: KeyText<'static>,
    },
    /// In an object store.
    Objects {
        /// Its address.
        url: String,
    },
    /// On each machine those of its own work.
    Local,
}

impl Results {
    /// A folder that all workers reach.
    pub fn folder(path: &Path) -> Self {
        Self::Folder { path: path_text(path) }
    }

    /// The place that was said: a folder, or an address. The address of a folder is that folder.
    pub fn said(place: &OsStr) -> anyhow::Result<Self> {
        let url = place.to_str().filter(|place| place.contains("://"));
        let folder = match url {
            Some(url) => match folder_of_url(url) {
                Some(folder) => folder,
                None => return Ok(Self::Objects { url: url.to_owned() }),
            },
            None => PathBuf::from(place),
        };
        // One that is not there yet is nobody else's either.
        let absolute = std::fs::canonicalize(&folder).or_else(|_| std::path::absolute(&folder));
        let absolute = absolute.with_context(|| format!("{} is no place", folder.display()))?;
        Ok(Self::folder(&absolute))
    }

    /// The same place, which is there.
    pub fn made(self) -> anyhow::Result<Self> {
        let Self::Folder { path } = &self else { return Ok(self) };
        let folder = path_of(path);
        let made = std::fs::create_dir_all(&folder).and_then(|()| std::fs::canonicalize(&folder));
        Ok(Self::folder(&made.with_context(|| format!("{} cannot be made", folder.display()))?))
    }

    /// Where they are, for people.
    pub fn place(&self) -> String {
        match self {
            Self::Folder { path } => path_of(path).display().to_string(),
            Self::Objects { url } => url.clone(),
            Self::Local => "each machine (--out-local)".to_owned(),
        }
    }
}

/// A path as it is written down, whatever bytes are in it.
pub(crate) fn path_text(path: &Path) -> KeyText<'static> {
    KeyText::new(path.as_os_str().as_bytes()).into_owned()
}

/// The path that was written down.
pub(crate) fn path_of(text: &KeyText<'_>) -> PathBuf {
    OsString::from_vec(text.to_bytes().unwrap_or_default()).into()
}

impl Description {
    /// Describes a run to be made.
    #[must_use]
    pub fn new(
        source: Source,
        fingerprint: &SourceFingerprint,
        options: &JobOptions,
        results: Results,
        ranges: &[KeyRange],
    ) -> Self {
        let owned = |text: &OsString| KeyText::new(text.as_bytes()).into_owned();
        Self {
            version: VERSION,
            source,
            fingerprint: fingerprint.identity.clone(),
            listed_at_ms: fingerprint.listed_at_ms,
            command: options.command.iter().map(owned).collect(),
            mode: options.mode,
            at_dispatch: options.at_dispatch,
            given: options.source.as_ref().map(owned),
            results,
            ranges: ranges
                .iter()
                .map(|range| [hex::encode(&range.start), hex::encode(&range.end)])
                .collect(),
        }
    }

    /// The bytes that are stored with the run.
    pub fn encode(&self) -> anyhow::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads stored bytes.
    pub fn decode(bytes: &[u8]) -> anyhow::Result<Self> {
        let description: Self = serde_json::from_slice(bytes)
            .context("what the run is for was not written by this program")?;
        anyhow::ensure!(
            description.version <= VERSION,
            "the run was made by a later version of this program"
        );
        Ok(description)
    }

    /// The source as it was said. The same words may mean something else here.
    pub fn given(&self) -> Option<PathBuf> {
        self.given.as_ref().map(path_of)
    }

    /// What is run.
    #[must_use]
    pub fn command(&self) -> Vec<OsString> {
        let bytes = self.command.iter().map(|part| part.to_bytes().unwrap_or_default());
        bytes.map(OsString::from_vec).collect()
    }

    /// The ranges of the first shards.
    pub fn ranges(&self) -> anyhow::Result<Vec<KeyRange>> {
        let read = |[start, end]: &[String; 2]| {
            Ok(KeyRange { start: hex::decode(start)?, end: hex::decode(end)? })
        };
        let ranges: anyhow::Result<Vec<KeyRange>> = self.ranges.iter().map(read).collect();
        ranges.context("the ranges of the run are damaged")
    }
}
