//! The source of a run.

mod journaled;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use shardwright_connectors::{
    LineConnector, LineOptions, ObjectUrl, PlainName, Separator, TreeConnector, TreeOptions,
    open_regular, percent_decoded, spool,
};
use shardwright_engine::random;
use shardwright_frontier::{ManifestRowKey, decode_manifest_row_key};
use shardwright_process::KeyText;
#[cfg(feature = "commands")]
use shardwright_process::scan::uri;
use shardwright_store::create_private_folder;
use shardwright_worker::connector::{
    Connector, ConnectorError, KeyRange, Page, PageLimit, Position, SharedConnector,
    SourceEstimate, SourceFingerprint,
};

pub use self::journaled::JournaledSource;
use crate::description::{Results, is_canonical, object_url, path_of, path_text};
use crate::objects::ObjectConnector;
use crate::options::JobOptions;
use crate::readable::{printable, readable};

/// The folder for spooled input.
const SPOOL: &str = "spool";
/// The folder for indexes of files of rows.
const INDEX: &str = "index";
/// Prefix of files that are still being spooled.
const ARRIVING: &str = "arriving-";

/// A source, as it is stored with its run.
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
        /// Whether rows are separated by NUL.
        null: bool,
        /// Whether the file was spooled from stdin.
        piped: bool,
    },
    /// The objects of a store.
    Objects {
        /// Its URL.
        #[serde(with = "object_url")]
        url: ObjectUrl,
    },
    /// A connector in the code of a program.
    Library {
        /// The identity in its fingerprint.
        identity: String,
    },
}

impl Source {
    /// The requested source. Stdin is spooled to its end.
    pub(crate) async fn from_options(options: &JobOptions, state: &Path) -> anyhow::Result<Self> {
        if let Some(source) = Self::without_stdin(options)? {
            return Ok(source);
        }
        let path = path_text(&read_pipe(state).await?);
        Ok(Self::Lines { path, null: options.null, piped: true })
    }

    /// The requested source, unless it is stdin.
    pub(crate) fn without_stdin(options: &JobOptions) -> anyhow::Result<Option<Self>> {
        if let Some(lines) = &options.lines {
            if lines.as_os_str() == "-" {
                return Ok(None);
            }
            let path = path_text(&file_of_rows(lines)?);
            return Ok(Some(Self::Lines { path, null: options.null, piped: false }));
        }
        let source = options.source.as_deref().unwrap_or_default();
        if let Some(url) = source.to_str().filter(|source| source.contains("://")) {
            return Ok(Some(Self::Objects { url: url.into() }));
        }
        let path = absolute(Path::new(source))?;
        if path.is_file() {
            anyhow::ensure!(
                !options.is_scan(),
                "{} is a file; name its folder, whose files are scanned",
                path.display()
            );
            let path = path.display();
            anyhow::bail!("{path} is a file; use `--lines {path}` to process its rows");
        }
        Ok(Some(Self::Tree { path: path_text(&path), gitignore: options.gitignore }))
    }

    /// Whether this program can have stored the source.
    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Self::Tree { path, .. } | Self::Lines { path, .. } => is_canonical(path),
            Self::Objects { .. } | Self::Library { .. } => true,
        }
    }

    /// Whether its items have row numbers.
    #[cfg(feature = "commands")]
    pub(crate) const fn has_row_numbers(&self) -> bool {
        matches!(self, Self::Lines { .. })
    }

    /// Its name, safe for a terminal.
    pub fn title(&self) -> String {
        printable(&self.shown()).into_owned()
    }

    /// Its name.
    pub fn shown(&self) -> String {
        match self {
            Self::Lines { piped: true, .. } => "the rows of a pipe".to_owned(),
            Self::Tree { path, .. } | Self::Lines { path, .. } => {
                path_of(path).display().to_string()
            }
            Self::Objects { url } => url.to_string(),
            Self::Library { identity } => identity.clone(),
        }
    }

    /// The URL of its items, with a trailing slash.
    #[cfg(feature = "commands")]
    pub fn base(&self) -> String {
        match self {
            Self::Tree { path, .. } | Self::Lines { path, .. } => {
                let path = uri(&path.to_bytes().unwrap_or_default());
                format!("file://{}/", path.trim_end_matches('/'))
            }
            Self::Objects { url } => trailing(url),
            Self::Library { identity } => format!("{identity}/"),
        }
    }

    /// Whether results at a location would become items of the source. A tree skips the folders of
    /// its own run.
    pub fn holds(&self, results: &Results) -> bool {
        match results {
            Results::Objects { url: results } => match self {
                Self::Objects { url } => trailing(results).starts_with(&trailing(url)),
                Self::Tree { .. } | Self::Lines { .. } | Self::Library { .. } => false,
            },
            Results::Folder { path } => self.holds_folder(&path_of(path)),
            Results::Local => false,
        }
    }

    /// Whether the source is a `file://` URL of a folder that contains `folder`.
    pub(crate) fn holds_folder(&self, folder: &Path) -> bool {
        let Self::Objects { url } = self else { return false };
        let root =
            folder_of_url(url.as_str()).map(|root| std::fs::canonicalize(&root).unwrap_or(root));
        root.is_some_and(|root| folder.starts_with(root))
    }

    /// Rejects a source that contains a folder of the run and cannot skip it.
    pub(crate) fn ensure_apart(&self, folder: &Path) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.holds_folder(folder),
            "{} is part of the source; give the source as a folder instead of a URL, which skips \
             that folder",
            folder.display()
        );
        Ok(())
    }

    /// Rejects a source of which the results would become items.
    pub(crate) fn ensure_without(&self, results: &Results) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.holds(results),
            "{} is part of the source, so results would become items; choose another --out",
            results.location()
        );
        Ok(())
    }

    /// A key for display: a row by its number, from 1.
    pub fn key_shown(&self, key: &[u8]) -> String {
        let row = match self {
            Self::Lines { .. } => key.get(..ManifestRowKey::ENCODED_LEN),
            Self::Tree { .. } | Self::Objects { .. } | Self::Library { .. } => None,
        };
        match row.and_then(decode_manifest_row_key) {
            // A bound that extends a row's key is right after the row.
            Some(row) if key.len() > ManifestRowKey::ENCODED_LEN => {
                format!("row {}", row.row.saturating_add(2))
            }
            Some(row) => format!("row {}", row.row.saturating_add(1)),
            // No name contains NUL. As the last byte it means right after the name.
            None => match key.split_last() {
                Some((0, name)) => format!("after {}", readable(name)),
                _ => readable(key),
            },
        }
    }

    /// A cut between two items for display: `at` a key, or `after` a name.
    pub fn cut_shown(&self, cut: &[u8]) -> String {
        let (shown, is_row) = (self.key_shown(cut), matches!(self, Self::Lines { .. }));
        if cut.ends_with(b"\0") && !is_row { shown } else { format!("at {shown}") }
    }

    /// Files in a state folder that only serve to read the source.
    pub fn kept_in(&self, state: &Path) -> Vec<PathBuf> {
        let Self::Lines { path, piped, .. } = self else { return Vec::new() };
        let (path, spool) = (path_of(path), state.join(SPOOL));
        let mut kept = vec![index_of(&path, state)];
        // A spooled file in another state folder is not ours to delete.
        let spooled = PlainName::of(&path, &spool).filter(|_| *piped);
        kept.extend(spooled.map(|name| name.in_folder(&spool)));
        kept
    }

    /// Opens the source. Items are named by the path as `given`, if it is the same folder. Files in
    /// `ours` are not items.
    pub async fn open(
        &self,
        given: Option<&Path>,
        state: &Path,
        ours: &[PathBuf],
    ) -> anyhow::Result<AnyConnector> {
        let opened = match self {
            Self::Tree { path, gitignore } => {
                let options = TreeOptions {
                    state_folders: ours.to_vec(),
                    respect_gitignore: *gitignore,
                    ..TreeOptions::default()
                };
                let path = path_of(path);
                // A relative path may name another folder here.
                let is_same =
                    |given: &&Path| std::fs::canonicalize(given).is_ok_and(|it| it == path);
                let named = given.filter(is_same).unwrap_or(&path).to_owned();
                TreeConnector::open_with(named, options).await.map(AnyConnector::Tree)
            }
            Self::Lines { path, null, .. } => {
                let path = path_of(path);
                let separator = if *null { Separator::Nul } else { Separator::Newline };
                create_private_folder(&state.join(INDEX))?;
                let index = Some(index_of(&path, state));
                let options = LineOptions { separator, index, ..LineOptions::default() };
                LineConnector::open_with(path, options).await.map(AnyConnector::Lines)
            }
            Self::Objects { url } => {
                ObjectConnector::open(url.clone()).await.map(AnyConnector::Objects)
            }
            Self::Library { .. } => anyhow::bail!(
                "the source {} is code of the program that started the run; start that \
                 program again",
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

fn trailing(url: &ObjectUrl) -> String {
    format!("{}/", url.as_str().trim_end_matches('/'))
}

/// The folder of a `file://` URL.
pub(crate) fn folder_of_url(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    path.starts_with('/').then(|| OsString::from_vec(percent_decoded(path)).into())
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::fs::canonicalize(path)
        .with_context(|| format!("{} does not exist or cannot be read", path.display()))
}

/// Checks that rows can be read again when the run is resumed. The error for a folder or a pipe
/// names the alternative.
fn file_of_rows(path: &Path) -> anyhow::Result<PathBuf> {
    let (found, shown) = (std::fs::metadata(path), path.display());
    anyhow::ensure!(
        !found.as_ref().is_ok_and(|found| found.is_dir()),
        "{shown} is a folder; omit `--lines` to process its files"
    );
    anyhow::ensure!(
        !found.is_ok_and(|found| !found.is_file()),
        "{shown} is not a file that can be read twice; use `--lines -` and write the rows to \
         stdin, which is stored"
    );
    absolute(path)
}

/// Spools stdin into a file that is named by its digest.
async fn read_pipe(state: &Path) -> anyhow::Result<PathBuf> {
    let folder = state.join(SPOOL);
    create_private_folder(&folder)?;
    // Random, because processes of other machines may share the folder.
    let arriving = folder.join(format!("{ARRIVING}{:016x}", random()));
    spool(std::io::stdin(), &arriving).await.context("stdin cannot be stored")?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(open_regular(&arriving)?)?;
    let kept = folder.join(&hasher.finalize().to_hex()[..32]);
    std::fs::rename(&arriving, &kept)?;
    absolute(&kept)
}

/// Incomplete spool files older than `age`.
pub fn left_behind(state: &Path, age: Duration) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(state.join(SPOOL)) else { return Vec::new() };
    let is_old = |path: &PathBuf| {
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|elapsed| elapsed >= age))
    };
    let is_arriving = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let is_named = name.starts_with(ARRIVING.as_bytes()) || name.starts_with(b".spool-");
        is_named && path.symlink_metadata().is_ok_and(|found| found.is_file())
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(is_arriving).filter(is_old).collect()
}

/// The connector, by the kind of source.
pub enum AnyConnector {
    /// The files of a folder.
    Tree(TreeConnector),
    /// The rows of a file.
    Lines(LineConnector),
    /// The objects of a store.
    Objects(ObjectConnector),
    /// A connector in the code of a program.
    Library(SharedConnector),
}

/// Evaluates an expression with the connector of any variant.
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
    fn keys_are_shown_as_names_or_row_numbers() {
        let tree = Source::Tree { path: path_text(Path::new("/data")), gitignore: false };
        assert_eq!(tree.key_shown(b"a/b.txt"), "a/b.txt");
        assert_eq!(tree.key_shown(b"a/b.txt\0"), "after a/b.txt");
        let path = path_text(Path::new("/rows"));
        let lines = Source::Lines { path, null: false, piped: false };
        let key = [0_u64.to_be_bytes(), 41_u64.to_be_bytes()].concat();
        assert_eq!(lines.key_shown(&key), "row 42");
        assert_eq!(lines.key_shown(&[key.as_slice(), b"\0"].concat()), "row 43");
        assert_eq!(lines.cut_shown(&[key.as_slice(), b"\0"].concat()), "at row 43");
        assert_eq!(tree.cut_shown(b"a/b.txt\0"), "after a/b.txt");
        assert_eq!(tree.cut_shown(b"a/b.txt"), "at a/b.txt");
    }

    #[test]
    fn only_files_directly_in_the_spool_folder_are_ours() {
        let state = Path::new("/state");
        let kept = |path: &str, piped| {
            let path = path_text(Path::new(path));
            Source::Lines { path, null: false, piped }.kept_in(state).split_off(1)
        };
        assert_eq!(kept("/state/spool/ab12", true), [Path::new("/state/spool/ab12")]);
        assert!(kept("/state/spool/ab12", false).is_empty());
        for path in ["/state/spool/../../x", "/state/spool/..", "/state/spool", "/x/spool/a"] {
            assert!(kept(path, true).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_file_url_is_a_folder() {
        let folder = |url| folder_of_url(url);
        assert_eq!(folder("file:///data/out"), Some("/data/out".into()));
        assert_eq!(folder("file://localhost/a%20b%zz%"), Some("/a b%zz%".into()));
        assert_eq!(folder("file://elsewhere/data"), None);
        assert_eq!(folder("s3://bucket/out"), None);
    }

    #[test]
    fn results_inside_of_the_source_are_recognized() {
        let source = |url: &str| Source::Objects { url: url.into() };
        let at = |url: &str| Results::Objects { url: url.into() };
        assert!(source("s3://b/in").holds(&at("s3://b/in/out/")));
        assert!(source("s3://b/in/").holds(&at("s3://b/in")));
        assert!(!source("s3://b/in").holds(&at("s3://b/inner")));
        assert!(source("file:///data").holds(&Results::folder(Path::new("/data/out"))));
        assert!(!source("file:///data").holds(&Results::folder(Path::new("/database"))));
    }
}
