//! A walk through a tree in key order, from any key.

use std::io;

use bytes::Bytes;
use shardwright_contracts::limits::MAX_KEY_SIZE;
use shardwright_worker::connector::{ConnectorError, SkipReason, SkipReports};

use super::exclusions::{Identity, RulesAbove, skip_reason};
use super::listing::{Kind, Listing, path_below};
use super::place::{Opened, Place};
use super::{KEY_SPACE_END, Tree};
use crate::io::{io_error, is_failing_part, may_pass};
use crate::remainder::Remainder;

/// The folders on the path of a walk, outermost first.
///
/// Each folder holds its unread entries. Folders before the remainder are never opened.
pub(super) struct Walk {
    folders: Vec<Folder>,
    remainder: Remainder,
}

struct Folder {
    /// Its key, with a trailing `/`. Empty for the root.
    prefix: Vec<u8>,
    listing: Listing,
    next: usize,
    place: Place,
}

/// Collects what a walk could not read, as skip reports or as an error.
pub(super) struct Gaps<'n> {
    skipped: &'n mut SkipReports,
    skips_failing_parts: bool,
    /// Whether a failing part was skipped. A source that is gone looks the same.
    pub(super) has_skipped_failing_part: bool,
}

impl<'n> Gaps<'n> {
    pub(super) const fn new(skipped: &'n mut SkipReports, skips_failing_parts: bool) -> Self {
        Self { skipped, skips_failing_parts, has_skipped_failing_part: false }
    }

    /// Whether an entry that failed with `error` is skipped.
    fn is_skipped(&mut self, error: &io::Error) -> bool {
        let skips = self.skips_failing_parts && is_failing_part(error);
        self.has_skipped_failing_part |= skips;
        skips || !may_pass(error)
    }

    /// Reports the files from above whose rules do not apply.
    fn add_rules(&mut self, above: &RulesAbove) {
        for report in &above.skipped {
            self.skipped.add(&report.key, report.reason, report.detail.clone());
        }
    }
}

/// A file that was found.
pub(super) struct Found {
    pub(super) key: Bytes,
    pub(super) size: u64,
}

/// The listed and unread entries of a walk.
pub(super) struct ToCome {
    pub(super) files: usize,
    pub(super) folders: usize,
    /// The keys of some of the files.
    pub(super) some: Vec<Vec<u8>>,
}

impl Walk {
    /// Starts a walk. Fails only if the root cannot be read.
    pub(super) fn begin(
        tree: &Tree,
        remainder: Remainder,
        gaps: &mut Gaps<'_>,
    ) -> Result<Self, ConnectorError> {
        let mut walk = Self { folders: Vec::new(), remainder };
        let root = walk.open(tree, &[], gaps).map_err(io_error("list", &tree.shown))?;
        match root {
            Opened::Folder(listing, place) => walk.push(Vec::new(), listing, place, gaps),
            Opened::Forbidden | Opened::Loop => {
                return Err(ConnectorError::StateFolder { path: tree.shown.clone() });
            }
        }
        if let Some(above) = &tree.rules_above {
            gaps.add_rules(above);
        }
        Ok(walk)
    }

    /// The next file below the end of `remainder`, which may be lower than at the start.
    pub(super) fn next(
        &mut self,
        tree: &Tree,
        remainder: &Remainder,
        gaps: &mut Gaps<'_>,
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
            if tree.leaves_out(self.around(), &key, kind) {
                continue;
            }
            if kind == Kind::Folder {
                self.enter(tree, key, gaps)?;
            } else if let Some(found) = self.check(tree, key, kind, gaps)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Approximate memory of the walk, in bytes.
    pub(super) fn footprint(&self) -> usize {
        let of_folder = |folder: &Folder| {
            folder.prefix.len() + folder.listing.footprint() + folder.place.rules_memory()
        };
        self.folders.iter().map(of_folder).sum()
    }

    /// Counts the listed and unread files and folders below the end of `remainder`. Samples up to
    /// `wanted` of the files, evenly spread.
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

    /// The end of the range with which the walk was started.
    pub(super) fn end(&self) -> &[u8] {
        self.remainder.end()
    }

    /// The folders on the path, the nearest first.
    fn around(&self) -> impl Iterator<Item = &Place> + Clone {
        self.folders.iter().rev().map(|folder| &folder.place)
    }

    fn open(&self, tree: &Tree, prefix: &[u8], gaps: &mut Gaps<'_>) -> io::Result<Opened> {
        tree.open_folder(prefix, self.around(), &self.remainder, |error| {
            if !gaps.is_skipped(&error) {
                return Err(error);
            }
            let key = [prefix, b".gitignore"].concat();
            gaps.skipped.add(&key, skip_reason(&error), Some(error.to_string()));
            Ok(())
        })
    }

    fn push(&mut self, prefix: Vec<u8>, listing: Listing, place: Place, gaps: &mut Gaps<'_>) {
        gaps.add_rules(place.rules_above());
        self.folders.push(Folder { prefix, listing, next: 0, place });
    }

    fn enter(
        &mut self,
        tree: &Tree,
        prefix: Vec<u8>,
        gaps: &mut Gaps<'_>,
    ) -> Result<(), ConnectorError> {
        // Keys in it are at least one byte longer.
        if prefix.len() >= MAX_KEY_SIZE || prefix.as_slice() >= KEY_SPACE_END {
            gaps.skipped.add(&prefix, SkipReason::TooLong, None);
            return Ok(());
        }
        match self.open(tree, &prefix, gaps) {
            Ok(Opened::Folder(listing, place)) => self.push(prefix, listing, place, gaps),
            Ok(Opened::Forbidden) => gaps.skipped.add(&prefix, SkipReason::State, None),
            Ok(Opened::Loop) => gaps.skipped.add(&prefix, SkipReason::Loop, None),
            Err(error) => skip_or_fail(tree, &prefix, error, gaps)?,
        }
        Ok(())
    }

    fn check(
        &self,
        tree: &Tree,
        key: Vec<u8>,
        kind: Kind,
        gaps: &mut Gaps<'_>,
    ) -> Result<Option<Found>, ConnectorError> {
        if key.len() > MAX_KEY_SIZE || key.as_slice() >= KEY_SPACE_END {
            gaps.skipped.add(&key, SkipReason::TooLong, None);
            return Ok(None);
        }
        let is_given = self.around().next().is_some_and(Place::is_above_given);
        let reason = match kind {
            Kind::Special => SkipReason::Special,
            Kind::Symlink if !tree.follows_links => SkipReason::Symlink,
            Kind::Symlink | Kind::File | Kind::Folder => match tree.stat(&key, is_given) {
                Ok(metadata) if tree.forbidden.contains(Identity::of(&metadata)) => {
                    SkipReason::State
                }
                Ok(metadata) if metadata.is_file() => {
                    return Ok(Some(Found { key: key.into(), size: metadata.len() }));
                }
                Ok(_) => SkipReason::Vanished,
                Err(error) => {
                    skip_entry_or_fail(tree, &key, kind, error, gaps)?;
                    return Ok(None);
                }
            },
        };
        gaps.skipped.add(&key, reason, None);
        Ok(None)
    }
}

/// Reports a file or link that cannot be looked at.
fn skip_entry_or_fail(
    tree: &Tree,
    key: &[u8],
    kind: Kind,
    error: io::Error,
    gaps: &mut Gaps<'_>,
) -> Result<(), ConnectorError> {
    use rustix::io::Errno;
    let reason = match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR) if kind == Kind::Symlink => SkipReason::Symlink,
        Some(Errno::LOOP) if kind == Kind::Symlink => SkipReason::Loop,
        _ => return skip_or_fail(tree, key, error, gaps),
    };
    gaps.skipped.add(key, reason, Some(error.to_string()));
    Ok(())
}

/// Reports an entry as skipped if the error is its own and permanent. Every other error is
/// returned: a failing disk or server must not look like a smaller tree.
fn skip_or_fail(
    tree: &Tree,
    key: &[u8],
    error: io::Error,
    gaps: &mut Gaps<'_>,
) -> Result<(), ConnectorError> {
    use rustix::io::Errno;
    let reason = match Errno::from_io_error(&error) {
        // A folder that became a file or a link, or the folder of an ended process.
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::SRCH) => SkipReason::Vanished,
        Some(Errno::NAMETOOLONG) => SkipReason::TooLong,
        _ if gaps.is_skipped(&error) => SkipReason::Unreadable,
        _ => return Err(io_error("read", &path_below(&tree.root, key))(error)),
    };
    gaps.skipped.add(key, reason, Some(error.to_string()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::tree::TreeOptions;

    fn reason(error: io::Error, skips_failing_parts: bool) -> Result<SkipReason, ConnectorError> {
        let tree = Tree::open("/".into(), &TreeOptions::default()).unwrap();
        let mut skipped = SkipReports::default();
        let mut gaps = Gaps::new(&mut skipped, skips_failing_parts);
        skip_or_fail(&tree, b"a/", error, &mut gaps)?;
        Ok(skipped.kept()[0].reason)
    }

    #[test]
    fn errors_of_one_entry_are_skipped_and_others_returned() {
        let too_many_names = io::ErrorKind::FileTooLarge.into();
        assert_eq!(reason(too_many_names, false).unwrap(), SkipReason::Unreadable);
        for (errno, expected) in [
            (Errno::ACCESS, SkipReason::Unreadable),
            (Errno::PERM, SkipReason::Unreadable),
            (Errno::INVAL, SkipReason::Unreadable),
            (Errno::NOENT, SkipReason::Vanished),
            (Errno::LOOP, SkipReason::Vanished),
            (Errno::SRCH, SkipReason::Vanished),
            (Errno::NAMETOOLONG, SkipReason::TooLong),
        ] {
            assert_eq!(reason(errno.into(), false).unwrap(), expected, "{errno}");
        }
        for errno in [Errno::IO, Errno::STALE, Errno::TIMEDOUT, Errno::NOTCONN, Errno::MFILE] {
            assert!(reason(errno.into(), false).unwrap_err().is_transient(), "{errno}");
        }
    }

    #[test]
    fn failing_parts_are_skipped_on_request_but_shortages_never() {
        for errno in [Errno::IO, Errno::STALE, Errno::TIMEDOUT, Errno::NOTCONN] {
            assert_eq!(reason(errno.into(), true).unwrap(), SkipReason::Unreadable, "{errno}");
        }
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            assert!(reason(errno.into(), true).unwrap_err().is_transient(), "{errno}");
        }
    }
}
