//! The entries of a folder, in key order.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, open, statat};
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
    Entries(Listing),
    /// The folder may not be opened.
    Forbidden,
}

impl Listing {
    /// Reads the folder at `path` with the key `prefix`. Keeps entries that `remainder` reaches.
    pub(super) fn read(
        path: &Path,
        prefix: &[u8],
        remainder: &Remainder,
        forbidden: &Identities,
    ) -> io::Result<Listed> {
        // Checked before it is opened, so that a forbidden folder is not opened, and again after,
        // because another folder may have replaced it.
        if forbidden.contains(Identity::of_link(path)?) {
            return Ok(Listed::Forbidden);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(path, flags, Mode::empty())?;
        if forbidden.contains(Identity::of_stat(&fstat(&folder)?)) {
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
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    match statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => kind_of(FileType::from_raw_mode(stat.st_mode)),
                        // The walk finds that it is gone.
                        Err(Errno::NOENT) => Kind::File,
                        // It may be a folder, whose files would be missing.
                        Err(error) => return Err(error.into()),
                    }
                }
                known => kind_of(known),
            };
            key.truncate(prefix.len());
            key.extend_from_slice(name);
            if kind == Kind::Folder {
                key.push(b'/');
            }
            let wanted = match kind {
                Kind::Folder => remainder.reaches_into(&key),
                Kind::File | Kind::Symlink | Kind::Special => remainder.contains(&key),
            };
            if wanted {
                listing.push(key.get(prefix.len()..).unwrap_or_default(), kind)?;
            }
        }
        listing.sort();
        Ok(Listed::Entries(listing))
    }

    fn push(&mut self, name: &[u8], kind: Kind) -> io::Result<()> {
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
