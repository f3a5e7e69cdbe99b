//! The source of a run.

mod any;
mod filter;
mod journaled;
mod requested;
mod spooled;

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use shardwright_connectors::{
    GivenPath, LineConnector, LineOptions, ObjectUrl, PlainName, Separator, TreeConnector,
    percent_decoded,
};
use shardwright_frontier::{ManifestRowKey, decode_manifest_row_key};
use shardwright_process::KeyText;
#[cfg(feature = "commands")]
use shardwright_process::scan::uri;
use shardwright_store::create_private_folder;

pub use self::any::AnyConnector;
pub use self::filter::Filter;
pub use self::journaled::JournaledSource;
use self::spooled::SPOOL;
pub use self::spooled::left_behind;
use crate::description::{Results, is_canonical, object_url, path_of};
use crate::objects::ObjectConnector;
use crate::readable::{printable, readable};

/// The folder for indexes of files of rows.
const INDEX: &str = "index";

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
        /// Which of its files are items.
        #[serde(default, skip_serializing_if = "Filter::is_default")]
        filter: Filter,
    },
    /// Several files and folders.
    Paths {
        /// Absolute paths, in the order of their keys. A folder ends with a slash. None is inside
        /// of another one.
        paths: Vec<KeyText<'static>>,
        /// Whether `.gitignore` files count.
        gitignore: bool,
        /// Which files of the folders are items.
        #[serde(default, skip_serializing_if = "Filter::is_default")]
        filter: Filter,
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
        /// Which objects are items.
        #[serde(default, skip_serializing_if = "Filter::is_default")]
        filter: Filter,
    },
    /// A connector in the code of a program.
    Library {
        /// The identity in its fingerprint.
        identity: String,
    },
}

impl Source {
    /// Whether this program can have stored the source.
    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Self::Tree { path, .. } | Self::Lines { path, .. } => is_canonical(path),
            Self::Paths { paths, .. } => !paths.is_empty() && paths.iter().all(is_canonical),
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
            Self::Paths { paths, .. } => match paths.as_slice() {
                [only] => path_of(only).display().to_string(),
                several => {
                    let around = folder_around(several);
                    format!("{} files and folders in {}", several.len(), around.display())
                }
            },
            Self::Objects { url, .. } => url.to_string(),
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
            Self::Paths { paths, .. } => {
                let around = uri(folder_around(paths).as_os_str().as_encoded_bytes());
                format!("file://{}/", around.trim_end_matches('/'))
            }
            Self::Objects { url, .. } => trailing(url),
            Self::Library { identity } => format!("{identity}/"),
        }
    }

    /// Whether results at a location would become items of the source. A tree skips the folders of
    /// its own run.
    pub fn holds(&self, results: &Results) -> bool {
        match results {
            Results::Objects { url: results } => match self {
                Self::Objects { url, .. } => trailing(results).starts_with(&trailing(url)),
                Self::Tree { .. }
                | Self::Paths { .. }
                | Self::Lines { .. }
                | Self::Library { .. } => false,
            },
            Results::Folder { path } => self.holds_folder(&path_of(path)),
            Results::Local => false,
        }
    }

    /// Whether the source is a `file://` URL of a folder that contains `folder`.
    pub(crate) fn holds_folder(&self, folder: &Path) -> bool {
        let Self::Objects { url, .. } = self else { return false };
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
            Self::Tree { .. }
            | Self::Paths { .. }
            | Self::Objects { .. }
            | Self::Library { .. } => None,
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

    /// The folder that keys are paths below, if they are paths of files.
    pub(crate) fn root(&self) -> Option<PathBuf> {
        match self {
            Self::Tree { path, .. } => Some(path_of(path)),
            Self::Paths { paths, .. } => Some(folder_around(paths)),
            Self::Lines { .. } | Self::Objects { .. } | Self::Library { .. } => None,
        }
    }

    /// Opens the source. Items are named by the paths as `given`, if they are the same files. Files
    /// in `ours` are not items.
    pub async fn open(
        &self,
        given: &[PathBuf],
        state: &Path,
        ours: &[PathBuf],
    ) -> anyhow::Result<AnyConnector> {
        let opened = match self {
            Self::Tree { path, gitignore, filter } => {
                let path = path_of(path);
                // A relative path may name another folder here.
                let is_same =
                    |given: &&PathBuf| std::fs::canonicalize(given).is_ok_and(|it| it == path);
                let named = given.iter().find(is_same).unwrap_or(&path).clone();
                let options = filter.tree_options(*gitignore, ours);
                TreeConnector::open_with(named, options).await.map(AnyConnector::Tree)
            }
            Self::Paths { paths, gitignore, filter } => {
                let options = filter.tree_options(*gitignore, ours);
                let paths = named(paths, given);
                TreeConnector::open_paths(paths, options).await.map(AnyConnector::Tree)
            }
            Self::Lines { path, null, .. } => {
                let path = path_of(path);
                let separator = if *null { Separator::Nul } else { Separator::Newline };
                create_private_folder(&state.join(INDEX))?;
                let index = Some(index_of(&path, state));
                let options = LineOptions { separator, index, ..LineOptions::default() };
                LineConnector::open_with(path, options).await.map(AnyConnector::Lines)
            }
            Self::Objects { url, filter: Filter { include, exclude, .. } } => {
                let opened = ObjectConnector::open(url.clone()).await;
                let opened = opened.and_then(|it| it.with_globs(include, exclude));
                opened.map(AnyConnector::Objects)
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

/// Stored paths, without other names.
fn stored(paths: &[KeyText<'_>]) -> impl Iterator<Item = GivenPath> {
    paths.iter().map(|text| {
        let is_folder = text.to_bytes().is_some_and(|bytes| bytes.ends_with(b"/"));
        // Without the slash at the end.
        let path: PathBuf = path_of(text).components().collect();
        GivenPath { shown: path.clone(), path, is_folder }
    })
}

fn folder_around(paths: &[KeyText<'_>]) -> PathBuf {
    GivenPath::folder_around(&stored(paths).collect::<Vec<_>>())
}

/// Stored paths with the names that were given. A relative name may be of another file here.
fn named(paths: &[KeyText<'_>], given: &[PathBuf]) -> Vec<GivenPath> {
    let given = given.iter().filter_map(|shown| requested::given_path(shown).ok());
    let mut names: HashMap<PathBuf, PathBuf> = HashMap::new();
    for GivenPath { path, shown, .. } in given {
        names.entry(path).or_insert(shown);
    }
    let paths = stored(paths).map(|stored| match names.remove(&stored.path) {
        Some(shown) => GivenPath { shown, ..stored },
        None => stored,
    });
    paths.collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::path_text;

    #[test]
    fn keys_are_shown_as_names_or_row_numbers() {
        let (path, filter) = (path_text(Path::new("/data")), Filter::default());
        let tree = Source::Tree { path, gitignore: false, filter };
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
        let filter = Filter::default;
        let source = |url: &str| Source::Objects { url: url.into(), filter: filter() };
        let at = |url: &str| Results::Objects { url: url.into() };
        assert!(source("s3://b/in").holds(&at("s3://b/in/out/")));
        assert!(source("s3://b/in/").holds(&at("s3://b/in")));
        assert!(!source("s3://b/in").holds(&at("s3://b/inner")));
        assert!(source("file:///data").holds(&Results::folder(Path::new("/data/out"))));
        assert!(!source("file:///data").holds(&Results::folder(Path::new("/database"))));
    }
}
