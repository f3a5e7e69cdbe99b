//! The files of a directory tree.

mod exclusions;
mod given;
mod listing;
mod place;
mod rules;
mod survey;
mod walk;

use std::fmt::Write;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use shardwright_contracts::limits::MAX_INITIAL_SHARDS;
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Payload, Position, Quantity,
    SkipReports, SourceEstimate, SourceFingerprint,
};

use crate::filter::PathFilter;
use crate::io::{blocking, io_error, open_source};
use crate::remainder::Remainder;
use crate::split::{even_cuts, nearest_cut};
use crate::walk_cache::WalkCache;
use exclusions::{Identities, Identity, RulesAbove};
use given::Given;
use listing::{Listed, Listing, Request, path_below};
use survey::{Survey, survey};
use walk::{Gaps, Walk};

pub use given::GivenPath;

/// Below every path: no name is empty or has a NUL byte.
const KEY_SPACE_START: &[u8] = &[1];
/// Above every path: file systems allow names of 255 bytes, and a `/` follows a name in a path.
/// A longer name of this byte alone is skipped.
const KEY_SPACE_END: &[u8] = &[0xff; 256];

/// Entries that an estimate or a split reads.
const LOOK_AHEAD: usize = 8_192;
/// Entries that the first division of a tree reads.
const FIRST_LOOK: usize = 65_536;
/// Files whose size an estimate reads.
const SIZES_SAMPLED: usize = 64;

/// What a [`TreeConnector`] skips, and whether it follows links.
#[derive(Clone, Debug, Default)]
pub struct TreeOptions {
    /// Folders and files with the state of runs. They must exist. They are recognized under any
    /// name, by device and inode, and are never opened.
    pub state_folders: Vec<PathBuf>,
    /// Whether to skip `.git`, and what `.gitignore` files and the `info/exclude` of the repository
    /// exclude. Files above the root count as well, if they and the repository belong to the
    /// caller, to root or to the owner of the tree. In a folder with a sticky bit, only files of
    /// the caller, of root and of its owner count. A file of more than 1 MiB, or with too many or
    /// too long patterns, is skipped with a report.
    pub respect_gitignore: bool,
    /// Globs of the only items. Without any, all files are items. A glob is a pattern of a
    /// `.gitignore` file without `!`. A folder counts with everything below it.
    pub include: Vec<String>,
    /// Globs of files and folders that are left out, even if they are included.
    pub exclude: Vec<String>,
    /// Whether a symbolic link counts as what it leads to. Links to themselves and to folders
    /// around them are skipped with a report.
    pub follow_links: bool,
}

/// The regular files of a directory tree. Keys are paths below the root, as raw bytes.
///
/// Keys sort by the bytes of the whole path, so a folder `a` sorts as `a/`, after `a.txt` and
/// before `a0`. Hidden files are items. Only the root itself may be a symbolic link, unless
/// [links are followed](TreeOptions::follow_links).
///
/// Links, special files, and entries that vanish, may not be read or have too long a path are
/// skipped with a report. A failing part of the tree (a bad disk, a dead mount) fails the page. The
/// last retry skips it ([`PageLimit::skips_failing_parts`]).
///
/// A walk holds the unread entries of the folders on its path, nothing else.
pub struct TreeConnector {
    tree: Arc<Tree>,
    walks: Arc<WalkCache<Walk>>,
}

/// Lists a folder. Replaced in tests.
type Lister = fn(&Request<'_>) -> io::Result<Listed>;

struct Tree {
    list: Lister,
    /// The root as it was given.
    shown: PathBuf,
    /// The root, absolute and without links.
    root: PathBuf,
    /// The given paths, if the tree is not everything below the root.
    given: Option<Given>,
    forbidden: Identities,
    filter: PathFilter,
    follows_links: bool,
    /// The rules from above the root, if rules are respected. Given folders have their own.
    rules_above: Option<RulesAbove>,
    listed_at_ms: Option<u64>,
}

impl TreeConnector {
    /// Opens the tree at `root` with default options.
    pub async fn open(root: impl Into<PathBuf>) -> Result<Self, ConnectorError> {
        Self::open_with(root, TreeOptions::default()).await
    }

    /// Opens the tree at `root`.
    pub async fn open_with(
        root: impl Into<PathBuf>,
        options: TreeOptions,
    ) -> Result<Self, ConnectorError> {
        let tree = open_source(root, move |root| Tree::open(root, &options)).await?;
        Ok(Self { tree, walks: Arc::new(WalkCache::new()) })
    }

    /// Opens a tree of several files and folders, at least one. Keys are paths below the folder
    /// around all of them. No glob and no rule leaves a given path out. A path that does not exist
    /// has no items. A single folder is opened like by [`open_with`](Self::open_with).
    pub async fn open_paths(
        paths: Vec<GivenPath>,
        options: TreeOptions,
    ) -> Result<Self, ConnectorError> {
        let mut paths = GivenPath::outermost(paths);
        if let [GivenPath { is_folder: true, shown, .. }] = paths.as_mut_slice() {
            return Self::open_with(std::mem::take(shown), options).await;
        }
        let tree = blocking(move || Tree::open_paths(paths, &options)).await?;
        Ok(Self { tree: Arc::new(tree), walks: Arc::new(WalkCache::new()) })
    }

    /// The range of all possible paths.
    #[must_use]
    pub fn whole_range() -> KeyRange {
        KeyRange::new(KEY_SPACE_START, KEY_SPACE_END)
    }
}

impl Connector for TreeConnector {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let remainder = Remainder::of(range, from.after.as_deref());
        let (tree, walks) = (Arc::clone(&self.tree), Arc::clone(&self.walks));
        blocking(move || tree.page(&walks, remainder, limit)).await
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
        let remainder = Remainder::of(range, after);
        let (tree, walks) = (Arc::clone(&self.tree), Arc::clone(&self.walks));
        blocking(move || Ok(tree.estimate(&walks, &remainder))).await
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let remainder = Remainder::of(range, after);
        let tree = Arc::clone(&self.tree);
        blocking(move || tree.propose_split(&remainder, fraction, LOOK_AHEAD)).await
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        let whole = Self::whole_range();
        let (remainder, tree) = (Remainder::of(&whole, None), Arc::clone(&self.tree));
        let survey = blocking(move || Ok(survey(&tree, &remainder, FIRST_LOOK))).await?;
        let cuts = even_cuts(&survey.pieces, wanted.min(MAX_INITIAL_SHARDS));
        Ok(whole.cut(cuts))
    }

    async fn fingerprint(&self) -> Result<SourceFingerprint, ConnectorError> {
        let Tree { root, given, listed_at_ms, .. } = &*self.tree;
        let mut identity = if given.is_some() { "paths " } else { "tree " }.to_owned();
        for byte in root.as_os_str().as_bytes() {
            match byte {
                b'!'..=b'~' if *byte != b'%' => identity.push(char::from(*byte)),
                other => write!(identity, "%{other:02X}").unwrap_or_default(),
            }
        }
        if let Some(given) = given {
            let mut hasher = blake3::Hasher::new();
            // No path contains NUL.
            for key in given.keys() {
                hasher.update(key).update(b"\0");
            }
            write!(identity, " blake3:{}", hasher.finalize().to_hex()).unwrap_or_default();
        }
        Ok(SourceFingerprint { identity, listed_at_ms: *listed_at_ms })
    }
}

impl Tree {
    fn open(shown: PathBuf, options: &TreeOptions) -> Result<Self, ConnectorError> {
        let opening = |path| io_error("open", path);
        let root = shown.canonicalize().map_err(opening(&shown))?;
        if !root.is_dir() {
            return Err(ConnectorError::NotAFolder { path: shown });
        }
        let rules_above = if options.respect_gitignore {
            Some(exclusions::from_above(&root).map_err(opening(&shown))?)
        } else {
            None
        };
        let tree = Self { rules_above, ..Self::new(shown, root, options)? };
        tree.check_apart(&tree.root, &tree.shown)?;
        Ok(tree)
    }

    fn open_paths(paths: Vec<GivenPath>, options: &TreeOptions) -> Result<Self, ConnectorError> {
        let (root, given) = Given::new(paths);
        let tree = Self::new(root.clone(), root, options)?;
        for folder in given.folders(&tree.root).filter_map(|folder| folder.canonicalize().ok()) {
            tree.check_apart(&folder, &folder)?;
        }
        Ok(Self { given: Some(given), ..tree })
    }

    fn new(shown: PathBuf, root: PathBuf, options: &TreeOptions) -> Result<Self, ConnectorError> {
        let filter = PathFilter::new(&options.include, &options.exclude)?;
        let mut forbidden = Identities::default();
        for path in &options.state_folders {
            forbidden.add(Identity::of(&path.metadata().map_err(io_error("open", path))?));
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let listed_at_ms = since.and_then(|since| u64::try_from(since.as_millis()).ok());
        let rules_above = options.respect_gitignore.then(RulesAbove::default);
        let (list, given, follows_links) = (Listing::read as Lister, None, options.follow_links);
        Ok(Self {
            list,
            shown,
            root,
            given,
            forbidden,
            filter,
            follows_links,
            rules_above,
            listed_at_ms,
        })
    }

    /// Rejects a folder that is, or is inside of, a folder with the state of runs.
    fn check_apart(&self, folder: &Path, shown: &Path) -> Result<(), ConnectorError> {
        for above in folder.ancestors() {
            let identity = Identity::of_link(above).map_err(io_error("open", above))?;
            if self.forbidden.contains(identity) {
                return Err(ConnectorError::StateFolder { path: shown.to_owned() });
            }
        }
        Ok(())
    }

    /// Looks at a file. A link is followed if it is a given path, or if all links are.
    fn stat(&self, key: &[u8], is_given: bool) -> io::Result<Metadata> {
        let path = path_below(&self.root, key);
        if is_given || self.follows_links { path.metadata() } else { path.symlink_metadata() }
    }

    /// The path of a file for its command.
    fn shown(&self, key: &[u8]) -> PathBuf {
        let given = self.given.as_ref().and_then(|given| given.shown(key));
        given.unwrap_or_else(|| path_below(&self.shown, key))
    }

    fn page(
        &self,
        walks: &WalkCache<Walk>,
        remainder: Remainder,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let mut page = Page { ended: true, ..Page::default() };
        let mut gaps = Gaps::new(&mut page.skipped, limit.skips_failing_parts);
        let mut walk = match walks.take(&remainder) {
            Some(walk) => walk,
            None => Walk::begin(self, remainder.clone(), &mut gaps)?,
        };
        let mut bytes = 0;
        while let Some(found) = walk.next(self, &remainder, &mut gaps)? {
            let payload = Payload::File(self.shown(&found.key));
            let item = Item { key: found.key, size: Some(found.size), payload };
            bytes += item.footprint();
            page.items.push(item);
            if limit.is_reached(page.items.len(), bytes) {
                page.ended = false;
                break;
            }
        }
        if gaps.has_skipped_failing_part {
            // The whole tree may be failing by now, which must not look like a smaller tree.
            let mut again = SkipReports::default();
            Walk::begin(self, remainder, &mut Gaps::new(&mut again, true))?;
        }
        if !page.ended
            && let Some(last) = page.items.last()
        {
            let end = walk.end().to_vec();
            walks.put(last.key.to_vec(), end, walk.footprint(), walk);
        }
        Ok(page)
    }

    fn estimate(&self, walks: &WalkCache<Walk>, remainder: &Remainder) -> SourceEstimate {
        // A walk in a large folder has counted it. Listing it again would be too expensive.
        let to_come = walks.peek(remainder, |walk| walk.to_come(remainder, SIZES_SAMPLED));
        if let Some(to_come) = to_come
            && to_come.files > LOOK_AHEAD
        {
            let size = |key: &Vec<u8>| self.stat(key, false).ok();
            let sizes: u64 = to_come.some.iter().filter_map(size).map(|found| found.len()).sum();
            let mean = sizes as f64 / to_come.some.len().max(1) as f64;
            let bytes = Quantity::About((mean * to_come.files as f64) as u64);
            let items = Quantity::About((to_come.files + to_come.folders) as u64);
            return SourceEstimate { items, bytes };
        }
        let Survey { items, bytes, known, .. } = survey(self, remainder, LOOK_AHEAD);
        SourceEstimate { items: known(items), bytes: known(bytes) }
    }

    fn propose_split(
        &self,
        remainder: &Remainder,
        fraction: f64,
        look_ahead: usize,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let Survey { pieces, seen, .. } = survey(self, remainder, look_ahead);
        let cut = nearest_cut(&pieces, fraction);
        // With a file on both sides, the cut is good.
        if let Some(at) = cut
            && seen.get(at) == Some(&true)
            && seen.get(..at).is_some_and(|before| before.contains(&true))
        {
            return Ok(pieces.into_iter().nth(at).map(|piece| piece.key));
        }
        let Some(first) = self.first_file(remainder)? else {
            return Ok(None);
        };
        let after_first = remainder.after(&first);
        // Candidates, nearest first: the cut by weight, pieces before it, and the second file.
        if let Some(at) = cut {
            let earlier = pieces.get(..at).unwrap_or_default().iter().rev();
            let candidates = pieces.get(at).into_iter().chain(earlier.take(8));
            for candidate in candidates {
                match self.first_file(&remainder.from(&candidate.key))? {
                    Some(file) if file != first => return Ok(Some(file)),
                    // For earlier candidates, the first file is the same.
                    Some(_) => break,
                    None => {}
                }
            }
        }
        self.first_file(&after_first)
    }

    fn first_file(&self, remainder: &Remainder) -> Result<Option<Vec<u8>>, ConnectorError> {
        let mut skipped = SkipReports::default();
        // A failing part is not worth a shard.
        let mut gaps = Gaps::new(&mut skipped, true);
        let mut walk = Walk::begin(self, remainder.clone(), &mut gaps)?;
        let found = walk.next(self, remainder, &mut gaps)?;
        Ok(found.map(|found| found.key.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustix::io::Errno;

    use super::*;
    use shardwright_worker::connector::SkipReason;

    #[test]
    fn a_split_does_not_count_unopened_folders_as_files() {
        let folder = tempfile::TempDir::new().unwrap();
        for name in 'a'..='m' {
            fs::create_dir(folder.path().join(name.to_string())).unwrap();
        }
        for name in ["z1", "z2"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let tree = Tree::open(folder.path().to_owned(), &TreeOptions::default()).unwrap();
        let whole = Remainder::of(&TreeConnector::whole_range(), None);
        for look_ahead in 1..30 {
            for fraction in [0.0, 0.5, 1.0] {
                let cut = tree.propose_split(&whole, fraction, look_ahead).unwrap();
                assert_eq!(cut.as_deref(), Some(&b"z2"[..]), "{look_ahead} {fraction}");
            }
        }
    }

    /// Three folders with a file each.
    fn three(list: Lister) -> (tempfile::TempDir, Tree) {
        let folder = tempfile::TempDir::new().unwrap();
        for name in ["a", "bad", "c"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("file"), name).unwrap();
        }
        let tree = Tree::open(folder.path().to_owned(), &TreeOptions::default()).unwrap();
        (folder, Tree { list, ..tree })
    }

    fn page(tree: &Tree, limit: PageLimit) -> Result<Page, ConnectorError> {
        let whole = Remainder::of(&TreeConnector::whole_range(), None);
        tree.page(&WalkCache::new(), whole, limit)
    }

    #[test]
    fn a_failing_folder_fails_a_page_until_it_is_skipped() {
        let (_folder, tree) = three(|request| match request.prefix {
            b"bad/" => Err(Errno::IO.into()),
            _ => Listing::read(request),
        });
        let limit = PageLimit::default();
        assert!(page(&tree, limit).unwrap_err().is_transient());
        let page = page(&tree, limit.skipping_failing_parts()).unwrap();
        let keys: Vec<&[u8]> = page.items.iter().map(|item| item.key.as_ref()).collect();
        assert_eq!((keys, page.ended), (vec![&b"a/file"[..], b"c/file"], true));
        let [report] = page.skipped.kept() else { panic!("{:?}", page.skipped) };
        assert_eq!((report.key.as_ref(), report.reason), (&b"bad/"[..], SkipReason::Unreadable));
        let whole = Remainder::of(&TreeConnector::whole_range(), None);
        let cut = tree.propose_split(&whole, 0.5, LOOK_AHEAD).unwrap();
        assert_eq!(cut.as_deref(), Some(&b"c/file"[..]));
    }

    #[test]
    fn a_tree_that_disappears_during_a_page_is_an_error() {
        static LISTED: AtomicUsize = AtomicUsize::new(0);
        let (_folder, tree) = three(|request| match LISTED.fetch_add(1, Ordering::Relaxed) {
            0 => Listing::read(request),
            _ => Err(Errno::NOTCONN.into()),
        });
        let gone = page(&tree, PageLimit::default().skipping_failing_parts());
        assert!(gone.unwrap_err().is_transient());
    }
}
