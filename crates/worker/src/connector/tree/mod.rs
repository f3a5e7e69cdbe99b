//! The files of a directory tree.

mod identity;
mod ignore_rules;
mod listing;
mod survey;
mod walk;

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ignore::gitignore::Gitignore;
use shardwright_contracts::limits::MAX_INITIAL_SHARDS;

use super::blocking::blocking;
use super::range::Remainder;
use super::shelf::Shelf;
use super::split::{even_cuts, nearest_cut};
use super::{
    Connector, ConnectorError, Estimate, Fingerprint, Item, KeyRange, Notices, Page, PageLimit,
    Payload, Position,
};
use identity::{Identities, Identity};
use listing::path_below;
use survey::{Survey, survey};
use walk::Walk;

/// Below every path: no name is empty or has a zero byte.
const KEY_SPACE_START: &[u8] = &[1];
/// Above every path: file systems allow names of 255 bytes, and what follows a name in a path is
/// a `/`. A file system that allows more, and has a name of 256 times this byte, gets a notice.
const KEY_SPACE_END: &[u8] = &[0xff; 256];

/// How many entries an estimate or a split looks at, and the first division of a tree.
const LOOK_AHEAD: usize = 8_192;
const FIRST_LOOK: usize = 65_536;

/// What a [`TreeConnector`] leaves out.
#[derive(Clone, Debug, Default)]
pub struct TreeOptions {
    /// Folders and files that hold the state of runs. They must exist. They are recognized under
    /// any name, by device and inode, and never entered or opened.
    pub state_folders: Vec<PathBuf>,
    /// Leave out what `.gitignore` files in the tree, around it, and its repository's
    /// `info/exclude` say, and `.git` itself.
    pub respect_gitignore: bool,
}

/// The regular files of a directory tree; keys are their paths in it, as raw bytes.
///
/// Keys sort by the bytes of the whole path, so a folder `a` sorts as `a/`, behind `a.txt` and
/// before `a0`. Hidden files are files like others. Symbolic links are not followed, not even to
/// files; only the root itself may be one. Links, special files, and what vanishes, may not be
/// read or has too long a path are reported as notices.
///
/// A walk holds the entries still to come of the folders it stands in, nothing else.
pub struct TreeConnector {
    tree: Arc<Tree>,
    walks: Arc<Shelf<Walk>>,
}

struct Tree {
    /// As it was given.
    shown: PathBuf,
    /// The same, absolute and without links.
    root: PathBuf,
    forbidden: Identities,
    /// The rules from above the tree, if rules are respected.
    rules_above: Option<Vec<Gitignore>>,
    listed_at_ms: Option<u64>,
}

impl TreeConnector {
    /// Opens the tree at `root`.
    pub async fn open(
        root: impl Into<PathBuf>,
        options: TreeOptions,
    ) -> Result<Self, ConnectorError> {
        let root = root.into();
        let tree = blocking(move || Tree::open(root, &options)).await?;
        Ok(Self { tree: Arc::new(tree), walks: Arc::new(Shelf::new()) })
    }

    /// The range that holds every path there can be.
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
    ) -> Result<Estimate, ConnectorError> {
        let survey = self.survey(range, after, LOOK_AHEAD).await?;
        let known = survey.known;
        Ok(Estimate { items: known(survey.items), bytes: known(survey.bytes) })
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let remainder = Remainder::of(range, after);
        let tree = Arc::clone(&self.tree);
        blocking(move || tree.propose_split(&remainder, fraction)).await
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        let whole = Self::whole_range();
        let survey = self.survey(&whole, None, FIRST_LOOK).await?;
        let cuts = even_cuts(&survey.pieces, wanted.min(MAX_INITIAL_SHARDS));
        Ok(whole.cut(cuts))
    }

    async fn fingerprint(&self) -> Result<Fingerprint, ConnectorError> {
        let mut identity = "tree ".to_owned();
        for byte in self.tree.root.as_os_str().as_bytes() {
            match byte {
                b'!'..=b'~' if *byte != b'%' => identity.push(char::from(*byte)),
                other => write!(identity, "%{other:02X}").unwrap_or_default(),
            }
        }
        Ok(Fingerprint { identity, listed_at_ms: self.tree.listed_at_ms })
    }
}

impl TreeConnector {
    async fn survey(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        budget: usize,
    ) -> Result<Survey, ConnectorError> {
        let remainder = Remainder::of(range, after);
        let tree = Arc::clone(&self.tree);
        blocking(move || Ok(survey(&tree, &remainder, budget))).await
    }
}

impl Tree {
    fn open(shown: PathBuf, options: &TreeOptions) -> Result<Self, ConnectorError> {
        let opening = |path| ConnectorError::io("open", path);
        let root = shown.canonicalize().map_err(opening(&shown))?;
        if !root.is_dir() {
            return Err(ConnectorError::NotAFolder { path: shown });
        }
        let mut forbidden = Identities::default();
        for path in &options.state_folders {
            let metadata = path.metadata().map_err(opening(path))?;
            forbidden.add(Identity::of(&metadata));
        }
        for above in root.ancestors() {
            if forbidden.contains(Identity::of_link(above).map_err(opening(above))?) {
                return Err(ConnectorError::StateFolder { path: shown });
            }
        }
        let rules_above = if options.respect_gitignore {
            Some(ignore_rules::from_above(&root).map_err(opening(&shown))?)
        } else {
            None
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let listed_at_ms = since.and_then(|since| u64::try_from(since.as_millis()).ok());
        Ok(Self { shown, root, forbidden, rules_above, listed_at_ms })
    }

    /// Whether rules say that a key, or a folder's key, is not wanted; `inside` are those of the
    /// folders around it, the nearest first.
    fn ignores<'r>(
        &'r self,
        inside: impl Iterator<Item = &'r Gitignore>,
        key: &[u8],
        is_folder: bool,
    ) -> bool {
        let Some(above) = &self.rules_above else {
            return false;
        };
        let key = key.strip_suffix(b"/").unwrap_or(key);
        let is_repository = key == b".git" || key.ends_with(b"/.git");
        let path = || path_below(&self.root, key);
        is_repository || ignore_rules::ignores(inside.chain(above), &path(), is_folder)
    }

    fn page(
        &self,
        walks: &Shelf<Walk>,
        remainder: Remainder,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let mut page = Page::default();
        let mut walk = match walks.take(&remainder) {
            Some(walk) => walk,
            None => Walk::begin(self, remainder.clone(), &mut page.notices)?,
        };
        let mut bytes = 0;
        while let Some(found) = walk.next(self, &remainder, &mut page.notices)? {
            let payload = Payload::File(path_below(&self.shown, &found.key));
            let item = Item { key: found.key, size: Some(found.size), payload };
            bytes += item.footprint();
            page.items.push(item);
            if limit.is_reached(page.items.len(), bytes) {
                if let Some(last) = page.items.last() {
                    let end = walk.end().to_vec();
                    walks.put(last.key.to_vec(), end, walk.footprint(), walk);
                }
                return Ok(page);
            }
        }
        page.ended = true;
        Ok(page)
    }

    fn propose_split(
        &self,
        remainder: &Remainder,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let survey = survey(self, remainder, LOOK_AHEAD);
        let Some(first) = self.first_file(remainder)? else {
            return Ok(None);
        };
        let behind_first = remainder.behind(&first);
        // Nearest first: the cut by weight, whatever lies on its other side, and the second file.
        if let Some(at) = nearest_cut(&survey.pieces, fraction) {
            let earlier = survey.pieces.get(..at).unwrap_or_default().iter().rev();
            let candidates = survey.pieces.get(at).into_iter().chain(earlier.take(8));
            for candidate in candidates {
                let file = self.first_file(&remainder.from(&candidate.key))?;
                if let Some(file) = file.filter(|file| behind_first.contains(file)) {
                    return Ok(Some(file));
                }
            }
        }
        self.first_file(&behind_first)
    }

    fn first_file(&self, remainder: &Remainder) -> Result<Option<Vec<u8>>, ConnectorError> {
        let mut notices = Notices::default();
        let mut walk = Walk::begin(self, remainder.clone(), &mut notices)?;
        let found = walk.next(self, remainder, &mut notices)?;
        Ok(found.map(|found| found.key.to_vec()))
    }
}
