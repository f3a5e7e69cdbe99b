//! The entries of a folder, in key order.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, fstat, open, statat};
use rustix::io::Errno;

use super::exclusions::{Identities, Identity};
use crate::remainder::Remainder;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Folder,
    File,
    Symlink,
    Special,
}

/// A folder to list.
pub(super) struct Request<'r> {
    pub(super) path: &'r Path,
    /// Its key, with a trailing `/`. Empty for the root.
    pub(super) prefix: &'r [u8],
    /// Entries that it does not reach are left out.
    pub(super) remainder: &'r Remainder,
    pub(super) forbidden: &'r Identities,
    /// Whether the folder itself may be a link.
    pub(super) may_be_link: bool,
    /// Whether links in it count as what they lead to.
    pub(super) follows_links: bool,
}

/// The entries of a folder that a remainder reaches, sorted.
///
/// The name of a folder has a trailing `/`, so names sort like the keys below them: `a.txt`, `a/`,
/// `a0`. All names are in one buffer, because a folder may have millions.
#[derive(Default)]
pub(super) struct Listing {
    names: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    start: u32,
    length: u16,
    kind: Kind,
}

/// The result of listing a folder.
pub(super) enum Listed {
    Entries(Listing, Identity),
    /// The folder may not be opened.
    Forbidden,
}

impl Listing {
    /// Reads a folder.
    pub(super) fn read(request: &Request<'_>) -> io::Result<Listed> {
        let Request { path, prefix, remainder, forbidden, may_be_link, .. } = *request;
        // Checked before it is opened, so that a forbidden folder is not opened, and again after,
        // because another folder may have replaced it.
        let found = if may_be_link { path.metadata() } else { path.symlink_metadata() };
        if forbidden.contains(Identity::of(&found?)) {
            return Ok(Listed::Forbidden);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let flags = if may_be_link { flags } else { flags | OFlags::NOFOLLOW };
        let folder = open(path, flags, Mode::empty())?;
        let identity = Identity::of_stat(&fstat(&folder)?);
        if forbidden.contains(identity) {
            return Ok(Listed::Forbidden);
        }
        let mut listing = Self::default();
        let mut key = prefix.to_vec();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = kind_of_entry(&folder, &entry, request.follows_links)?;
            key.truncate(prefix.len());
            key.extend_from_slice(name);
            if kind == Kind::Folder {
                key.push(b'/');
            }
            if remainder.wants(&key) {
                listing.push(key.get(prefix.len()..).unwrap_or_default(), kind)?;
            }
        }
        listing.sort();
        Ok(Listed::Entries(listing, identity))
    }

    /// Adds an entry. Entries that are not added in order are sorted later.
    pub(super) fn push(&mut self, name: &[u8], kind: Kind) -> io::Result<()> {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let start = u32::try_from(self.names.len()).map_err(too_large)?;
        let length = u16::try_from(name.len()).map_err(too_large)?;
        self.names.extend_from_slice(name);
        self.entries.push(Entry { start, length, kind });
        Ok(())
    }

    fn sort(&mut self) {
        let Self { names, entries } = self;
        entries.sort_unstable_by(|one, other| name(names, *one).cmp(name(names, *other)));
        names.shrink_to_fit();
        entries.shrink_to_fit();
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The name and kind of an entry. The name of a folder has a trailing `/`.
    pub(super) fn get(&self, at: usize) -> Option<(&[u8], Kind)> {
        let entry = *self.entries.get(at)?;
        Some((name(&self.names, entry), entry.kind))
    }

    /// Approximate memory, in bytes.
    pub(super) fn footprint(&self) -> usize {
        self.names.len() + self.entries.len() * size_of::<Entry>()
    }
}

fn name(names: &[u8], entry: Entry) -> &[u8] {
    let start = entry.start as usize;
    names.get(start..start + usize::from(entry.length)).unwrap_or_default()
}

/// The kind of an entry. If links are followed, the kind of what a link leads to.
fn kind_of_entry(folder: &OwnedFd, entry: &DirEntry, follows_links: bool) -> io::Result<Kind> {
    let name = entry.file_name();
    let kind = match entry.file_type() {
        FileType::Unknown => match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => kind_of(FileType::from_raw_mode(stat.st_mode)),
            // The walk finds that it is gone.
            Err(Errno::NOENT) => Kind::File,
            // It may be a folder, whose files would be missing.
            Err(error) => return Err(error.into()),
        },
        known => kind_of(known),
    };
    if kind != Kind::Symlink || !follows_links {
        return Ok(kind);
    }
    // The walk reports a link that leads nowhere.
    let target = statat(folder, name, AtFlags::empty());
    Ok(target.map_or(Kind::Symlink, |stat| kind_of(FileType::from_raw_mode(stat.st_mode))))
}

fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        FileType::Directory => Kind::Folder,
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    }
}

/// The path of a key below a root.
pub(super) fn path_below(root: &Path, key: &[u8]) -> std::path::PathBuf {
    root.join(OsStr::from_bytes(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_like_the_keys_below_them() {
        let mut listing = Listing::default();
        let names = [("a0", Kind::File), ("a/", Kind::Folder), ("a.txt", Kind::File)];
        for (name, kind) in names {
            listing.push(name.as_bytes(), kind).unwrap();
        }
        listing.sort();
        let sorted: Vec<&[u8]> = (0..3).map(|at| listing.get(at).unwrap().0).collect();
        assert_eq!(sorted, [&b"a.txt"[..], b"a/", b"a0"]);
        assert!(listing.get(3).is_none());
    }
}
