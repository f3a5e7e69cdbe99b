//! Several files and folders as one tree.
//!
//! The tree's root is the folder around all of them. The folders between the root and a given path
//! are not read: they have the given paths as their only content.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::listing::{Kind, Listing, path_below};
use crate::remainder::Remainder;

/// A file or folder of a tree of several paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenPath {
    /// Its absolute path. Only the last name may be a symbolic link, which is followed.
    pub path: PathBuf,
    /// Whether it is a folder, whose files are items. A file is an item itself.
    pub is_folder: bool,
    /// Its name, with which the paths of its items begin.
    pub shown: PathBuf,
}

impl GivenPath {
    /// The paths in key order, without those that are given twice or inside of another one.
    #[must_use]
    pub fn outermost(mut paths: Vec<Self>) -> Vec<Self> {
        paths.sort_by_cached_key(Self::absolute_key);
        let mut around: Option<Vec<u8>> = None;
        paths.retain(|one| {
            let key = one.absolute_key();
            let is_inside =
                around.as_ref().is_some_and(|folder| key == *folder || folder_holds(folder, &key));
            if !is_inside {
                around = Some(key);
            }
            !is_inside
        });
        paths
    }

    /// The folder around all of the paths.
    #[must_use]
    pub fn folder_around(paths: &[Self]) -> PathBuf {
        let mut parents = paths.iter().map(|one| one.path.parent().unwrap_or(Path::new("/")));
        let first = parents.next().unwrap_or(Path::new("/"));
        let around = parents.fold(first, |around, parent| {
            let common = around.ancestors().find(|above| parent.starts_with(above));
            common.unwrap_or(Path::new("/"))
        });
        around.to_owned()
    }

    /// The path as a key: a folder ends with a `/`.
    fn absolute_key(&self) -> Vec<u8> {
        let mut key = self.path.as_os_str().as_bytes().to_vec();
        if self.is_folder && !key.ends_with(b"/") {
            key.push(b'/');
        }
        key
    }
}

fn folder_holds(folder: &[u8], key: &[u8]) -> bool {
    folder.ends_with(b"/") && key.starts_with(folder)
}

/// The given paths of a tree, in key order. None is inside of another one.
pub(super) struct Given(Vec<Named>);

struct Named {
    /// Its path below the root. A folder has a trailing `/`.
    key: Vec<u8>,
    shown: PathBuf,
}

impl Given {
    /// The folder around the paths, and the paths in it. At least one must be below a folder.
    pub(super) fn new(paths: Vec<GivenPath>) -> (PathBuf, Self) {
        let paths = GivenPath::outermost(paths);
        let root = GivenPath::folder_around(&paths);
        let named = paths.into_iter().map(|one| {
            let below = one.path.strip_prefix(&root).unwrap_or(&one.path);
            let mut key = below.as_os_str().as_bytes().to_vec();
            if one.is_folder {
                key.push(b'/');
            }
            Named { key, shown: one.shown }
        });
        let given = Self(named.collect());
        (root, given)
    }

    /// The keys of the paths.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|named| named.key.as_slice())
    }

    /// The path that is or holds a key.
    fn around(&self, key: &[u8]) -> Option<&Named> {
        let after = self.0.partition_point(|named| named.key.as_slice() <= key);
        let named = self.0.get(after.checked_sub(1)?)?;
        (named.key == key || folder_holds(&named.key, key)).then_some(named)
    }

    /// The length of the key of the given folder that is or holds the folder `prefix`. None for a
    /// folder above the given paths.
    pub(super) fn start_of(&self, prefix: &[u8]) -> Option<usize> {
        self.around(prefix).map(|named| named.key.len())
    }

    /// The name of the file with a key.
    pub(super) fn shown(&self, key: &[u8]) -> Option<PathBuf> {
        let named = self.around(key)?;
        let below = key.get(named.key.len()..).unwrap_or_default();
        if below.is_empty() {
            return Some(named.shown.clone());
        }
        Some(named.shown.join(OsStr::from_bytes(below)))
    }

    /// The content of a folder above the given paths.
    pub(super) fn listing(&self, prefix: &[u8], remainder: &Remainder) -> io::Result<Listing> {
        let mut listing = Listing::default();
        let first = self.0.partition_point(|named| named.key.as_slice() < prefix);
        let below = self.0.get(first..).unwrap_or_default().iter();
        let below = below.map_while(|named| named.key.strip_prefix(prefix));
        let mut last: &[u8] = &[];
        for rest in below {
            let length = rest.iter().position(|byte| *byte == b'/').map_or(rest.len(), |at| at + 1);
            let name = rest.get(..length).unwrap_or_default();
            let kind = if name.ends_with(b"/") { Kind::Folder } else { Kind::File };
            if name != last && remainder.wants(&[prefix, name].concat()) {
                listing.push(name, kind)?;
            }
            last = name;
        }
        Ok(listing)
    }

    /// The paths of the given folders, below a root.
    pub(super) fn folders(&self, root: &Path) -> impl Iterator<Item = PathBuf> {
        let folders = self.keys().filter_map(|key| key.strip_suffix(b"/"));
        folders.map(move |key| path_below(root, key))
    }
}

#[cfg(test)]
mod tests {
    use shardwright_worker::connector::KeyRange;

    use super::*;

    fn given(paths: &[&str]) -> Vec<GivenPath> {
        let given = paths.iter().map(|path| GivenPath {
            path: path.trim_end_matches('/').into(),
            is_folder: path.ends_with('/'),
            shown: Path::new(path).file_name().unwrap_or_default().into(),
        });
        given.collect()
    }

    #[test]
    fn paths_inside_of_others_are_dropped() {
        let kept = GivenPath::outermost(given(&["/w/b", "/w/a/", "/w/a/x", "/w/a.txt", "/w/b"]));
        let kept: Vec<&Path> = kept.iter().map(|one| one.path.as_path()).collect();
        assert_eq!(kept, ["/w/a.txt", "/w/a", "/w/b"].map(Path::new));
    }

    #[test]
    fn keys_are_paths_below_the_folder_around_all() {
        for (paths, root, keys) in [
            (&["/w/b.txt", "/w/a/"][..], "/w", &["a/", "b.txt"][..]),
            (&["/w/x/y/", "/w/x/z", "/w/q/r"], "/w", &["q/r", "x/y/", "x/z"]),
            (&["/a/", "/b/c"], "/", &["a/", "b/c"]),
            (&["/w/only"], "/w", &["only"]),
        ] {
            let (found, given) = Given::new(given(paths));
            let found_keys: Vec<&[u8]> = given.keys().collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
            assert_eq!((found.as_path(), found_keys), (Path::new(root), keys));
        }
    }

    #[test]
    fn folders_above_list_the_given_paths_only() {
        let (_, given) = Given::new(given(&["/w/x/y/", "/w/x/z", "/w/q"]));
        let whole = Remainder::of(&KeyRange::new("", ""), None);
        let names = |prefix: &[u8], remainder: &Remainder| -> Vec<(Vec<u8>, Kind)> {
            let listing = given.listing(prefix, remainder).unwrap();
            let all = (0..listing.len()).map(|at| listing.get(at).unwrap());
            all.map(|(name, kind)| (name.to_vec(), kind)).collect()
        };
        let expected = [(b"q".to_vec(), Kind::File), (b"x/".to_vec(), Kind::Folder)];
        assert_eq!(names(b"", &whole), expected);
        let expected = [(b"y/".to_vec(), Kind::Folder), (b"z".to_vec(), Kind::File)];
        assert_eq!(names(b"x/", &whole), expected);
        let after = Remainder::of(&KeyRange::new("", ""), Some(b"x/y/1"));
        assert_eq!(names(b"x/", &after), expected);
        assert_eq!(names(b"", &after), [(b"x/".to_vec(), Kind::Folder)]);
        assert_eq!((given.start_of(b"x/"), given.start_of(b"x/y/a/")), (None, Some(4)));
        assert_eq!(given.shown(b"x/y/a/b"), Some("y/a/b".into()));
        assert_eq!(given.shown(b"x/z"), Some("z".into()));
    }
}
