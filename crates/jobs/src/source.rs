//! Where the items of a run come from.

mod journaled;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use shardwright_connectors::{
    LineConnector, LineOptions, Separator, TreeConnector, TreeOptions, spool,
};
use shardwright_frontier::{ManifestRowKey, decode_manifest_row_key};
use shardwright_process::KeyText;
#[cfg(feature = "commands")]
use shardwright_process::scan::uri;
use shardwright_worker::connector::{
    Connector, ConnectorError, KeyRange, Page, PageLimit, Position, SharedConnector,
    SourceEstimate, SourceFingerprint,
};

pub use self::journaled::JournaledSource;
use crate::description::{Results, path_of, path_text};
use crate::objects::ObjectConnector;
use crate::options::JobOptions;
use crate::readable::{printable, readable};

/// The folder for what came through pipes.
const SPOOL: &str = "spool";
/// The folder for what makes files of rows quick to read.
const INDEX: &str = "index";
/// What the name of a file begins with that is still coming through a pipe.
const ARRIVING: &str = "arriving-";

/// A source, as it is written down with its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    /// The files of a folder.
    Tree {
        /// The folder, absolute.
        path: KeyText<'static>,
        /// Whether `.gitignore` files count.
        gitignore: bool,
    },
    /// The rows of a file.
    Lines {
        /// The file, absolute.
        path: KeyText<'static>,
        /// Whether rows end with a zero.
        null: bool,
        /// Whether they came through a pipe, and the file is ours.
        piped: bool,
    },
    /// The objects of a store.
    Objects {
        /// Its address.
        url: String,
    },
    /// A connector in the code of a program.
    Library {
        /// What tells it from another.
        identity: String,
    },
}

impl Source {
    /// The requested source; a pipe is read to its end.
    pub(crate) async fn from_options(options: &JobOptions, state: &Path) -> anyhow::Result<Self> {
        if let Some(lines) = &options.lines {
            let piped = lines.as_os_str() == "-";
            let path = if piped { read_pipe(state).await? } else { file_of_rows(lines)? };
            return Ok(Self::Lines { path: path_text(&path), null: options.null, piped });
        }
        let source = options.source.as_deref().unwrap_or_default();
        if let Some(url) = source.to_str().filter(|source| source.contains("://")) {
            return Ok(Self::Objects { url: url.to_owned() });
        }
        let path = absolute(Path::new(source))?;
        if path.is_file() {
            anyhow::ensure!(
                !options.is_scan(),
                "{} is a file; name the folder that it is in, which is looked through",
                path.display()
            );
            let path = path.display();
            anyhow::bail!("{path} is a file; say `--lines {path}` to work on its rows");
        }
        Ok(Self::Tree { path: path_text(&path), gitignore: options.gitignore })
    }

    /// What it is called, for people.
    pub fn title(&self) -> String {
        printable(&self.shown()).into_owned()
    }

    /// What it is called.
    pub fn shown(&self) -> String {
        match self {
            Self::Lines { piped: true, .. } => "the rows of a pipe".to_owned(),
            Self::Tree { path, .. } | Self::Lines { path, .. } => {
                path_of(path).display().to_string()
            }
            Self::Objects { url } => url.clone(),
            Self::Library { identity } => identity.clone(),
        }
    }

    /// The address below which its items are, with a slash at its end.
    #[cfg(feature = "commands")]
    pub fn base(&self) -> String {
        match self {
            Self::Tree { path, .. } | Self::Lines { path, .. } => {
                let path = uri(&path.to_bytes().unwrap_or_default());
                format!("file://{}/", path.trim_end_matches('/'))
            }
            Self::Objects { url } => format!("{}/", url.trim_end_matches('/')),
            Self::Library { identity } => format!("{identity}/"),
        }
    }

    /// Whether what is kept at an address, or in a folder, would be items of it. A tree passes its
    /// own folders over, wherever they are in it.
    pub fn holds(&self, results: &Results) -> bool {
        match results {
            Results::Objects { url: address } => match self {
                Self::Objects { url } => trailing(address).starts_with(&trailing(url)),
                Self::Tree { .. } | Self::Lines { .. } | Self::Library { .. } => false,
            },
            Results::Folder { path } => self.holds_folder(&path_of(path)),
            Results::Local => false,
        }
    }

    /// Whether it is an object store whose objects are the files of a folder on this machine, and
    /// `folder` is in it.
    pub(crate) fn holds_folder(&self, folder: &Path) -> bool {
        let Self::Objects { url } = self else { return false };
        let root = folder_of_url(url).map(|root| std::fs::canonicalize(&root).unwrap_or(root));
        root.is_some_and(|root| folder.starts_with(root))
    }

    /// A key as people call it: a row by its number, counted from one.
    pub fn key_shown(&self, key: &[u8]) -> String {
        let row = match self {
            Self::Lines { .. } => key.get(..ManifestRowKey::ENCODED_LEN),
            Self::Tree { .. } | Self::Objects { .. } | Self::Library { .. } => None,
        };
        match row.and_then(decode_manifest_row_key) {
            // What goes on behind a row's key is the place right behind it.
            Some(row) if key.len() > ManifestRowKey::ENCODED_LEN => {
                format!("row {}", row.row.saturating_add(2))
            }
            Some(row) => format!("row {}", row.row.saturating_add(1)),
            // No name has a zero in it; as the last byte it means what follows right behind.
            None => match key.split_last() {
                Some((0, name)) => format!("behind {}", readable(name)),
                _ => readable(key),
            },
        }
    }

    /// The files in a state folder that serve to read it, and nothing else.
    pub fn kept_in(&self, state: &Path) -> Vec<PathBuf> {
        let Self::Lines { path, piped, .. } = self else { return Vec::new() };
        let path = path_of(path);
        let mut kept = vec![index_of(&path, state)];
        // What came through a pipe into another folder is for others to take away.
        if *piped && path.starts_with(state.join(SPOOL)) {
            kept.push(path);
        }
        kept
    }

    /// Opens it; items are named as it was `given`, if that is the same. Nothing of `ours` is an
    /// item.
    pub async fn open(
        &self,
        given: Option<&Path>,
        state: &Path,
        ours: &[PathBuf],
    ) -> anyhow::Result<AnyConnector> {
        let opened = match self {
            Self::Tree { path, gitignore } => {
                let options =
                    TreeOptions { state_folders: ours.to_vec(), respect_gitignore: *gitignore };
                let path = path_of(path);
                // The same words may mean another folder elsewhere.
                let is_same =
                    |given: &&Path| std::fs::canonicalize(given).is_ok_and(|it| it == path);
                let named = given.filter(is_same).unwrap_or(&path).to_owned();
                TreeConnector::open_with(named, options).await.map(AnyConnector::Tree)
            }
            Self::Lines { path, null, .. } => {
                let path = path_of(path);
                let separator = if *null { Separator::Nul } else { Separator::Newline };
                std::fs::create_dir_all(state.join(INDEX))?;
                let index = Some(index_of(&path, state));
                let options = LineOptions { separator, index, ..LineOptions::default() };
                LineConnector::open_with(path, options).await.map(AnyConnector::Lines)
            }
            Self::Objects { url } => {
                ObjectConnector::open(url.clone()).await.map(AnyConnector::Objects)
            }
            Self::Library { .. } => anyhow::bail!(
                "the source {} is code of the program that began the run: run that program again",
                self.title()
            ),
        };
        opened.with_context(|| format!("the source {} cannot be opened", self.title()))
    }
}

fn index_of(path: &Path, state: &Path) -> PathBuf {
    let digest = blake3::hash(path.as_os_str().as_encoded_bytes());
    state.join(INDEX).join(&digest.to_hex()[..16])
}

fn trailing(address: &str) -> String {
    format!("{}/", address.trim_end_matches('/'))
}

/// The folder that an address like `file:///data` means.
pub(crate) fn folder_of_url(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let (bytes, mut decoded) = (path.as_bytes(), Vec::with_capacity(path.len()));
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped.filter(|_| byte == b'%') {
            Some(value) => decoded.push(value),
            None => decoded.push(byte),
        }
        at += if byte == b'%' && escaped.is_some() { 3 } else { 1 };
    }
    path.starts_with('/').then(|| OsString::from_vec(decoded).into())
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::fs::canonicalize(path).with_context(|| format!("{} cannot be found", path.display()))
}

/// A file whose rows can be read again by whoever goes on. Of anything else it is said what to do
/// instead; a pipe that the shell made has no path that could be followed.
fn file_of_rows(path: &Path) -> anyhow::Result<PathBuf> {
    let (found, shown) = (std::fs::metadata(path), path.display());
    anyhow::ensure!(
        !found.as_ref().is_ok_and(|found| found.is_dir()),
        "{shown} is a folder; say it without `--lines` to work on its files"
    );
    anyhow::ensure!(
        !found.is_ok_and(|found| !found.is_file()),
        "{shown} is not a file that can be read twice; say `--lines -` and give the rows as input, \
         which is kept"
    );
    absolute(path)
}

/// Keeps what comes through the pipe, under a name made of what it is.
async fn read_pipe(state: &Path) -> anyhow::Result<PathBuf> {
    let folder = state.join(SPOOL);
    std::fs::create_dir_all(&folder)?;
    // Others that have the folder as well may have the same process ids.
    let arriving = folder.join(format!("{ARRIVING}{:016x}", fastrand::u64(..)));
    spool(std::io::stdin(), &arriving).await.context("the input cannot be kept")?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(&arriving)?)?;
    let kept = folder.join(&hasher.finalize().to_hex()[..32]);
    std::fs::rename(&arriving, &kept)?;
    absolute(&kept)
}

/// The files of pipes that ended before they were read, and were left behind long ago.
pub fn left_behind(state: &Path, age: Duration) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(state.join(SPOOL)) else { return Vec::new() };
    let is_old = |path: &PathBuf| {
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|elapsed| elapsed >= age))
    };
    let is_arriving = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(ARRIVING.as_bytes()) || name.starts_with(b".spool-")
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(is_arriving).filter(is_old).collect()
}

/// Whichever source was chosen.
pub enum AnyConnector {
    /// The files of a folder.
    Tree(TreeConnector),
    /// The rows of a file.
    Lines(LineConnector),
    /// The objects of a store.
    Objects(ObjectConnector),
    /// One in the code of a program.
    Library(SharedConnector),
}

/// Does with whichever source it is what is said.
macro_rules! with {
    ($any:ident, $connector:ident => $work:expr) => {
        match $any {
            AnyConnector::Tree($connector) => $work,
            AnyConnector::Lines($connector) => $work,
            AnyConnector::Objects($connector) => $work,
            AnyConnector::Library($connector) => $work,
        }
    };
}

impl Connector for AnyConnector {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        with!(self, connector => connector.page(range, from, limit).await)
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
        with!(self, connector => connector.estimate(range, after).await)
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        with!(self, connector => connector.propose_split(range, after, fraction).await)
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        with!(self, connector => connector.initial_ranges(wanted).await)
    }

    async fn fingerprint(&self) -> Result<SourceFingerprint, ConnectorError> {
        with!(self, connector => connector.fingerprint().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_people_call_them() {
        let tree = Source::Tree { path: path_text(Path::new("/data")), gitignore: false };
        assert_eq!(tree.key_shown(b"a/b.txt"), "a/b.txt");
        assert_eq!(tree.key_shown(b"a/b.txt\0"), "behind a/b.txt");
        let path = path_text(Path::new("/rows"));
        let lines = Source::Lines { path, null: false, piped: false };
        let key = [0_u64.to_be_bytes(), 41_u64.to_be_bytes()].concat();
        assert_eq!(lines.key_shown(&key), "row 42");
        assert_eq!(lines.key_shown(&[key.as_slice(), b"\0"].concat()), "row 43");
    }

    #[test]
    fn an_address_of_files_means_a_folder() {
        let folder = |url| folder_of_url(url);
        assert_eq!(folder("file:///data/out"), Some("/data/out".into()));
        assert_eq!(folder("file://localhost/a%20b%zz%"), Some("/a b%zz%".into()));
        assert_eq!(folder("file://elsewhere/data"), None);
        assert_eq!(folder("s3://bucket/out"), None);
    }

    #[test]
    fn what_is_kept_in_a_source_of_objects_would_be_items_of_it() {
        let source = |url: &str| Source::Objects { url: url.to_owned() };
        let at = |url: &str| Results::Objects { url: url.to_owned() };
        assert!(source("s3://b/in").holds(&at("s3://b/in/out/")));
        assert!(source("s3://b/in/").holds(&at("s3://b/in")));
        assert!(!source("s3://b/in").holds(&at("s3://b/inner")));
        assert!(source("file:///data").holds(&Results::folder(Path::new("/data/out"))));
        assert!(!source("file:///data").holds(&Results::folder(Path::new("/database"))));
    }
}
