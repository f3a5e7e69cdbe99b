//! A walk through a tree in key order, from any key on.

use std::io;
use std::path::Path;

use bytes::Bytes;
use shardwright_contracts::limits::MAX_KEY_SIZE;

use super::identity::Identity;
use super::ignore_rules::{self, Rules};
use super::listing::{Kind, Listed, Listing, path_below};
use super::{KEY_SPACE_END, Tree};
use crate::connector::error::{ConnectorError, may_pass};
use crate::connector::notice::{NoticeKind, Notices};
use crate::connector::range::Remainder;

/// The folders on the way to where a walk stands, outermost first.
///
/// Of each folder it knows the entries that are still to come; no more is in memory. Folders that
/// lie before the remainder are never opened.
pub(super) struct Walk {
    folders: Vec<Folder>,
    remainder: Remainder,
}

struct Folder {
    /// Its key, with the `/` at its end; empty for the root.
    prefix: Vec<u8>,
    listing: Listing,
    next: usize,
    rules: Rules,
}

/// A file that was found.
pub(super) struct Found {
    pub(super) key: Bytes,
    pub(super) size: u64,
}

/// What a walk has listed and not yet looked at.
pub(super) struct ToCome {
    pub(super) files: usize,
    pub(super) folders: usize,
    /// The keys of some of the files.
    pub(super) some: Vec<Vec<u8>>,
}

impl Walk {
    /// A walk through what remains. Only a root that cannot be read is an error.
    pub(super) fn begin(
        tree: &Tree,
        remainder: Remainder,
        notices: &mut Notices,
    ) -> Result<Self, ConnectorError> {
        let mut walk = Self { folders: Vec::new(), remainder };
        let root = open_folder(tree, &[], &walk.remainder, notices)
            .map_err(ConnectorError::io("list", &tree.shown))?;
        match root {
            Some(folder) => walk.folders.push(folder),
            None => return Err(ConnectorError::StateFolder { path: tree.shown.clone() }),
        }
        Ok(walk)
    }

    /// The next file below `remainder`'s end, which may lie before that of the walk's beginning.
    pub(super) fn next(
        &mut self,
        tree: &Tree,
        remainder: &Remainder,
        notices: &mut Notices,
    ) -> Result<Option<Found>, ConnectorError> {
        while let Some(folder) = self.folders.last_mut() {
            let Some((name, kind)) = folder.listing.get(folder.next) else {
                self.folders.pop();
                continue;
            };
            let key = [folder.prefix.as_slice(), name].concat();
            if !remainder.is_below_end(&key) {
                return Ok(None);
            }
            folder.next += 1;
            if kind == Kind::Folder {
                self.enter(tree, &key, notices)?;
            } else if let Some(found) = self.look_at(tree, key, kind, notices)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// About how many bytes the walk holds.
    pub(super) fn footprint(&self) -> usize {
        self.folders.iter().map(|folder| folder.prefix.len() + folder.listing.footprint()).sum()
    }

    /// How many files and folders are still to come below `remainder`'s end, as far as they are
    /// listed, and up to `wanted` of the files, evenly spread.
    pub(super) fn to_come(&self, remainder: &Remainder, wanted: usize) -> ToCome {
        let key = |folder: &Folder, name: &[u8]| [folder.prefix.as_slice(), name].concat();
        let of_kind = |wanted: Kind| {
            let entries = self
                .folders
                .iter()
                .flat_map(|folder| (folder.next..folder.listing.len()).map(move |at| (folder, at)));
            entries.filter(move |(folder, at)| {
                folder.listing.get(*at).is_some_and(|(name, kind)| {
                    kind == wanted && remainder.is_below_end(&key(folder, name))
                })
            })
        };
        let files = of_kind(Kind::File).count();
        let stride = files.div_ceil(wanted.max(1)).max(1);
        let some = of_kind(Kind::File)
            .step_by(stride)
            .filter_map(|(folder, at)| folder.listing.get(at).map(|(name, _)| key(folder, name)));
        ToCome { some: some.collect(), files, folders: of_kind(Kind::Folder).count() }
    }

    /// What the walk was begun with.
    pub(super) fn end(&self) -> &[u8] {
        self.remainder.end()
    }

    fn enter(
        &mut self,
        tree: &Tree,
        prefix: &[u8],
        notices: &mut Notices,
    ) -> Result<(), ConnectorError> {
        // Whatever lies in it has at least one byte more.
        if prefix.len() >= MAX_KEY_SIZE || prefix >= KEY_SPACE_END {
            notices.add(prefix, NoticeKind::TooLong, None);
            return Ok(());
        }
        if self.ignores(tree, prefix, true) {
            return Ok(());
        }
        match open_folder(tree, prefix, &self.remainder, notices) {
            Ok(Some(folder)) => self.folders.push(folder),
            Ok(None) => notices.add(prefix, NoticeKind::State, None),
            Err(error) => passed_over(tree, prefix, error, notices)?,
        }
        Ok(())
    }

    fn look_at(
        &self,
        tree: &Tree,
        key: Vec<u8>,
        kind: Kind,
        notices: &mut Notices,
    ) -> Result<Option<Found>, ConnectorError> {
        if self.ignores(tree, &key, false) {
            return Ok(None);
        }
        if key.len() > MAX_KEY_SIZE || key.as_slice() >= KEY_SPACE_END {
            notices.add(&key, NoticeKind::TooLong, None);
            return Ok(None);
        }
        let notice = match kind {
            Kind::Symlink => NoticeKind::Symlink,
            Kind::Special => NoticeKind::Special,
            Kind::File | Kind::Folder => match path_below(&tree.root, &key).symlink_metadata() {
                Ok(metadata) if tree.forbidden.contains(Identity::of(&metadata)) => {
                    NoticeKind::State
                }
                Ok(metadata) if metadata.is_file() => {
                    return Ok(Some(Found { key: key.into(), size: metadata.len() }));
                }
                Ok(_) => NoticeKind::Vanished,
                Err(error) => {
                    passed_over(tree, &key, error, notices)?;
                    return Ok(None);
                }
            },
        };
        notices.add(&key, notice, None);
        Ok(None)
    }

    fn ignores(&self, tree: &Tree, key: &[u8], is_folder: bool) -> bool {
        let inside = self.folders.iter().rev().filter_map(|folder| folder.rules.as_deref());
        tree.ignores(inside, key, is_folder)
    }
}

/// Lists a folder and reads its rules; none if it is one that may not be entered.
fn open_folder(
    tree: &Tree,
    prefix: &[u8],
    remainder: &Remainder,
    notices: &mut Notices,
) -> io::Result<Option<Folder>> {
    // Without the `/`, which would make the system follow a link.
    let path = path_below(&tree.root, prefix.strip_suffix(b"/").unwrap_or(prefix));
    let path = if prefix.is_empty() { tree.root.clone() } else { path };
    let Listed::Entries(listing) = Listing::read(&path, prefix, remainder, &tree.forbidden)? else {
        return Ok(None);
    };
    let rules = if tree.rules_above.is_some() { rules(&path, prefix, notices)? } else { None };
    Ok(Some(Folder { prefix: prefix.to_vec(), listing, next: 0, rules }))
}

fn rules(path: &Path, prefix: &[u8], notices: &mut Notices) -> io::Result<Rules> {
    match ignore_rules::of_folder(path) {
        Err(error) if !may_pass(&error) => {
            let key = [prefix, b".gitignore"].concat();
            notices.add(&key, NoticeKind::Unreadable, Some(error.to_string()));
            Ok(None)
        }
        result => result,
    }
}

/// Makes a notice of what is known to concern one file or folder and to stay so, and an error of
/// everything else: a disk or a server in trouble must not look like a smaller tree.
fn passed_over(
    tree: &Tree,
    key: &[u8],
    error: io::Error,
    notices: &mut Notices,
) -> Result<(), ConnectorError> {
    use rustix::io::Errno;
    let kind = match Errno::from_io_error(&error) {
        // A folder that became a file or a link is no more the folder that was listed.
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => NoticeKind::Vanished,
        Some(Errno::NAMETOOLONG) => NoticeKind::TooLong,
        Some(Errno::ACCESS | Errno::PERM) => NoticeKind::Unreadable,
        _ => return Err(ConnectorError::io("read", &path_below(&tree.root, key))(error)),
    };
    notices.add(key, kind, Some(error.to_string()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::connector::tree::TreeOptions;

    #[test]
    fn what_concerns_one_file_is_a_notice_and_what_concerns_all_is_an_error() {
        let tree = Tree::open("/".into(), &TreeOptions::default()).unwrap();
        let told = |error: io::Error| {
            let mut notices = Notices::default();
            let result = passed_over(&tree, b"a/", error, &mut notices);
            result.map(|()| notices.kept()[0].kind)
        };
        let too_many_names = told(io::ErrorKind::FileTooLarge.into()).unwrap_err();
        assert!(!too_many_names.is_transient(), "{too_many_names}");
        let told = |errno: Errno| told(errno.into());
        assert_eq!(told(Errno::ACCESS).unwrap(), NoticeKind::Unreadable);
        assert_eq!(told(Errno::PERM).unwrap(), NoticeKind::Unreadable);
        assert_eq!(told(Errno::NOENT).unwrap(), NoticeKind::Vanished);
        assert_eq!(told(Errno::LOOP).unwrap(), NoticeKind::Vanished);
        assert_eq!(told(Errno::NAMETOOLONG).unwrap(), NoticeKind::TooLong);
        let lacks = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
        let troubles = [Errno::IO, Errno::STALE, Errno::TIMEDOUT, Errno::NOTCONN];
        for errno in lacks.into_iter().chain(troubles) {
            assert!(told(errno).unwrap_err().is_transient(), "{errno}");
        }
    }
}
